"""What earlier tasks say about the next: a normal prior on its weights, and the learner that is drawn to it.

The mean is the pooled direction; the covariance says how far tasks stray from it, and the constant strays on its own.
`everspan.empirical_bayes` learns it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .learners import Fit
from .tasks import Array, Rows

FIRST = 8  # tasks before there is a prior
_DOUBT = 0.03  # share of a weak prior's variance by which a task may always stray
_LEAST = 0.25  # of the curvature with which a quadratic is nowhere below the loss
MOST_COLUMNS = 50  # beyond them covariances cost more than they tell


def is_mark(tasks: int) -> bool:
    """Whether the prior is learned after so many tasks: 8, 16, 32, ...; at counts between them too while it is young.

    Examples
    --------
    >>> from everspan.prior import is_mark
    >>> [tasks for tasks in range(160) if is_mark(tasks) and tasks >= 60]
    [60, 62, 64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124, 128, 136, 144, 152]
    """
    return tasks >= FIRST and tasks % _apart(tasks) == 0


def next_mark(tasks: int) -> int:
    """The first count after so many tasks at which the prior is learned."""
    return FIRST if tasks < FIRST else tasks - tasks % _apart(tasks) + _apart(tasks)


def _apart(tasks: int) -> int:
    """How far apart marks are around so many tasks."""
    octave = 1 << (tasks.bit_length() - 1)
    return {256: 64, 512: 256}.get(octave, max(octave // 16, 2) if octave < 256 else octave)


@dataclass(frozen=True, slots=True)
class Summary:
    """All that a quadratic loss knows of rows: the inner products of their columns, the constant, and the target.

    For halfspaces, whose loss is none, they are those of the quadratic that touches it at a predictor (Laplace). Those
    of two sets of rows add up to those of both.
    """

    packed: Array
    """The upper triangle of the inner products, the target last, and how many rows they count for."""

    @classmethod
    def of(cls, gram: Array, moment: Array, square: float, count: float) -> Summary:
        size = len(moment) + 1
        whole = np.empty((size, size))
        whole[:-1, :-1], whole[:-1, -1], whole[-1, -1] = gram, moment, square
        return cls(np.append(whole[_upper(size)], count))

    @classmethod
    def of_numbers(cls, rows: Rows, constant: bool) -> Summary:
        """Of rows of a regression."""
        weight = None if rows.weight is None else rows.weight[None]
        return cls(summaries_of_numbers(rows.X[None], rows.y[None], constant, weight)[0])

    @classmethod
    def of_signs(cls, rows: Rows, constant: bool, solution: Array) -> Summary:
        """Of rows of a halfspace, at a predictor of log-odds."""
        weight = None if rows.weight is None else rows.weight[None]
        return cls(summaries_of_signs(rows.X[None], rows.y[None], constant, solution[None], weight)[0])

    @classmethod
    def of_doubtful_signs(cls, rows: Rows, constant: bool, prior: Prior) -> Summary:
        """Of rows of a halfspace that leave much doubt about it, where a prior draws it.

        The quadratic has the slopes and curvatures that the loss has on average over what the weights may be, by
        variational Gaussian approximation: where few rows are told apart with ease, the loss is flat at the most
        probable weights, and not at others that are nearly as probable.
        """
        Z = with_constant(rows.X, constant)
        near = _spanned(Z, prior) if 2 * len(Z) < Z.shape[1] else (Z, prior)
        scores, pull, curvature = _averaged(replace(rows, X=near[0]), near[1])
        weighted = Z * curvature[:, None]
        return cls.of(weighted.T.dot(Z), weighted.T.dot(scores) + Z.T.dot(pull), 0.0, float(np.add.reduce(curvature)))

    def through(self, directions: Array, constant: bool) -> Summary:
        """Of the same rows' scores along directions, instead of their columns."""
        gram, moment, square, count = self.parts()
        change = np.zeros((len(gram), directions.shape[1] + constant))
        change[: len(directions), : directions.shape[1]] = directions
        if constant:
            change[-1, -1] = 1.0
        return Summary.of(change.T.dot(gram).dot(change), change.T.dot(moment), square, count)

    def mirrored(self) -> Summary:
        """Of the same rows with the target's sign changed."""
        first, second = _upper(self.size + 1)
        with_target = (second == self.size) & (first < self.size)
        return Summary(np.where(np.append(with_target, False), -self.packed, self.packed))

    def shifted(self, offset: Array) -> Summary:
        """Of the same rows after this offset is subtracted from their coordinates; the last one is the constant.

        With T = [[I, -offset], [0, 1]] the inner products G become T G T'.
        """
        gram, moment, square, count = self.parts()
        change = np.eye(len(gram))
        change[:-1, -1] = -offset
        return Summary.of(change.dot(gram).dot(change.T), change.dot(moment), square, count)

    def __add__(self, other: Summary) -> Summary:
        return Summary(self.packed + other.packed)

    @property
    def size(self) -> int:
        """How many weights there are, the constant's among them."""
        return int(np.sqrt(2 * len(self.packed) - 1.75) - 1.5 + 1e-9)

    def parts(self) -> tuple[Array, Array, float, float]:
        """The inner products of columns, those with the target, the target's own, and the count."""
        size = self.size + 1
        whole = np.zeros((size, size))
        whole[_upper(size)] = self.packed[:-1]
        whole = whole + np.triu(whole, 1).T
        return whole[:-1, :-1], whole[:-1, -1], float(whole[-1, -1]), float(self.packed[-1])


