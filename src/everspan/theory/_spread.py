"""Assumption 1 on one's own data: how far the disagreement of two halfspaces is from their angle."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..spread import HalfspaceSpread
from ..tasks import Array

_FEWEST_ROWS = 500
_AVERAGED = 5  # pairs of halfspaces an estimate is the mean of
_RATIO = 12.0  # c2 / c1 beyond which bounds say little


@dataclass(frozen=True)
class SpreadEstimate:
    """Assumption 1's constants, estimated from rows.

    Parameters
    ----------
    c1, c2 : float
        Least and largest disagreement of two halfspaces over their angle, found on one half of the rows and measured
        on the other. c2 is infinite where rows pile up on hyperplanes through the origin.
    c1_interval, c2_interval : (float, float)
        95% intervals of the two, for the halfspaces found.
    angle : float
        Of the halfspaces compared.
    holds : bool
        Whether the data may be said to satisfy the assumption with constants that are of use.
    verdict : str
        The same in words, and what may help.
    """

    c1: float
    c2: float
    c1_interval: tuple[float, float]
    c2_interval: tuple[float, float]
    angle: float
    holds: bool
    verdict: str

    def constants(self) -> HalfspaceSpread:
        """For `LifelongClassifier` and the bounds; refused where the assumption fails."""
        if not self.holds:
            raise ValueError(f"there are no constants to go by: {self.verdict}")
        return HalfspaceSpread(self.c1, self.c2)


def spread(X: Array, *, random_state: int = 0) -> SpreadEstimate:
    """Estimate c1 and c2 of Assumption 1: c1 angle <= P(two halfspaces disagree) <= c2 angle.

    Halfspaces through the origin, a small angle apart, are tried all over: along columns, principal axes and sums of
    them, in random directions, and uphill from the most extreme ones. The most extreme on one half of the rows are
    measured on the other half, so that the search does not flatter itself. No finite search finds the worst pair for
    sure: the true c1 may be smaller and the true c2 larger.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows as the learner sees them; 500 at least, and better tens of thousands.
    random_state : int
        Seed of the search.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.theory import spread
    >>> found = spread(np.random.default_rng(0).normal(size=(40_000, 5)))
    >>> found.holds, round(found.c1, 1), round(found.c2, 1)  # 1 / pi for both
    (True, 0.3, 0.3)
    """
    rows = np.asarray(X, dtype=float)
    if rows.ndim != 2 or rows.shape[1] < 2 or len(rows) < _FEWEST_ROWS:
        raise ValueError(f"spread needs a table of {_FEWEST_ROWS} rows and 2 columns at least, not {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("rows must be finite")
    rng = np.random.default_rng(random_state)
    rows = rows[rng.permutation(len(rows))]
    search, judge = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    angle = float(np.clip(2500.0 / len(rows), 0.04, 0.8))
    rank = int(np.linalg.matrix_rank(rows - rows.mean(axis=0)))
    least, most = _extremes(search, angle, rng)
    low, low_interval = _measured(judge, least, angle)
    high, high_interval = _measured(judge, most, angle)
    for share in (4.0, 16.0):  # where nearly all rows are between the two halfspaces, nearer ones tell more
        nearer, interval = _measured(judge, most, angle / share)
        if interval[0] > 1.2 * high:
            high, high_interval = nearer, interval
    if _piled(judge, most, angle):
        high, high_interval = math.inf, (high_interval[0], math.inf)
    if low > high:  # the same but for noise
        (low, low_interval), (high, high_interval) = (high, high_interval), (low, low_interval)
    holds, verdict = _verdict(rows, rank, low, high, low_interval)
    return SpreadEstimate(low, high, low_interval, high_interval, angle, holds, verdict)


def whitening(X: Array) -> tuple[Array, Array]:
    """The shift and the matrix (x - shift) @ matrix under which rows have mean zero and covariance one.

    Log-concave data satisfy Assumption 1 after it, with universal constants (Lovász and Vempala 2007; Balcan et al.
    2015).

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.theory import whitening
    >>> X = np.random.default_rng(0).gamma(2.0, size=(1000, 3)) * [1.0, 10.0, 100.0]
    >>> shift, matrix = whitening(X)
    >>> np.allclose(np.cov((X - shift) @ matrix, rowvar=False), np.eye(3))
    True
    """
    rows = np.asarray(X, dtype=float)
    shift = rows.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(rows - shift, rowvar=False))
    if values[0] <= 1e-12 * values[-1]:
        raise ValueError("the rows lie in a subspace: drop columns that others determine first")
    return shift, vectors / np.sqrt(values) @ vectors.T


def _disagreement(rows: Array, normals: Array, across: Array, angle: float) -> Array:
    """The share of rows on which pairs of halfspaces disagree that are half an angle to either side of a normal."""
    near = np.abs(rows @ normals.T) <= math.tan(angle / 2.0) * np.abs(rows @ across.T)
    return np.asarray(near.mean(axis=0) / angle)


def _extremes(rows: Array, angle: float, rng: np.random.Generator) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Pairs of directions, normal and across, with the least and with the largest disagreement."""
    d = rows.shape[1]
    axes = np.eye(d)[rng.permutation(d)[:40]]
    principal = np.linalg.eigh(np.cov(rows, rowvar=False))[1].T
    principal = np.concatenate([principal[:10], principal[-10:]])
    first, second = (axes[rng.integers(len(axes), size=60)] for _ in range(2))
    sums = first + rng.choice([-1.0, 1.0], size=(60, 1)) * second
    mean = rows.mean(axis=0, keepdims=True)
    some = np.concatenate([axes, principal, sums, rng.normal(size=(60, d)), mean])
    some = some[np.linalg.norm(some, axis=1) > 1e-12]
    picks = rng.integers(len(some), size=(len(some), 6))
    normals, across = np.repeat(some, 6, axis=0), some[picks.ravel()]
    normals, across, kept = _framed(normals, across)
    normals, across = normals[kept], across[kept]
    found = []
    for sign in (1.0, -1.0):
        value = sign * _in_blocks(rows, normals, across, angle)
        best = np.argsort(value)[:_AVERAGED]
        chosen_normals, chosen_across, reached = normals[best], across[best], value[best]
        for size in (0.5, 0.5, 0.25, 0.25, 0.12, 0.12, 0.06, 0.06):  # uphill by random steps
            tried_normals = chosen_normals + size * rng.normal(size=chosen_normals.shape) / math.sqrt(d)
            tried_across = chosen_across + size * rng.normal(size=chosen_across.shape) / math.sqrt(d)
            tried_normals, tried_across, kept = _framed(tried_normals, tried_across)
            tried = np.where(kept, sign * _in_blocks(rows, tried_normals, tried_across, angle), np.inf)
            better = tried < reached
            chosen_normals = np.where(better[:, None], tried_normals, chosen_normals)
            chosen_across = np.where(better[:, None], tried_across, chosen_across)
            reached = np.where(better, tried, reached)
        found.append((chosen_normals, chosen_across))
    return found[0], found[1]


