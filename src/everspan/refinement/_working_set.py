"""The refinement program with many features: solve on the features that matter, look at all, add the violated ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import _interior
from ._arrays import Array
from ._interior import InteriorPoint
from ._reduction import reduce_rows

_FIRST_TOLERANCE = 1e-3  # loose while the set still changes
_SUPPORT = 1e-6  # of the largest weight: below it a feature has no say in the bound
_ROUNDS_WITH_DROPS = 20  # after so many rounds the set only grows, so that it must settle


def solve(C: Array, k: int, *, tol: float, max_iterations: int) -> InteriorPoint:
    """The reduced program for all rows of C, in principal coordinates; 1 <= k < r."""
    n, r = C.shape
    size = 10 * r + 100  # of so few features in general position most are tight: a working set would not pay
    if n <= size:
        return _interior.solve(C, k, tol=tol, max_iterations=max_iterations)
    norms = np.einsum("ij,ij->i", C, C)
    chosen = np.zeros(n, dtype=bool)
    chosen[np.argsort(-(C[:, k:] ** 2).sum(axis=1), kind="stable")[:size]] = True  # furthest from the SVD's subspace
    stage, iterations, rounds = max(tol, _FIRST_TOLERANCE), 0, 0
    while True:
        point = _solve_rows(C, np.flatnonzero(chosen), k, stage, max_iterations)
        iterations, rounds = iterations + point.iterations, rounds + 1
        q = np.einsum("ij,ij->i", C @ point.Y, C)
        excess = np.where(chosen, -np.inf, q - q[chosen].max())
        violated = excess > 0.05 * stage * norms.max()
        if violated.any():
            if rounds < _ROUNDS_WITH_DROPS:  # the bound only rises, so what carries no weight may go
                chosen &= point.weights > _SUPPORT * point.weights.max()
            worst = np.argsort(-excess, kind="stable")[: min(int(violated.sum()), max(size, int(chosen.sum())))]
            chosen[worst] = True
        elif stage > tol:
            stage = tol
        else:
            return InteriorPoint(point.Y, point.weights, iterations)


def _solve_rows(C: Array, rows: NDArray[np.intp], k: int, tol: float, max_iterations: int) -> InteriorPoint:
    """Solve on some rows, in their own principal coordinates; the weights of the others are zero."""
    n, r = C.shape
    part = reduce_rows(C[rows])
    weights = np.zeros(n)
    rank = part.C.shape[1]
    if rank <= k:  # these rows fit exactly; spend what is left of the k dimensions on the others
        outside = C - (C @ part.lift) @ part.lift.T
        more = np.linalg.svd(outside, full_matrices=False)[2][: k - rank].T
        basis = np.linalg.qr(np.hstack([part.lift, more]))[0]
        weights[rows] = 1.0 / len(rows)
        return InteriorPoint(np.eye(r) - basis @ basis.T, weights, 0)
    point = _interior.solve(part.C, k, tol=tol, max_iterations=max_iterations)
    weights[rows] = point.weights
    Y = part.lift @ point.Y @ part.lift.T + (np.eye(r) - part.lift @ part.lift.T)
    return InteriorPoint(Y, weights, point.iterations)