def summaries_of_numbers(X: Array, y: Array, constant: bool, weight: Array | None = None) -> Array:
    """The packed summaries of many tasks of one size, one a row: X of shape (tasks, n, d), y of shape (tasks, n)."""
    Z, target = _with_constants(X, constant), y if weight is None else weight * y
    counts = np.full(len(y), float(y.shape[1])) if weight is None else np.add.reduce(weight, -1)
    return _packed(Z, weight, target, np.add.reduce(target * y, -1), counts)


def summaries_of_signs(X: Array, y: Array, constant: bool, solutions: Array, weight: Array | None = None) -> Array:
    """The same of halfspaces, at predictors of log-odds: solutions of shape (tasks, weights).

    The quadratic has the slope of the loss there and its curvature, but for rows told apart with ease: of these
    the curvature would say nothing, and one more row could overthrow them all. They have a share of that with which a
    quadratic is nowhere below the loss (Jaakkola and Jordan 2000).
    """
    Z = _with_constants(X, constant)
    scores = np.matmul(Z, solutions[:, :, None])[:, :, 0]
    pull, curvature = _pull_and_curvature(scores, y, weight)
    above = 0.5 * np.tanh(0.5 * np.abs(scores)) / np.maximum(np.abs(scores), 1e-4)
    curvature = np.maximum(curvature, _LEAST * (above if weight is None else weight * above))
    return _packed(Z, curvature, curvature * scores + pull, np.zeros(len(y)), np.add.reduce(curvature, -1))


def _packed(Z: Array, weight: Array | None, target: Array, squares: Array, counts: Array) -> Array:
    """Weighted inner products of all pairs of columns, those with the (weighted) target, and what else is in them."""
    tasks, n, size = Z.shape
    weighted = np.empty((tasks, n, size + 1))
    np.multiply(Z, 1.0 if weight is None else weight[:, :, None], weighted[:, :, :size])
    weighted[:, :, size] = target
    products = np.matmul(Z.transpose(0, 2, 1), weighted).reshape(tasks, -1)
    upper = _upper_places(size)
    packed = np.empty((tasks, len(upper) + 2))
    packed[:, :-2], packed[:, -2], packed[:, -1] = products[:, upper], squares, counts
    return packed


@cache
def _upper_places(size: int) -> NDArray[np.intp]:
    """Where the upper triangle is in ``size`` lines of one number more."""
    first, second = np.triu_indices(size, 0, size + 1)
    places: NDArray[np.intp] = first * (size + 1) + second
    return places


def _with_constants(X: Array, constant: bool) -> Array:
    if not constant:
        return X
    Z = np.ones((*X.shape[:2], X.shape[2] + 1))
    Z[:, :, :-1] = X
    return Z


