"""Is this fit good enough? Errors on the training rows, on rows left out, and bounds from rows held out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, chdtri, stdtrit

from .tasks import Array, Rows

_LUCK = 1e-3  # one time in a thousand
LossName = Literal["error", "log_loss", "auc", "squared_error"]


class Scorer(Protocol):
    """What a check needs of a fit."""

    @property
    def unseen(self) -> Array | None: ...

    def scores(self, X: Array) -> Array: ...


@dataclass(frozen=True, slots=True)
class Assessment:
    """An estimate of a fit's error, and bounds where rows the fit has not seen allow them.

    ``plausible`` is what the error may be at most if the estimate was lucky (one time in a thousand, as if its rows
    were independent): no bound to report, but one to be careful with. ``rows`` are the positions of the rows it rests
    on and ``scores`` their scores, each by a fit that left it out (except for the training error). ``training`` is the
    error on the rows the fit has seen, too low by what the fit took from their noise; so ``training_lower``, a lower
    bound made of it, is one for every fit of this kind.
    """

    error: float
    plausible: float
    lower: float | None
    upper: float | None
    training: float
    training_lower: float | None
    rows: NDArray[np.intp]
    scores: Array


class Loss(Protocol):
    """A loss of scores against labels, smaller is better."""

    def mean(self, rows: Rows, scores: Array) -> float: ...

    def bounds(self, rows: Rows, scores: Array, risk: float) -> tuple[float, float] | None:
        """Bounds on the expected loss, each wrong with at most this risk; None where there is no such bound."""

    def share(self, noise: float) -> float:
        """The part of the mean loss that this variance of the noise makes."""

    def fewest_rows(self, level: float, risk: float) -> int:
        """Rows without which no upper bound is as low as this level, however good the fit."""


@dataclass(frozen=True)
class ZeroOne:
    """The share of wrong signs; with ``balanced`` the mean of that share in either class."""

    balanced: bool = False

    def mean(self, rows: Rows, scores: Array) -> float:
        wrong = (scores >= 0.0) != (rows.y > 0.0)
        if not self.balanced:
            return _weighted_mean(wrong, rows.weight)
        sides = [side for side in (rows.y > 0.0, rows.y <= 0.0) if side.any()]
        weights = rows.weight
        shares = [_weighted_mean(wrong[side], None if weights is None else weights[side]) for side in sides]
        return sum(shares) / len(shares)

    def bounds(self, rows: Rows, scores: Array, risk: float) -> tuple[float, float] | None:
        if rows.weight is not None and (rows.weight != rows.weight[0]).any():
            return None  # weighted rows are not so many independent trials
        wrong = (scores >= 0.0) != (rows.y > 0.0)
        if not self.balanced:
            return clopper_pearson(int(wrong.sum()), len(wrong), risk)
        sides = [wrong[side] for side in (rows.y > 0.0, rows.y <= 0.0)]
        if not all(len(side) for side in sides):
            return None
        intervals = [clopper_pearson(int(side.sum()), len(side), risk / 2.0) for side in sides]
        return sum(low for low, _ in intervals) / 2.0, sum(high for _, high in intervals) / 2.0

    def share(self, noise: float) -> float:
        return 0.0

    def fewest_rows(self, level: float, risk: float) -> int:
        needed = math.ceil(math.log(risk) / math.log1p(-min(level, 0.999)))  # none of them wrong
        return 3 * needed if self.balanced else needed


class _WithoutBounds:
    """Losses for which held-out rows give an estimate and no bound."""

    def bounds(self, rows: Rows, scores: Array, risk: float) -> tuple[float, float] | None:
        return None

    def share(self, noise: float) -> float:
        return 0.0

    def fewest_rows(self, level: float, risk: float) -> int:
        return 1


@dataclass(frozen=True)
class LogLoss(_WithoutBounds):
    """Minus the log-likelihood of the labels under log-odds scores."""

    def mean(self, rows: Rows, scores: Array) -> float:
        return _weighted_mean(np.logaddexp(0.0, -rows.y * scores), rows.weight)


@dataclass(frozen=True)
class AreaAbove(_WithoutBounds):
    """One minus the area under the ROC curve: the share of pairs in the wrong order."""

    def mean(self, rows: Rows, scores: Array) -> float:
        if not (rows.y > 0.0).any() or not (rows.y <= 0.0).any():
            return 0.5  # no pair to order: nothing is known
        from sklearn.metrics import roc_auc_score

        return 1.0 - float(roc_auc_score(rows.y > 0.0, scores, sample_weight=rows.weight))


@dataclass(frozen=True)
class SquaredError:
    """The squared error as a share of ``scale``, the variance of the target."""

    scale: float = 1.0

    def mean(self, rows: Rows, scores: Array) -> float:
        return _weighted_mean(np.square(rows.y - scores), rows.weight) / self.scale

    def bounds(self, rows: Rows, scores: Array, risk: float) -> tuple[float, float] | None:
        if rows.weight is not None and (rows.weight != rows.weight[0]).any():
            return None
        low, high = mean_square_bounds(rows.y - scores, risk)
        return low / self.scale, high / self.scale

    def share(self, noise: float) -> float:
        return noise / self.scale

    def fewest_rows(self, level: float, risk: float) -> int:
        return 32  # a perfect fit shows at once; fewer would make Student's t too wide


def clopper_pearson(wrong: float, n: float, risk: float) -> tuple[float, float]:
    """Bounds on a probability after ``wrong`` of n independent trials, each exact with at most this risk.

    Weighted rows may count for a number of trials that is not whole; the bounds are then as good as that number is.

    Examples
    --------
    >>> from everspan.checks import clopper_pearson
    >>> low, high = clopper_pearson(0, 100, risk=0.05)
    >>> low, round(high, 4)
    (0.0, 0.0295)
    """
    low = 0.0 if wrong == 0 else float(betaincinv(wrong, n - wrong + 1, risk))
    return low, _clopper_pearson_upper(wrong, n, risk)


@lru_cache(maxsize=1 << 14)
def _clopper_pearson_upper(wrong: float, n: float, risk: float) -> float:
    return 1.0 if wrong == n else float(betaincinv(wrong + 1, n - wrong, 1.0 - risk))


def mean_square_bounds(residuals: Array, risk: float) -> tuple[float, float]:
    """Bounds on the mean square of residuals: exact for normal ones, and no tighter than Student's t for others.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.checks import mean_square_bounds
    >>> residuals = np.random.default_rng(0).standard_normal(400)
    >>> low, high = mean_square_bounds(residuals, risk=0.05)
    >>> bool(low < 1.0 < high), bool(0.8 < low), bool(high < 1.2)
    (True, True, True)
    """
    n = len(residuals)
    squares = np.square(residuals)
    total, mean = float(squares.sum()), float(squares.mean())
    low, high = total / float(chdtri(n, risk)), total / float(chdtri(n, 1.0 - risk))
    if n > 1:
        margin = float(stdtrit(n - 1, 1.0 - risk)) * float(squares.std(ddof=1)) / math.sqrt(n)
        low, high = min(low, max(mean - margin, 0.0)), max(high, mean + margin)
    return low, high


FitRows = Callable[[Rows], Scorer]


@dataclass(frozen=True)
class TrainingError:
    """The error on the rows the fit has seen: the check of the paper's simulation."""

    def measure(self, fit: FitRows, rows: Rows, loss: Loss, risk: float, seed: int) -> tuple[Scorer, Assessment]:
        fitted = fit(rows)
        scores = fitted.scores(rows.X)
        error = loss.mean(rows, scores)
        plausible = _plausible(loss, rows, scores, error)
        return fitted, Assessment(error, plausible, None, None, error, None, np.arange(len(rows)), scores)


