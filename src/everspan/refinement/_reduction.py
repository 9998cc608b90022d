"""From features to the r coordinates that matter.

The program lives in d dimensions, but an optimum is X = Q Y Q' + (I - Q Q') with Q an orthonormal basis of the span of
the features: outside the span X costs nothing. With W = C Q' only C enters, and C only through C C' = W W', the inner
products. We choose the principal coordinates, where C'C is diagonal and descending.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dgesdd

from ._arrays import Array

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Reduction:
    """Features in principal coordinates, and what rounding may have done on the way."""

    C: Array  # (n, r), C'C diagonal with descending entries, all positive
    lift: Array  # rows or combinations: a basis V (r, q) here is lift @ V outside
    outside: Array  # (n,) what is left of each feature outside the r directions that were kept: rounding errors
    slack: float  # the singular values of diag(sqrt p) C are within this of the truth, for any p in the simplex
    slack_squared: float  # and their squares within this, where only inner products were known

    @cached_property
    def largest(self) -> float:
        """The largest |w_i|^2."""
        return float((self.C * self.C).sum(axis=1).max(initial=0.0))

    def distances(self, basis: Array) -> Array:
        """(n, r + 1) distances of all features to the span of the first 0, 1, ..., r columns of an orthonormal basis.

        Each is summed from the coordinates left out, not subtracted from the norm, so small ones keep their digits.
        """
        squares = np.empty((len(self.C), basis.shape[1] + 1))
        squares[:, :-1] = (self.C @ basis) ** 2
        squares[:, -1] = self.outside**2
        tails: Array = np.sqrt(np.cumsum(squares[:, ::-1], axis=1)[:, ::-1])
        return tails


def reduce_rows(W: Array, *, keep_all: bool = False) -> Reduction:
    """Principal coordinates of the rows of W; ``lift`` (d, r) is the orthonormal basis they belong to.

    Directions below the accuracy of the decomposition itself are left out, unless all are to be kept.
    """
    n, d = W.shape
    _, singular, Vt, failed = dgesdd(W, full_matrices=0)
    if failed:  # divide and conquer gives up on a few matrices; the older algorithm does not
        _, singular, Vt = scipy.linalg.svd(W, full_matrices=False, lapack_driver="gesvd")
    smallest = 0.0 if keep_all else 4.0 * _EPS * (n + math.sqrt(d)) * singular[0]
    r = int(np.count_nonzero(singular > smallest))
    outside = np.zeros(n)
    if r < singular.size:
        left = W - (W @ Vt[:r].T) @ Vt[:r]
        outside = np.sqrt(np.einsum("ij,ij->i", left, left))
        outside[outside <= 4.0 * _EPS * (n + np.sqrt(d)) * np.sqrt(np.einsum("ij,ij->i", W, W))] = 0.0
    # C = W V, where V is what the decomposition gave, whatever it is: then only the rounding of one product counts
    # (at most d units per entry) and how far V is from orthonormal.
    V = np.ascontiguousarray(Vt[:r].T)
    off = V.T.dot(V) - np.eye(r)
    defect = math.sqrt(np.vdot(off, off)) + 2.0 * _EPS * d
    norm = math.sqrt((W * W).sum(axis=1).max())
    return Reduction(W.dot(V), V, outside, norm * (math.sqrt(r) * _EPS * (d + 2) + defect), 0.0)


def reduce_gram(G: Array) -> Reduction:
    """The same from inner products: features are known only as w_i = sum over their own span, so ``lift`` is (n, r)."""
    n = len(G)
    values, vectors = np.linalg.eigh(G)
    top = max(float(values[-1]), 0.0)
    if values[0] < -n * n * _EPS * top or values[0] < 0.0 == top:
        raise ValueError(f"G must be positive semidefinite, but it has an eigenvalue of {values[0]:.3g} times its size")
    kept = values > n * _EPS * top
    singular, vectors = np.sqrt(values[kept])[::-1], vectors[:, kept][:, ::-1]
    return Reduction(vectors * singular, vectors / singular, np.zeros(n), 0.0, 4.0 * n * _EPS * top)