@cache
def _upper(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(size)
    return first, second


def with_constant(X: Array, constant: bool) -> Array:
    return np.column_stack([X, np.ones(len(X))]) if constant else X


@dataclass(frozen=True)
class Prior:
    """Weights of tasks, the constant last, are normal with this mean and the inverse of this precision.

    Attributes
    ----------
    mean : array of shape (p,)
    precision : array of shape (p, p)
    noise : float
        Variance of a regression's target about its predictor; one for halfspaces.
    kind : {"none", "one", "each", "factors", "given"}
        How tasks stray from the mean, for the most part: by their constants alone, with one variance for all columns,
        one for each, or furthest along a few directions.
    trusted : bool
        Whether priors learned so far said something right about tasks that came after them; as it is learned, whether
        the evidence for its factors is decisive.
    factors : int
        How many directions there are along which tasks stray furthest, for the most part.
    """

    mean: Array
    precision: Array
    noise: float = 1.0
    kind: str = "given"
    trusted: bool = False
    factors: int = 0

    def posterior(self, summary: Summary) -> Array:
        """The weights of a task with this summary."""
        gram, moment, _, _ = summary.parts()
        solution: Array = np.linalg.solve(
            gram / self.noise + self.precision, moment / self.noise + self.precision.dot(self.mean)
        )
        return solution

    def foreseen(self, rows: Rows, constant: bool) -> float:
        """The correlation of the labels of rows with what the mean says of them; nan where either is constant."""
        said = rows.X.dot(self.mean[:-1] if constant else self.mean)
        weight = np.ones(len(said)) if rows.weight is None else rows.weight
        said, wanted = (values - weight.dot(values) / weight.sum() for values in (said, rows.y))
        lengths = float(weight.dot(said * said)) * float(weight.dot(wanted * wanted))
        return float(weight.dot(said * wanted)) / float(np.sqrt(lengths)) if lengths > 0.0 else float("nan")

    def shifted(self, offset: Array) -> Prior:
        """The prior of the same tasks after this offset is subtracted from their columns; the constant takes it up."""
        change, mean = np.eye(len(self.mean)), self.mean.copy()
        change[:-1, -1] = -offset
        mean[-1] += mean[:-1].dot(offset)
        return replace(self, mean=mean, precision=change.dot(self.precision).dot(change.T))

    def after(self, summary: Summary) -> Prior:
        """What is known of the task itself once its summary is: the prior of its next rows."""
        return replace(
            self,
            mean=self.posterior(summary),
            precision=self.precision + summary.parts()[0] / self.noise,
            kind="given",
        )


@dataclass(frozen=True)
class Shrunk:
    """The most probable weights under a prior; a learner like the others.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.prior import Prior, Shrunk
    >>> from everspan.tasks import Rows
    >>> prior = Prior(mean=np.array([3.0, 0.0, 1.0]), precision=100.0 * np.eye(3))
    >>> one_row = Rows(np.array([[1.0, 0.0]]), np.array([5.0]))
    >>> fit = Shrunk(prior, regression=True).fit(one_row)
    >>> fit.coef.round(2), round(fit.intercept, 2)
    (array([3.01, 0.  ]), 1.01)
    """

    prior: Prior
    regression: bool
    fit_intercept: bool = True

    def fit(self, rows: Rows) -> Fit:
        Z = with_constant(rows.X, self.fit_intercept)
        solution, unseen = self._numbers(Z, rows) if self.regression else self._signs(Z, rows)
        noise = self.prior.noise if self.regression else 0.0
        if self.fit_intercept:
            return Fit(solution[:-1], float(solution[-1]), unseen, noise)
        return Fit(solution, 0.0, unseen, noise)

    def _numbers(self, Z: Array, rows: Rows) -> tuple[Array, Array]:
        prior, weight = self.prior, np.ones(len(Z)) if rows.weight is None else rows.weight
        inverse = np.linalg.inv((Z * weight[:, None]).T.dot(Z) / prior.noise + prior.precision)
        solution = inverse.dot((weight * rows.y).dot(Z) / prior.noise + prior.precision.dot(prior.mean))
        residuals = rows.y - Z.dot(solution)
        leverage = np.add.reduce(Z.dot(inverse) * Z, 1) * np.minimum(weight, 1.0) / prior.noise
        return solution, rows.y - residuals / np.maximum(1.0 - leverage, 1e-9)

    def _signs(self, Z: Array, rows: Rows) -> tuple[Array, Array]:
        """Newton steps, halved until they lower the loss; every row's score without it by one step more."""
        prior = self.prior
        solution, scores = prior.mean, Z.dot(prior.mean)
        value = self._objective(scores, solution, rows)
        for _ in range(100):
            gradient, curvature = _pull_and_curvature(scores, rows.y, rows.weight)
            hessian = (Z * curvature[:, None]).T.dot(Z) + prior.precision
            towards = Z.T.dot(gradient) - prior.precision.dot(solution - prior.mean)
            step = np.linalg.solve(hessian, towards)
            size, moved = 1.0, Z.dot(step)
            if step.dot(towards) <= 1e-10:  # twice what is left to gain: too little to be seen in the loss
                solution, scores = solution + step, scores + moved
                break
            while size > 1e-6:
                lower = self._objective(scores + size * moved, solution + size * step, rows)
                if lower <= value:
                    break
                size *= 0.5
            solution, scores, value = solution + size * step, scores + size * moved, lower
        gradient, curvature = _pull_and_curvature(scores, rows.y, rows.weight)
        inverse = np.linalg.inv((Z * curvature[:, None]).T.dot(Z) + prior.precision)
        leverage = np.add.reduce(Z.dot(inverse) * Z, 1)
        own = np.ones(len(Z)) if rows.weight is None else np.minimum(1.0, 1.0 / rows.weight)  # one repetition's share
        without = scores - own * gradient * leverage / (1.0 - np.minimum(own * curvature * leverage, 0.999))
        return solution, without

    def _objective(self, scores: Array, solution: Array, rows: Rows) -> float:
        losses = np.logaddexp(0.0, -rows.y * scores)
        away = solution - self.prior.mean
        loss = np.add.reduce(losses) if rows.weight is None else rows.weight.dot(losses)
        return float(loss + 0.5 * away.dot(self.prior.precision.dot(away)))


def _pull_and_curvature(scores: Array, y: Array, weight: Array | None) -> tuple[Array, Array]:
    """First and minus second derivative of every row's log-likelihood by its score."""
    second = expit(scores)
    pull, curvature = (y > 0.0) - second, second * (1.0 - second)
    if weight is None:
        return pull, curvature
    return weight * pull, weight * curvature


def _averaged(rows: Rows, prior: Prior) -> tuple[Array, Array, Array]:
    """The scores of rows by weights under a prior; slope and curvature of their losses on average over the weights."""
    Z, weights = rows.X, Shrunk(prior, regression=False, fit_intercept=False).fit(rows).coef
    _, curvature = _pull_and_curvature(Z.dot(weights), rows.y, rows.weight)
    for _ in range(20):
        spread = np.linalg.inv((Z * curvature[:, None]).T.dot(Z) + prior.precision)
        shrink = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * np.add.reduce(Z.dot(spread) * Z, 1))
        pull, curvature = _pull_and_curvature(shrink * Z.dot(weights), rows.y, rows.weight)  # MacKay's averages
        curvature = shrink * curvature
        towards = Z.T.dot(pull) - prior.precision.dot(weights - prior.mean)
        step = 0.7 * np.linalg.solve((Z * curvature[:, None]).T.dot(Z) + prior.precision, towards)
        if float(np.abs(Z.dot(step)).max(initial=0.0)) < 1e-3:
            break
        weights = weights + step
    return Z.dot(weights), pull, curvature