@dataclass(frozen=True)
class LeaveOneOut:
    """The error of every row by a fit without it: from the learner where it knows, else by cross-validation."""

    folds: int = 10

    def measure(self, fit: FitRows, rows: Rows, loss: Loss, risk: float, seed: int) -> tuple[Scorer, Assessment]:
        fitted = fit(rows)
        scores = fitted.unseen
        if scores is None:
            scores = cross_validated_scores(fit, rows, self.folds, seed)
        return fitted, left_out_assessment(loss, rows, fitted, scores)


@dataclass(frozen=True)
class CrossValidation:
    """The error of every row by a fit without its fold."""

    folds: int = 10

    def measure(self, fit: FitRows, rows: Rows, loss: Loss, risk: float, seed: int) -> tuple[Scorer, Assessment]:
        fitted = fit(rows)
        scores = cross_validated_scores(fit, rows, self.folds, seed)
        return fitted, left_out_assessment(loss, rows, fitted, scores)


@dataclass(frozen=True)
class HoldOut:
    """The error on every n-th row, which the fit has not seen: the one check that gives bounds.

    Rows are held out by position (labels on demand), or after a shuffle where their order may mean something.
    """

    every: int = 4
    shuffle: bool = True

    def measure(self, fit: FitRows, rows: Rows, loss: Loss, risk: float, seed: int) -> tuple[Scorer, Assessment]:
        if len(rows) < 2:
            return TrainingError().measure(fit, rows, loss, risk, seed)  # no bound: there is nothing to hold out
        order = np.arange(len(rows))
        if self.shuffle:
            order = np.random.default_rng(seed).permutation(len(rows))
        held = np.zeros(len(rows), dtype=bool)
        every = min(self.every, len(rows))
        held[order[every - 1 :: every]] = True
        seen, unseen = rows.part(~held), rows.part(held)
        fitted = fit(seen)
        scores = fitted.scores(unseen.X)
        seen_scores = fitted.scores(seen.X)
        training, best = loss.mean(seen, seen_scores), loss.bounds(seen, seen_scores, risk)
        lower, upper = loss.bounds(unseen, scores, risk) or (None, None)
        training_lower = None if best is None else best[0]
        error = loss.mean(unseen, scores)
        plausible = _plausible(loss, unseen, scores, error)
        return fitted, Assessment(
            error, plausible, lower, upper, training, training_lower, np.flatnonzero(held), scores
        )


