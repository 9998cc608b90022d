"""The prior on tasks' weights under which their rows are most probable, from their second-order summaries.

Tasks may stray from their mean in ways from plain to rich: by their constants alone, with one variance for all columns,
with one for each, and furthest along a few directions (factors). Each way is weighed by its evidence less a half for
every number it had to choose, and the prior has the mean and the covariance of them all. A half is by how much a number
that was chosen flatters the evidence of the tasks it was chosen by, and these are whom the prior serves; AIC takes as
much again for tasks that are yet to come. (Factors of regressions pay as in BIC: noise has to be told from them.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from .prior import FIRST, Prior, Summary
from .tasks import Array

_WORK = 25e6  # numbers that one pass over the summaries may take
_FEWEST, _MOST = 48, 512  # tasks that a prior rests on at least, where there are so many, and at most
_TINY = 8  # columns up to which many matrices are inverted faster together
_ROUNDS = 40
_LOOK, _FAR = 10, 12.0  # rounds after which a way is looked at, and how far below the best it counts for nothing
_SETTLED, _FINE = 2e-4, 1e-3  # change of the covariance, as a share, after which a search ends: the first is a column's
_WIDE = 0.05  # variance that a column's own starts from at least, in units of the noise's: from nought few find back
_STILL = 1e-6  # variance that counts as none, in units of the noise's
_ALIKE = 3.0  # tasks' worth of belief that columns vary alike
_FACTORS = (24, 12, 6, 3, 1)  # how many are looked for first
_USE = 0.25  # evidence for every task that makes factors decisive
_PRICE = 0.5  # evidence that a number has to bring which was chosen
_ODDS = 1e4  # log-odds that no column makes
_TEMPER = 2.0  # evidence that counts as one: no stream is as normal as the model


def learn_prior(summaries: Sequence[Summary], *, constant: bool, regression: bool) -> Prior | None:
    """The prior of these tasks; None where there are fewer than eight."""
    if len(summaries) < FIRST:
        return None
    most = min(max(_FEWEST, int(_WORK / summaries[0].size ** 3)), _MOST)
    chosen = np.unique(np.linspace(0, len(summaries) - 1, min(most, len(summaries))).round().astype(int))
    parts = [summaries[i].parts() for i in chosen]
    grams, moments = np.array([part[0] for part in parts]), np.array([part[1] for part in parts])
    square, count = sum(part[2] for part in parts), max(sum(part[3] for part in parts), 1e-300)
    change = _standardising(grams.sum(axis=0) / count, constant)
    grams, moments = np.matmul(np.matmul(change.T, grams), change), moments.dot(change)
    tasks = _Tasks(grams, moments, square, count, constant, regression)
    with np.errstate(all="ignore"):
        ways = [(score, way) for score, way in _weighed(tasks) if _sound(score, way, tasks)]
    if not ways:
        return None
    prior = _together(ways, len(chosen))
    back = np.linalg.inv(change)
    return replace(prior, mean=change.dot(prior.mean), precision=back.T.dot(prior.precision).dot(back))


def _sound(score: float, way: _Way, tasks: _Tasks) -> bool:
    """Whether a way is within what numbers can hold: columns may be all but the same, or in other units.

    Nor may weights of log-odds be too large: where all rows of all tasks are told apart, nothing else stops them.
    """
    if not np.isfinite([score, way.noise, *way.mean, *way.covariance.ravel()]).all():
        return False
    largest = np.inf if tasks.regression else _ODDS
    if max(np.abs(way.mean).max(), np.sqrt(np.diag(way.covariance).max())) > largest:
        return False
    try:
        np.linalg.cholesky(way.covariance)
    except np.linalg.LinAlgError:
        return False
    return True


def _standardising(gram: Array, constant: bool) -> Array:
    """From weights of columns of mean nought, if there is a constant, and of unit size, to those of the columns."""
    size = len(gram)
    change = np.eye(size)
    if constant and gram[-1, -1] > 0.0:
        change[-1, :-1] = -gram[-1, :-1] / gram[-1, -1]
    squares = np.einsum("ji,jk,ki->i", change, gram, change)
    scale = np.sqrt(np.maximum(squares, 0.0))
    scale[squares <= 1e-12 * np.maximum(np.diag(gram), squares.max(initial=0.0) * 1e-6)] = 1.0
    standard: Array = change / scale
    return standard


def _together(weighed: list[tuple[float, _Way]], tasks: int) -> Prior:
    """One normal prior with the moments of all ways, each as probable as its score says."""
    scores, ways = np.array([score for score, _ in weighed]), [way for _, way in weighed]
    weights = np.exp((scores - scores.max()) / _TEMPER)
    weights /= weights.sum()
    return Prior(
        mean=weights.dot([way.mean for way in ways]),
        precision=np.linalg.inv(np.tensordot(weights, [way.covariance for way in ways], 1)),
        noise=float(weights.dot([way.noise for way in ways])),
        kind=ways[int(weights.argmax())].kind,
        trusted=_best(weighed, True) - _best(weighed, False) > max(_FAR, _USE * tasks),
        factors=ways[int(weights.argmax())].factors,
    )


def _best(weighed: list[tuple[float, _Way]], factors: bool) -> float:
    """The highest score of ways with factors, or of those without any."""
    return max((score for score, way in weighed if bool(way.factors) == factors), default=-np.inf)


@dataclass(frozen=True)
class _Tasks:
    """The summaries of all tasks, stacked, in columns of unit size."""

    grams: Array
    moments: Array
    square: float
    count: float
    constant: bool
    regression: bool

    @property
    def size(self) -> int:
        return int(self.grams.shape[1])

    @property
    def slopes(self) -> int:
        return self.size - self.constant

    def squares_left(self, weights: Array) -> float:
        """The sum of squares that weights, one row a task, leave of the targets."""
        fitted = np.vdot(weights, np.matmul(self.grams, weights[:, :, None])[:, :, 0])
        left = self.square - 2.0 * float(np.vdot(weights, self.moments)) + float(fitted)
        return max(left, 1e-9 * self.square, 1e-300)


@dataclass(frozen=True)
class _Way:
    """One way in which tasks may stray from their mean, as it was learned."""

    kind: str
    factors: int
    mean: Array
    covariance: Array
    noise: float
    pull: float
    """Variance of the mean's own slopes about nought."""