def _spanned(Z: Array, prior: Prior) -> tuple[Array, Prior]:
    """The same rows under the same prior, in no more coordinates than there are rows: others change no score."""
    values, vectors = np.linalg.eigh(Z.dot(np.linalg.solve(prior.precision, Z.T)))
    some = values > 1e-12 * max(values[-1], 1e-300)
    lengths, vectors = np.sqrt(values[some]), vectors[:, some]
    return vectors * lengths, Prior(vectors.T.dot(Z.dot(prior.mean)) / lengths, np.eye(len(lengths)), prior.noise)


def weak_prior(rows: Rows, constant: bool) -> Prior:
    """As good as none: log-odds of about a half for columns of unit size."""
    squares = 4.0 * np.square(rows.X).mean(axis=0)
    precision = np.where(squares > 0.0, squares, 1.0)
    if constant:
        precision = np.append(precision, 0.1)
    return Prior(np.zeros(len(precision)), np.diag(precision))


def doubted(prior: Prior, rows: Rows, constant: bool) -> Prior:
    """A prior a little less sure of itself, so that a task unlike all before it is summarised near its own weights.

    A young prior may hold that tasks do not stray at all. The quadratic that touches a task's loss where such a prior
    draws it says little of the loss where the task is, and what it says of that may be far off.
    """
    room = _DOUBT * np.linalg.inv(weak_prior(rows, constant).precision)
    return replace(prior, precision=np.linalg.inv(np.linalg.inv(prior.precision) + room))


def foresees(found: Array, decisive: bool = False) -> bool:
    """Whether priors foresaw tasks surely and to some use, by what they were worth to each.

    Surely is two standard errors, or a half more for the later half of the tasks alone: what a prior of few tasks said
    is no longer what it says. Half of all this is enough where the evidence is ``decisive``.
    """
    if len(found) < 4:
        return False
    share = 0.5 if decisive else 1.0
    for some, surely in ((found, 2.0), (found[-max(8, len(found) // 2) :], 2.5)):
        mean, error = float(some.mean()), float(some.std(ddof=1) / np.sqrt(len(some)))
        if mean > share * max(surely * error, 0.05):
            return True
    return False