def _framed(normals: Array, across: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Both of length one and at right angles, and whether they were apart enough for that."""
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    across = across / np.linalg.norm(across, axis=1, keepdims=True)
    across = across - (across * normals).sum(axis=1, keepdims=True) * normals
    lengths = np.linalg.norm(across, axis=1)
    kept = lengths > 1e-6
    return normals, across / np.where(kept, lengths, 1.0)[:, None], kept


def _in_blocks(rows: Array, normals: Array, across: Array, angle: float) -> Array:
    """`_disagreement`, for as many pairs at once as memory is good for."""
    size = max(1, 20_000_000 // len(rows))
    parts = [
        _disagreement(rows, normals[start : start + size], across[start : start + size], angle)
        for start in range(0, len(normals), size)
    ]
    return np.concatenate(parts)


def _measured(rows: Array, pairs: tuple[Array, Array], angle: float) -> tuple[float, tuple[float, float]]:
    """The mean over the pairs, and the 95% interval as if it were one of them (Wilson)."""
    value = float(_disagreement(rows, *pairs, angle).mean())
    n, share, z = len(rows), min(value * angle, 1.0), 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return value, (max(middle - reach, 0.0) / angle, (middle + reach) / angle)


def _piled(rows: Array, pairs: tuple[Array, Array], angle: float) -> bool:
    """Whether halfspaces four times as near disagree as often: then rows are on hyperplanes, not near them."""
    near, nearer = (_measured(rows, pairs, angle / share)[0] * angle / share for share in (64.0, 256.0))
    return nearer * len(rows) > 30.0 and nearer > 0.5 * near


def _verdict(rows: Array, rank: int, low: float, high: float, low_interval: tuple[float, float]) -> tuple[bool, str]:
    if rank < rows.shape[1]:
        return False, (
            f"The rows lie in a subspace of {rank} of {rows.shape[1]} dimensions, so some halfspaces never disagree: "
            "drop columns that others determine."
        )
    centre = np.linalg.norm(rows.mean(axis=0)) / math.sqrt(rows.var(axis=0).sum())
    if math.isinf(high):
        return False, (
            "Rows pile up on hyperplanes through the origin (columns of few values, or many zeros): two halfspaces may "
            "disagree however near they are."
        )
    if low_interval[0] <= 0.0 or high > _RATIO * low:
        helps = "centre the rows" if centre > 0.5 else "whiten them (everspan.theory.whitening)"
        return False, (
            f"Disagreement is from {low:.2g} to {high:.2g} times the angle: some halfspaces far apart say the same of "
            f"nearly all rows. It may help to {helps}."
        )
    return True, (
        f"Assumption 1 holds as far as was looked: disagreement is from {low:.2g} to {high:.2g} times the angle "
        "(Gaussian rows: 1/pi, 0.318)."
    )