@dataclass(frozen=True)
class AutoCheck:
    """`HoldOut` where rows are plenty for the columns, `LeaveOneOut` where each is needed for the fit."""

    def measure(self, fit: FitRows, rows: Rows, loss: Loss, risk: float, seed: int) -> tuple[Scorer, Assessment]:
        chosen: Check = HoldOut() if is_plenty(rows, rows.X.shape[1]) else LeaveOneOut()
        return chosen.measure(fit, rows, loss, risk, seed)


def is_plenty(rows: Rows, columns: int) -> bool:
    """Whether rows are so many for the columns that a quarter can be spared."""
    return rows.count() >= max(1000, 50 * (columns + 1))


class Check(Protocol):
    """Fits the rows and measures the fit."""

    def measure(self, fit: FitRows, rows: Rows, loss: Loss, risk: float, seed: int) -> tuple[Scorer, Assessment]: ...


CHECKS: dict[str, Check] = {
    "auto": AutoCheck(),
    "train": TrainingError(),
    "loo": LeaveOneOut(),
    "cv": CrossValidation(),
    "holdout": HoldOut(),
}


def cross_validated_scores(fit: FitRows, rows: Rows, folds: int, seed: int) -> Array:
    """The score of every row by a fit without its fold; every class is spread over all folds."""
    if len(rows) < 2:
        return fit(rows).scores(rows.X)
    order = np.random.default_rng(seed).permutation(len(rows))
    order = order[np.argsort(rows.y[order], kind="stable")]
    fold = np.empty(len(rows), dtype=np.intp)
    fold[order] = np.arange(len(rows)) % max(2, min(folds, len(rows)))
    scores = np.zeros(len(rows))
    for left_out in range(int(fold.max()) + 1):
        chosen = fold == left_out
        scores[chosen] = fit(rows.part(~chosen)).scores(rows.X[chosen])
    return scores


def left_out_assessment(loss: Loss, rows: Rows, fitted: Scorer, scores: Array) -> Assessment:
    """What the scores of rows left out say of a fit."""
    error, training = loss.mean(rows, scores), loss.mean(rows, fitted.scores(rows.X))
    plausible = _plausible(loss, rows, scores, error)
    return Assessment(error, plausible, None, None, training, None, np.arange(len(rows)), scores)


def without_lone_rows(y: Array, scores: Array, weight: Array | None = None) -> Array:
    """Scores of rows left out of a halfspace's: the only row of its side leaves with all that is known of that side.

    One that counts twice or more is not alone.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.checks import without_lone_rows
    >>> without_lone_rows(np.array([1.0, -1.0, -1.0]), np.array([2.0, -3.0, -3.0])).round(1)
    array([-1.1, -3. , -3. ])
    """
    n, upper = len(y), int(np.count_nonzero(y > 0.0))
    if n < 2 or upper not in (1, n - 1):
        return scores
    scores, certain = scores.copy(), math.log(n)
    for alone, place, sign in ((upper == 1, int(np.argmax(y)), -1.0), (upper == n - 1, int(np.argmin(y)), 1.0)):
        if alone and (weight is None or weight[place] < 2.0):
            scores[place] = sign * max(sign * scores[place], certain)
    return scores


def plausible_share(wrong: int, n: int) -> float:
    """What the share of wrong rows may be at most, if to find so few of them was luck."""
    return _clopper_pearson_upper(wrong, n, _LUCK)


def plausible_error(loss: Loss, error: float, n: int) -> float:
    """What an error may be at most that was found on so many rows, if that was luck."""
    if not math.isfinite(error):
        return error
    if isinstance(loss, ZeroOne):
        return plausible_share(round(error * n), n)
    return error * n / float(chdtri(n, 1.0 - _LUCK)) if isinstance(loss, SquaredError) else error


def _plausible(loss: Loss, rows: Rows, scores: Array, error: float) -> float:
    if type(loss) is ZeroOne and not loss.balanced and rows.weight is None:
        return plausible_share(round(error * len(rows)), len(rows))  # the common case
    bounds = loss.bounds(rows, scores, _LUCK)
    return error if bounds is None else bounds[1]


def _weighted_mean(values: Array, weight: Array | None) -> float:
    if weight is None:
        return float(np.add.reduce(values)) / len(values)
    return float(weight.dot(values)) / float(np.add.reduce(weight))