def _weighed(tasks: _Tasks) -> Iterator[tuple[float, _Way]]:
    """Every way of straying that is worth a look, with its score, as far as matrices can be inverted."""
    try:
        pooled = _pooled(tasks)
        none = _constants_alone(tasks, pooled)
        yield _evidence(tasks, none), none
        one, _ = _learned(tasks, replace(pooled, kind="one"))
        even = np.diag(one.covariance)
        noise = 0.3 * pooled.noise  # to start with: noise of nought would stay so
        wide = np.diag(np.maximum(even, _WIDE * pooled.noise))
        each, known = _learned(tasks, replace(one, kind="each", covariance=wide, noise=max(noise, one.noise)), even)
        choices = _PRICE * float(np.sum(known[: tasks.slopes] / (known[: tasks.slopes] + _ALIKE)))
        plain, varied = _evidence(tasks, one) - _PRICE, _evidence(tasks, each) - choices
        yield plain, one
        yield varied, each
    except np.linalg.LinAlgError:
        return
    best, base, choices = (plain, one, _PRICE) if plain >= varied else (varied, each, choices)
    base = replace(base, kind="factors", noise=max(noise, base.noise))
    if _sound(best, base, tasks):
        yield from _Factors(tasks, base, best, choices).weighed()


class _Factors:
    """The search for factors: ``best`` is the score of the ``base`` without any, ``choices`` what its numbers cost."""

    def __init__(self, tasks: _Tasks, base: _Way, best: float, choices: float) -> None:
        self.tasks, self.base, self.best, self.choices = tasks, base, best, choices
        self.tried: set[int] = set()
        self.found: dict[int, tuple[float, _Way]] = {}

    def weighed(self) -> Iterator[tuple[float, _Way]]:
        """Ways from many factors to few, until fewer are worse, then what lies beside the best of them."""
        # With as many factors as tasks every task is its own, and none has noise.
        most = min(_FACTORS[0], self.tasks.slopes - 1, len(self.tasks.grams) // 3)
        worse = 0
        for factors in sorted({min(count, most) for count in _FACTORS} - {0}, reverse=True):
            self.look(factors)
            below = factors in self.found and self.found[factors][0] < self.found[self.top()][0] - _FAR
            worse = worse + 1 if below else 0
            if worse == 2:
                break
        while self.found and self.found[top := self.top()][0] > self.best - _FAR:
            fewer = max((count for count in self.tried if count < top), default=0)
            more = min((count for count in self.tried if count > top), default=top)
            between = {(fewer + top) // 2, (top + more) // 2} - {0, *self.tried}
            if not between:
                break
            for factors in sorted(between, reverse=True):
                self.look(factors)
        yield from self.found.values()

    def top(self) -> int:
        """The number of factors with the highest score so far."""
        return max(self.found, key=lambda count: self.found[count][0])

    def look(self, factors: int) -> None:
        """Learn the way with so many factors, if numbers can hold it."""
        self.tried.add(factors)
        price = self.choices + _price_of_factors(self.tasks, factors)
        start, apart = replace(self.base, factors=factors), np.diag(self.base.covariance)
        try:
            highest = max([self.best, *(score for score, _ in self.found.values())])
            way, _ = _learned(self.tasks, start, apart, highest + price)
            score = _evidence(self.tasks, way) - price
        except np.linalg.LinAlgError:
            return
        if _sound(score, way, self.tasks):
            self.found[factors] = score, way


def _price_of_factors(tasks: _Tasks, factors: int) -> float:
    """What their numbers cost: in a regression a factor can pass for less noise, and pays as in BIC."""
    price = max(_PRICE, 0.5 * np.log(len(tasks.grams))) if tasks.regression else _PRICE
    return float(sum(price * (tasks.size - place) for place in range(factors)))


def _pooled(tasks: _Tasks) -> _Way:
    """One predictor for all tasks, and some freedom around it: where the search starts."""
    gram, moment = tasks.grams.sum(axis=0), tasks.moments.sum(axis=0)
    mean = np.linalg.solve(gram + 1e-3 * np.trace(gram) / tasks.size * np.eye(tasks.size), moment)
    noise = 1.0
    if tasks.regression:
        noise = tasks.squares_left(np.broadcast_to(mean, tasks.moments.shape)) / tasks.count
    variances = np.full(tasks.size, 0.02 * noise)
    variances[tasks.slopes :] = 0.1 * noise
    pull = max(float(np.square(mean[: tasks.slopes]).mean()) if tasks.slopes else 0.0, 1e-3 * noise)
    return _Way("none", 0, mean, np.diag(variances), noise, pull)


def _constants_alone(tasks: _Tasks, way: _Way) -> _Way:
    """The most probable way in which no slope strays: as `_learned`, one number a task instead of a matrix."""
    m, slopes, gram, moment = len(tasks.grams), tasks.slopes, tasks.grams.sum(axis=0), tasks.moments.sum(axis=0)
    columns, own = np.zeros((m, tasks.size)), np.zeros(m)
    if tasks.constant:
        columns, own = tasks.grams[:, -1], tasks.moments[:, -1]
    mean, noise, pull, variance = way.mean, way.noise, way.pull, float(way.covariance[-1, -1])
    for place in range(_ROUNDS):
        spread = 1.0 / (columns[:, -1] / noise + 1.0 / variance)  # of every task's constant
        told = gram / noise - (columns * (spread / noise**2)[:, None]).T.dot(columns)
        doubt = np.linalg.inv(told + np.diag(_own(tasks, noise, pull)))
        mean = doubt.dot(moment / noise - columns.T.dot(spread * own) / noise**2)
        settled = _settled(tasks, doubt, pull)
        away = spread * (own - columns.dot(mean)) / noise
        known = min(max(m - float(spread.sum()) / variance, 0.01), m)
        before, pull = variance, _pull(tasks, mean, settled, noise, pull)
        if tasks.regression:
            weights = np.tile(mean, (m, 1))
            weights[:, -1] += away
            spent = m - float(spread.sum()) / variance + settled
            noise = tasks.squares_left(weights) / max(tasks.count - spent, 0.2 * tasks.count)
        least = _STILL * noise
        variance = min(max(float(away.dot(away)) / known, before / 4.0, least), max(before * 4.0, least))
        if place and abs(variance - before) <= _SETTLED * tasks.size * before:
            break
    variances = np.full(tasks.size, _STILL * noise)
    variances[slopes:] = variance
    return _Way("none", 0, mean, np.diag(variances), noise, pull)


def _learned(tasks: _Tasks, way: _Way, around: Array | None = None, rival: float | None = None) -> tuple[_Way, Array]:
    """The most probable way of its kind, and how many tasks tell each variance.

    In turn: the weights of all tasks and their mean, which is itself drawn to nought; then the variances, by MacKay's
    quick rule, and the factors, by expectation and maximisation. ``around`` are the variances that each column's own
    are drawn to, or the units in which directions other than factors vary alike. A way that will surely stay far below
    the evidence of a ``rival`` is left as it is.
    """
    m, slopes, early = len(tasks.grams), slice(0, tasks.slopes), 0.0
    for place in range(_ROUNDS):
        if rival is not None and place in (_LOOK // 2, _LOOK):
            evidence = _evidence(tasks, way)
            if place == _LOOK and evidence + 3.0 * max(evidence - early, 0.0) < rival - _FAR:
                break
            early = evidence
        precision: Array = np.linalg.inv(way.covariance).astype(np.float64, copy=False)
        spread = _inverses(tasks.grams / way.noise + precision)
        left = spread.sum(axis=0)
        alone = np.matmul(spread, tasks.moments[:, :, None])[:, :, 0] / way.noise  # the weights, were the mean nought
        mean, settled = _mean(tasks, way, precision, left, alone.sum(axis=0))
        weights = alone + spread.dot(precision.dot(mean))
        away = weights - mean
        noise = way.noise
        if tasks.regression:  # the rows that are not spent on weights
            spent = m * tasks.size - float(np.vdot(precision, left)) + settled
            noise = tasks.squares_left(weights) / max(tasks.count - spent, 0.2 * tasks.count)
        before, squares = np.diag(way.covariance), np.square(away).sum(axis=0)
        known = np.clip(m - np.diag(left) / before, 0.01, m)
        if way.kind == "factors":
            assert around is not None
            covariance = _with_factors(away.T.dot(away), left, m, way, around)
        else:
            variances = _variances(way.kind, squares, known, slopes, around)
            least = _STILL * noise
            covariance = np.diag(np.clip(variances, np.maximum(before / 4.0, least), np.maximum(before * 4.0, least)))
        change = np.abs(covariance - way.covariance).max() / np.abs(way.covariance).max()
        pull = _pull(tasks, mean, settled, way.noise, way.pull)
        way = replace(way, mean=mean, covariance=covariance, noise=noise, pull=pull)
        # A column's own variance is what factors start from: the search for them may end sooner the more a round costs.
        if place and change <= (_FINE if way.kind == "each" else _SETTLED * tasks.size):
            break
    return way, known


def _inverses(matrices: Array) -> Array:
    """Of positive definite matrices; twice as fast as those of any."""
    if matrices.shape[1] <= _TINY:
        return _swept(matrices)
    inverses = np.empty(matrices.shape)
    for place, matrix in enumerate(matrices):
        factor, failed = lapack.dpotrf(matrix, clean=0)
        inverses[place] = np.linalg.inv(matrix) if failed else lapack.dpotri(factor)[0]
    above, below = np.triu_indices(matrices.shape[1], 1)
    inverses[:, below, above] = inverses[:, above, below]
    return inverses


def _swept(matrices: Array) -> Array:
    """The same by sweeping all matrices at once, pivot after pivot: positive definite ones need no other order."""
    swept = matrices.transpose(1, 2, 0).copy()
    for pivot in range(len(swept)):
        scale = 1.0 / swept[pivot, pivot]
        row, column = swept[pivot] * scale, swept[:, pivot].copy()
        swept -= column[:, None] * row
        swept[pivot], swept[:, pivot], swept[pivot, pivot] = row, -column * scale, scale
    return swept.transpose(2, 0, 1)


def _mean(tasks: _Tasks, way: _Way, precision: Array, left: Array, alone: Array) -> tuple[Array, float]:
    """The mean that all rows together make most probable, and how many of its slopes they tell."""
    told = len(tasks.grams) * precision - precision.dot(left).dot(precision)
    doubt = np.linalg.inv(0.5 * (told + told.T) + np.diag(_own(tasks, way.noise, way.pull)))
    return doubt.dot(precision.dot(alone)), _settled(tasks, doubt, way.pull)


def _own(tasks: _Tasks, noise: float, pull: float) -> Array:
    """How strongly the mean is drawn to nought."""
    own = np.full(tasks.size, 1e-4 / noise)
    own[: tasks.slopes] = 1.0 / pull
    return own


def _settled(tasks: _Tasks, doubt: Array, pull: float) -> float:
    """How many of the mean's slopes the rows tell."""
    settled = tasks.slopes - float(np.diag(doubt)[: tasks.slopes].sum()) / pull
    return min(max(settled, 0.0), float(tasks.slopes))


def _pull(tasks: _Tasks, mean: Array, settled: float, noise: float, before: float) -> float:
    """The variance of the mean's slopes about nought, by MacKay's rule."""
    pull = float(np.square(mean[: tasks.slopes]).sum()) / max(settled, 0.5) + 1e-12 * noise
    return min(max(pull, before / 3.0), before * 3.0)


def _variances(kind: str, squares: Array, known: Array, slopes: slice, around: Array | None) -> Array:
    if kind == "each":
        assert around is not None
        drawn: Array = (squares + _ALIKE * around) / (known + _ALIKE)
        return drawn
    variances: Array = squares / known
    variances[slopes] = squares[slopes].sum() / max(float(known[slopes].sum()), 1e-300)
    return variances


def _with_factors(away: Array, left: Array, m: int, way: _Way, around: Array) -> Array:
    """The most probable covariance along its largest directions, and one variance along all others."""
    unit = np.sqrt(around)
    units = np.outer(unit, unit)
    values, directions = np.linalg.eigh((away + left) / units / m)
    others = directions[:, : -way.factors]
    before = float(np.linalg.eigvalsh(way.covariance / units)[0])
    squares, unknown = (float(np.vdot(others, (part / units).dot(others))) for part in (away, left))
    known = max(m * others.shape[1] - unknown / before, 0.01)
    values[: -way.factors] = min(max(squares / known, before / 4.0, _STILL), 4.0 * before)
    whole: Array = (directions * values).dot(directions.T) * units
    return whole


def _evidence(tasks: _Tasks, way: _Way) -> float:
    """The log-probability of all rows, up to what does not depend on the prior."""
    inverse = np.linalg.inv(way.covariance)
    precision = tasks.grams / way.noise + inverse
    pull = (tasks.moments - tasks.grams.dot(way.mean)) / way.noise
    gained = float(np.vdot(pull, np.linalg.solve(precision, pull[:, :, None])[:, :, 0]))
    mean, moment = way.mean, tasks.moments.sum(axis=0)
    left = (tasks.square - 2.0 * mean.dot(moment) + mean.dot(tasks.grams.sum(axis=0)).dot(mean)) / way.noise
    room = np.linalg.slogdet(precision)[1].sum() - len(tasks.grams) * np.linalg.slogdet(inverse)[1]
    numbers = tasks.count * np.log(way.noise) if tasks.regression else 0.0
    return float(-0.5 * (numbers + room + left - gained))
