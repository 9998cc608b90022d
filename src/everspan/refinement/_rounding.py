"""From the relaxed optimum to a subspace.

Y is an optimum of the refinement program, P = I - Y a "projection" whose eigenvalues may lie between 0 and 1. Each
rounding returns an orthonormal basis and how many of its columns to take.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dsyevd

from ._arrays import Array

_WHOLE = 1e-7  # eigenvalues of the relaxed P within this of 1 count as 1
_FRACTIONAL = 1e-9  # and on the way, those within this of 0 or 1 as 0 or 1


def by_eigenvalue(Y: Array) -> Array:
    """All eigenvectors of Y, those of the smallest eigenvalues first: V' of Algorithm 3 is a prefix."""
    vectors: Array
    _, vectors, failed = dsyevd(Y.T)  # .T: already in Fortran's order
    if failed:
        raise np.linalg.LinAlgError("the eigenvalues of the relaxed optimum did not converge")
    return vectors


def first_within(distances: Array, k: int, limit: float) -> int:
    """The fewest dimensions q >= k with every feature within ``limit``; ``distances`` as from a `Reduction`."""
    within = distances[:, k:].max(axis=0) <= limit
    within[-1] = True  # all there is
    return k + int(np.argmax(within))


def extreme(C: Array, Y: Array, k: int) -> tuple[Array, int]:
    """Rank reduction: a basis and a dimension of at most k + floor(sqrt(2n + 1/4) - 3/2) at which no distance is lost.

    While P has f fractional eigenvalues and f(f+1)/2 exceeds the number of tight constraints, there is a symmetric S on
    their eigenspace that keeps every tight distance and the trace; walking along it until an eigenvalue reaches 0 or 1
    or another constraint gets tight loses nothing (Tantipongpipat et al. 2019, Theorem 1.7). Directions that P keeps
    whole are set aside first: what is left is of the size of the distances themselves, and so are all tolerances.
    """
    values, U = np.linalg.eigh(Y)
    p = np.clip(1.0 - values, 0.0, 1.0)  # eigenvalues of P, descending
    p[p > 1.0 - _WHOLE] = 1.0
    rest = p < 1.0
    U, whole, p = U[:, rest], U[:, ~rest], p[rest]
    scale = float(np.sqrt(np.einsum("ij,ij->i", C @ U, C @ U).max(initial=0.0))) or 1.0
    worst = float((((C @ U) / scale) ** 2 @ (1.0 - p)).max(initial=0.0))
    tight = np.zeros(len(C), dtype=bool)
    while True:
        fractional = (p > _FRACTIONAL) & (p < 1.0 - _FRACTIONAL)
        coordinates = (C @ U) / scale
        b, slack = coordinates[:, fractional], worst - coordinates**2 @ (1.0 - p)
        tight |= slack <= 1e-7 * worst
        S = _direction(b[tight], p[fractional])
        if S is None:
            break
        step = _longest(S, p[fractional], np.einsum("ij,ij->i", b @ S, b)[~tight], slack[~tight])
        moved, rotation = np.linalg.eigh(np.diag(p[fractional]) + step * S)
        U[:, fractional] = U[:, fractional] @ rotation
        p[fractional] = np.clip(moved, 0.0, 1.0)
    ones = whole.shape[1] + int(np.count_nonzero(p >= 1.0 - _FRACTIONAL))
    fractional_left = (
        int(np.count_nonzero(fractional)) if ones < k else 0
    )  # at k the trace is spent: the rest is rounding
    basis = np.hstack([whole, U[:, np.argsort(-p, kind="stable")]])
    return basis, max(k, ones + fractional_left)


def _direction(b: Array, p: Array) -> Array | None:
    """A symmetric S of norm one with b_i' S b_i = 0 for all rows and tr S = 0; None where counting promises none.

    It starts as the push of every eigenvalue towards its nearer end, less its projection on the constraints, whose
    Gram matrix is the entrywise square of b b'. At an optimum the trace follows from the tight constraints, so it is
    left out where it would be one equation too many.
    """
    f = p.size
    unknowns, equations = f * (f + 1) // 2, len(b)
    if unknowns <= equations or f < 2:
        return None
    if unknowns > equations + 1:
        gram = np.empty((equations + 1, equations + 1))
        gram[:-1, :-1] = (b @ b.T) ** 2
        gram[-1, :-1] = gram[:-1, -1] = np.einsum("ij,ij->i", b, b)
        gram[-1, -1] = f
    else:
        gram = (b @ b.T) ** 2
    inverse = np.linalg.pinv(gram, rcond=1e-14, hermitian=True)
    noise = np.random.default_rng(f).standard_normal((f, f))
    for push in (np.diag(p - 0.5) + 1e-3 * (noise + noise.T), noise + noise.T):
        S = push / np.linalg.norm(push)
        for _ in range(3):  # the Gram matrix squares the condition; repeating makes up for it
            moments = np.append(np.einsum("ij,ij->i", b @ S, b), np.trace(S))[: len(gram)]
            weights = np.append(inverse @ moments, 0.0)
            S = S - (b.T * weights[:equations]) @ b - weights[equations] * np.eye(f)
        size = float(np.linalg.norm(S))
        if size > 1e-6:
            return S / (size if np.trace(S) <= 0.0 else -size)
    return None


def _longest(S: Array, p: Array, change: Array, slack: Array) -> float:
    """The largest step with 0 <= diag(p) + step S <= 1 and every squared distance (it falls by change) in its slack."""
    limits = [np.inf]
    for room, sign in ((p, 1.0), (1.0 - p, -1.0)):
        root = 1.0 / np.sqrt(room)
        lowest = np.linalg.eigvalsh(sign * S * np.multiply.outer(root, root))[0]
        limits.append(-1.0 / lowest if lowest < 0.0 else np.inf)
    rising = change < 0.0
    limits.append(float((slack[rising] / -change[rising]).min(initial=np.inf)))
    return min(limits)
