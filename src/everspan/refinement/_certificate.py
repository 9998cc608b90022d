"""What is proved about an answer, recomputed from the answer alone.

Dual of the refinement program: for any weights p on the simplex, no projection of rank k leaves less than the sum of
the r - k smallest eigenvalues of C' diag(p) C on average under p, hence none leaves less on its worst feature. So
*any* p proves a lower bound, whatever computed it, and the bound below is then lowered by all that rounding could have
added. Eigenvalues are taken as squares of singular values: forming C' diag(p) C would cost half the digits.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dgesdd

from ._arrays import Array
from ._reduction import Reduction

_EPS = float(np.finfo(np.float64).eps)


def lower_bound(reduction: Reduction, weights: Array, k: int) -> float:
    """A distance that no k-dimensional subspace can beat on all features at once."""
    C = reduction.C
    n, r = C.shape
    if k >= r:
        return 0.0
    total = math.fsum(weights) * (1.0 + 4.0 * _EPS)
    _, singular, _, failed = dgesdd(np.sqrt(weights / total)[:, None] * C, compute_uv=0)
    if failed:
        return 0.0
    allowance = reduction.slack + 4.0 * _EPS * (n + r) * singular[0]
    smallest = np.maximum(singular[k:] - allowance, 0.0)
    squares = np.maximum(smallest**2 - reduction.slack_squared, 0.0)
    return math.sqrt(math.fsum(squares)) * (1.0 - 4.0 * _EPS)


def primal_value(reduction: Reduction, Y: Array, rounded: float) -> float:
    """The smaller of two feasible values: sqrt(max c'Yc), and the worst distance to a subspace of dimension k.

    The second matters when the features are a k-dimensional subspace plus tiny noise, where the relaxation is tight.
    """
    relaxed = (reduction.C.dot(Y) * reduction.C).sum(axis=1) + reduction.outside**2
    return min(math.sqrt(max(0.0, float(relaxed.max()))), rounded)
