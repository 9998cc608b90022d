"""Angles between subspaces, and sequences of vectors that keep apart (Section 1.3, Appendix C)."""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from ..tasks import Array


def principal_angles(U: Array, V: Array) -> Array:
    """All principal angles between two subspaces, largest first, in radians.

    Parameters
    ----------
    U, V : array of shape (n, d), (p, d)
        Vectors that span them, as rows; they need not be independent.

    Returns
    -------
    angles : array of shape (min(dim U, dim V),)
        Small ones from their sines, large ones from their cosines (Björck and Golub 1973), so that both are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.theory import principal_angles
    >>> tilted = [[1.0, 0.0, 0.0], [0.0, np.cos(0.3), np.sin(0.3)]]
    >>> principal_angles([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], tilted).round(3)
    array([0.3, 0. ])
    """
    first, second = _basis(U), _basis(V)
    if first.shape[0] != second.shape[0]:
        raise ValueError(f"vectors of {first.shape[0]} and of {second.shape[0]} coordinates have no angle")
    if first.shape[1] < second.shape[1]:
        first, second = second, first  # the smaller one is projected onto the larger
    inner = first.T @ second
    _, cosines, right = np.linalg.svd(inner, full_matrices=False)
    cosines = np.clip(cosines, 0.0, 1.0)
    sines = np.linalg.norm(second @ right.T - first @ (inner @ right.T), axis=0)
    angles = np.where(cosines**2 >= 0.5, np.arcsin(np.clip(sines, 0.0, 1.0)), np.arccos(cosines))
    return np.sort(angles)[::-1]


def subspace_angle(U: Array, V: Array) -> float:
    """theta(U, V): the largest angle that a vector of U has to V; a right angle where V is too small.

    Examples
    --------
    >>> from everspan.theory import subspace_angle
    >>> round(subspace_angle([[1.0, 1.0]], [[1.0, 0.0]]), 4)
    0.7854
    """
    first, second = _basis(U), _basis(V)
    if first.shape[1] > second.shape[1]:
        return float(np.pi / 2.0)
    return float(principal_angles(U, V)[0]) if first.shape[1] else 0.0


def separated(A: Array, gamma: float) -> list[int]:
    """Positions of a gamma-separated subsequence, taken greedily: each at an angle of at least gamma to all before it.

    A vector is taken whenever it may be, which is what lifelong learning does with tasks. In the order given no
    subsequence that starts with the first vector can take a vector earlier; a longer one may exist all the same.

    Examples
    --------
    >>> from everspan.theory import separated
    >>> separated([[1.0, 0.0], [1.0, 0.05], [0.0, 1.0]], gamma=0.1)
    [0, 2]
    """
    rows = np.atleast_2d(np.asarray(A, dtype=float))
    if not 0.0 <= gamma <= np.pi / 2.0:
        raise ValueError(f"gamma must be an angle from 0 to pi / 2, but it is {gamma}")
    basis, taken = np.zeros((rows.shape[1], 0)), []
    for place, row in enumerate(rows):
        length = np.linalg.norm(row)
        if not length:
            continue
        rest = row / length
        for _ in range(2):  # twice is enough
            rest = rest - basis @ (basis.T @ rest)
        sine = float(np.linalg.norm(rest))
        if sine > 1e-12 and math.asin(min(sine, 1.0)) >= gamma:
            taken.append(place)
            basis = np.column_stack([basis, rest / sine])
    return taken


def effective_dimension(A: Array, gamma: float, *, exact_up_to: int = 12) -> int:
    """The gamma-effective dimension: the size of the largest gamma-separated subsequence (Appendix C).

    All subsequences are looked at for at most ``exact_up_to`` vectors; for more, the largest that a greedy choice finds
    from every start, which may be too small. At gamma = 0 it is the rank, however many there are.

    Examples
    --------
    >>> from everspan.theory import effective_dimension
    >>> effective_dimension([[1.0, 0.0], [1.0, 0.05], [0.0, 1.0]], gamma=0.1)
    2
    """
    rows = np.atleast_2d(np.asarray(A, dtype=float))
    if not gamma:
        return int(np.linalg.matrix_rank(rows))
    if len(rows) > exact_up_to:
        return max((len(separated(rows[start:], gamma)) for start in range(len(rows))), default=0)
    best = 0

    def extend(chosen: list[int], start: int) -> None:
        nonlocal best
        best = max(best, len(chosen))
        for place in range(start, len(rows)):
            if len(chosen) + len(rows) - place <= best:
                return
            if len(separated(rows[[*chosen, place]], gamma)) == len(chosen) + 1:
                extend([*chosen, place], place + 1)

    extend([], 0)
    return best


def _basis(vectors: Array) -> Array:
    """An orthonormal basis, as columns."""
    rows = np.atleast_2d(np.asarray(vectors, dtype=float))
    if not np.isfinite(rows).all():
        raise ValueError("vectors must be finite")
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    return cast(Array, right[values > max(rows.shape) * np.finfo(float).eps * values.max(initial=0.0)].T)
