"""Logistic regression by Newton steps, its strength chosen by the loss on rows left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.special import expit

from ..tasks import Array, Rows
from ._base import Fit, Fits, alone, designs, solve, together

_STRENGTHS = (100.0, 3.0, 0.1, 1e-3)
_START = 2
_MANY = 40  # rows a column from which the strength hardly matters, and a quarter of them can choose it
_FLYING_OFF = 1e3  # no honest step promises to save so much of the loss, twice and by row
_STILL = 3e-4  # where a step promises so little by row, the next one ends as near as labels can tell
_ROWS = 100.0  # at most that count in it: labels of a rare class tell no less where there are many others
_BACK = 0.6  # how far along its path a solution is followed to a stronger penalty
_GIVES_WAY, _FARTHEST = 2.5, 1.0 / 0.12  # and to a weaker one: as fits of separable and of noisy rows went
_AGREE = 0.7  # of a solution for a quarter of the rows is left where all of them are fitted, if they are separable
_WIDE = 32  # columns from which it pays that Hessians are symmetric
_BLOCK = 1 << 15  # rows of the Hessian summed at once, so that a million rows need no second copy of themselves


@dataclass(frozen=True)
class Logistic:
    """Logistic regression with a ridge penalty on the direction.

    The rows are centred and scaled to unit mean square first. The strength is the one of ``strengths`` with the least
    log-loss on rows left out, which one more Newton step per row estimates without refitting.

    Parameters
    ----------
    strengths : tuple of float
        Penalties to choose from, strongest first (1 / C in scikit-learn's words).
    fit_intercept : bool
    balanced : bool
        Let both classes count the same.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.learners import Logistic
    >>> from everspan.tasks import Rows
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> fit = Logistic().fit(Rows(X, np.sign(X[:, 0])))
    >>> bool(fit.coef[0] > 20 * abs(fit.coef[1:]).max())
    True
    """

    strengths: tuple[float, ...] = _STRENGTHS
    fit_intercept: bool = True
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        return self._fit(*alone(rows))[0]

    def fit_many(self, X: Array, y: Array) -> Fits:
        """`fit` of many tasks of one size, to the bit: X of shape (tasks, n, d), y of shape (tasks, n)."""
        return together(self._fit, X, y)

    def _fit(self, X: Array, y: Array, weight: Array | None = None) -> Fits:
        inputs = designs(X, y, weight, self.fit_intercept, self.balanced)
        tasks, columns, n = inputs.matrix.shape
        matrix = np.empty((tasks, columns, n + columns))
        np.multiply(inputs.matrix, y, matrix[:, :, :n])
        matrix[:, :, n:] = np.eye(columns)
        penalty = np.ones(columns)
        if inputs.constant:
            penalty[-1] = 1e-6  # next to none
        with np.errstate(over="ignore"):  # the odds of rows that are certain
            best = self._search(_Tasks(matrix, inputs.weight, inputs.unit, penalty, inputs.count))
        return Fits(*inputs.back(best.solution), (best.unseen * y)[:, 0], np.zeros(tasks))

    def _search(self, tasks: _Tasks) -> _Solutions:
        """The solutions of the best strengths; of many rows, a quarter finds the strength and where to start."""
        if tasks.count >= _MANY * len(tasks.unit_penalty):
            rough = self._search(tasks.every(4))
            return tasks.solve(0.1 * rough.strength, _AGREE * rough.solution)  # more rows want less of it
        start = min(_START, len(self.strengths) - 1)
        best = tasks.solve(np.full((len(tasks.matrix), 1, 1), self.strengths[start]))
        weaker = tasks.want_weaker(best)
        best = _walk(tasks, best, weaker, self.strengths[start + 1 :])
        return _walk(tasks, best, ~weaker, self.strengths[:start][::-1])


@dataclass(frozen=True, slots=True)
class _Solutions:
    strength: Array
    solution: Array
    path: Array  # where the solution goes as the penalty's logarithm falls
    unseen: Array  # margins of rows left out
    loss: Array  # the sum of theirs

    def followed(self, strength: float, unit_penalty: Array) -> Array:
        """About where the solutions go at another strength, which is on the same side for all of them.

        Were the loss a parabola, all that the penalty holds back along a solution (``held``, its share of what does)
        would come at once; where rows are separable, the loss gives way as the solution grows.
        """
        least = 1e-9  # of strengths, lest it be nought
        share = (strength + least) / (self.strength + least)
        if share[0] > 1.0:
            return self.solution - _BACK * np.minimum(np.log(share), 5.0) * self.path
        pull = (self.strength + least) * unit_penalty * self.solution
        held, whole = (np.add.reduce(line * pull, 2, keepdims=True) for line in (self.path, self.solution))
        held = held / np.maximum(whole, 1e-300)
        ahead = (1.0 - share) / np.maximum(1.0 - _GIVES_WAY * held * (1.0 - share), 1.0 / _FARTHEST)
        followed: Array = self.solution + ahead * self.path
        return followed

    def part(self, tasks: Any) -> _Solutions:
        return _Solutions(*(getattr(self, name)[tasks] for name in self.__slots__))

    def put(self, tasks: Any, found: _Solutions) -> None:
        for name in self.__slots__:
            getattr(self, name)[tasks] = getattr(found, name)


def _walk(tasks: _Tasks, best: _Solutions, left: NDArray[np.bool_], strengths: tuple[float, ...]) -> _Solutions:
    """Go from strength to strength with the tasks that are left, while the loss on rows left out falls."""
    count = np.count_nonzero(left)
    if not strengths or not count:
        return best
    if count < len(left):
        best.put(left, _walk(tasks.part(left), best.part(left), left[left], strengths))
        return best
    found = tasks.solve(np.full((count, 1, 1), strengths[0]), best.followed(strengths[0], tasks.unit_penalty))
    better = found.loss < best.loss
    if np.count_nonzero(better) < count:
        best.put(better, found.part(better))
        found = best
    return _walk(tasks, found, better, strengths[1:])


class _Tasks:
    """Tasks of one size, where they are on their way to the least loss, and the memory for their next step.

    ``matrix[task]`` has a column for every row, times its label, and then the identity. A solution times it, the
    ``state``, is the margin of every row, and then the solution itself: the penalty acts like more rows.
    """

    def __init__(
        self, matrix: Array, weight: Array | None, unit: Array | None, unit_penalty: Array, count: float
    ) -> None:
        tasks, columns, width = matrix.shape
        n = width - columns
        self.matrix, self.weight, self.unit, self.unit_penalty, self.count = matrix, weight, unit, unit_penalty, count
        self.rows, self.identity, self.turned = matrix[:, :, :n], matrix[:, :, n:], matrix.transpose(0, 2, 1)
        self.still = _STILL * min(count, _ROWS)
        self.small = columns <= _WIDE and width <= _BLOCK
        self.scaled = np.empty(matrix.shape if self.small else 0)
        self.state, self.slope, self.curvature, self.moved = np.empty((4, tasks, 1, width))
        self.margins, self.solution = self.state[:, :, :n], self.state[:, :, n:]
        self.row_slope, self.penalty_slope = self.slope[:, :, :n], self.slope[:, :, n:]
        self.row_curvature, self.penalty = self.curvature[:, :, :n], self.curvature[:, :, n:]
        self.slopes = self.slope.transpose(0, 2, 1)

    def part(self, tasks: Any) -> _Tasks:
        weight, unit = (None if line is None else line[tasks] for line in (self.weight, self.unit))
        part = _Tasks(self.matrix[tasks], weight, unit, self.unit_penalty, self.count)
        part.state[:], part.penalty[:] = self.state[tasks], self.penalty[tasks]
        return part

    def every(self, step: int) -> _Tasks:
        """The same tasks with every step-th row."""
        matrix = np.concatenate([self.rows[:, :, ::step], self.identity], axis=2)
        weight, unit = (None if line is None else line[:, :, ::step] for line in (self.weight, self.unit))
        return _Tasks(matrix, weight, unit, self.unit_penalty, self.count / step)

    def solve(self, strength: Array, start: Array | None = None) -> _Solutions:
        """The solutions at these strengths, and the margin of every row after one Newton step without it."""
        rounding = 1e-15 * len(self.unit_penalty) * self.count  # hides what is less
        np.add(strength * self.unit_penalty, rounding, self.penalty)
        if start is None:
            self.start()
        else:
            np.matmul(start, self.matrix, self.state)
        self.minimise()
        inverse = _inverse(self.hessian(), self.identity)
        slope, curvature = self.row_slope, self.row_curvature
        if self.weight is not None:  # of one repetition
            slope = -expit(-self.margins)
            curvature = slope * (-1.0 - slope)
        self.move(np.matmul(inverse, self.gradient()))
        leverage = np.einsum("tcn,tcn->tn", np.matmul(inverse, self.rows), self.rows)[:, None]
        if self.unit is not None:
            leverage *= self.unit
        unseen = self.margins + slope * leverage / np.maximum(1.0 - curvature * leverage, 1e-3)
        path = np.matmul(self.penalty * self.solution, inverse)
        return _Solutions(strength, self.solution.copy(), path, unseen, self.sums(_losses(unseen)))

    def want_weaker(self, found: _Solutions) -> NDArray[np.bool_]:
        """Whether a weaker penalty would lower the loss on rows left out."""
        if self.count < 5 * len(self.unit_penalty):  # then the rows' own pull changes too
            return np.zeros(len(found.loss), dtype=bool)
        return self.sums(np.matmul(found.path, self.rows) / (1.0 + np.exp(found.unseen))) > 0.0

    def start(self) -> None:
        """Where the first step starts: after one from nought, made longer.

        Of normal rows and logits the first step finds the direction, too short by sqrt(1 - pi/2 R^2), where R^2 is what
        a line explains of the labels (two thirds of it where they are separable).
        """
        self.state[:] = 0.0
        explained = np.array(self.step()).reshape(-1, 1, 1) / self.count
        least = 0.05 + 0.35 * len(self.unit_penalty) / self.count  # as few rows seem to explain more than they do
        self.state /= np.sqrt(np.maximum(1.0 - 0.5 * np.pi * explained, least))

    def minimise(self, steps: int = 25) -> None:
        """Newton steps on the penalised loss, each task's until one promises to save hardly more of it.

        Full steps nearly always converge; where one flies off, all is done again with steps that are guarded.
        """
        still, most = self.still, _FLYING_OFF * self.count
        saved, left = self.step(), steps - 1
        while left and still < min(saved) <= max(saved) <= most:
            saved, left = self.step(), left - 1
        going = [still < save <= most for save in saved]
        while left and 2 * sum(going) > len(going):  # those that are done stay in the stack, unmoved
            found, left = self.step(np.array(going)[:, None, None]), left - 1
            saved = [new if goes else old for goes, new, old in zip(going, found, saved, strict=True)]
            going = [goes and still < save <= most for goes, save in zip(going, saved, strict=True)]
        most = most if left else still
        if left and any(going):
            others = self.part(going)
            others.minimise(left)
            self.state[going] = others.state
        for task in [task for task, save in enumerate(saved) if not 0.0 <= save <= most]:
            alone = self.part([task])
            alone.guarded()
            self.state[task] = alone.state

    def guarded(self) -> None:
        """Minimise for one task alone, by steps that are halved until they lower the loss.

        Near rows that lie far off a step may promise little where much is left, so it goes on for longer.
        """
        still = 0.01 * self.still
        self.state[:] = 0.0
        for _ in range(200):
            value = self.loss()
            (saved,) = self.step()
            while saved > still and not self.loss() <= value:
                self.moved *= 0.5
                self.state += self.moved
                saved *= 0.5
            if saved <= still:
                break

    def loss(self) -> Any:
        penalty = 0.5 * np.matmul(self.penalty * self.solution, self.solution.transpose(0, 2, 1))
        return (self.sums(_losses(self.margins)) + penalty).item()

    def sums(self, values: Array) -> Array:
        """The sums of the rows' values."""
        sums: Array = np.add.reduce(values if self.weight is None else self.weight * values, 2)[:, 0]
        return sums

    def step(self, going: NDArray[np.bool_] | None = None) -> list[float]:
        """Take a Newton step (those that are going), and return twice what it promises to save of the loss."""
        hessian, gradient = self.hessian(), self.gradient()
        step = _solve(hessian, gradient)
        self.move(step if going is None else np.where(going, step, 0.0))
        saved: list[float] = np.matmul(step.transpose(0, 2, 1), gradient).ravel().tolist()
        return saved

    def gradient(self) -> Array:
        """Of the penalised loss, where the Hessians are."""
        np.multiply(self.penalty, self.solution, self.penalty_slope)
        gradient: Array = np.matmul(self.matrix, self.slopes)
        return gradient

    def move(self, step: Array) -> None:
        """Go back by a step."""
        np.matmul(step.transpose(0, 2, 1), self.matrix, self.moved)
        np.subtract(self.state, self.moved, self.state)

    def hessian(self) -> Array:
        """The Hessians where the tasks are; leaves the slopes and curvatures of the rows' losses behind."""
        slope, row_slope, curvature = self.slope, self.row_slope, self.row_curvature
        np.exp(self.state, slope)
        np.add(slope, 1.0, slope)
        np.divide(-1.0, slope, slope)  # minus the probability of the other label
        np.subtract(-1.0, row_slope, curvature)
        np.multiply(curvature, row_slope, curvature)
        if self.weight is not None:
            row_slope *= self.weight
            curvature *= self.weight
        if self.small:
            np.multiply(self.matrix, self.curvature, self.scaled)
            hessian: Array = np.matmul(self.scaled, self.turned)
            return hessian
        root = np.sqrt(curvature)
        for first in range(0, root.shape[2], _BLOCK):
            block = slice(first, first + _BLOCK)
            scaled = self.rows[:, :, block] * root[:, :, block]
            product = np.matmul(scaled, scaled.transpose(0, 2, 1))
            hessian = hessian + product if first else product
        _diagonal(hessian)[:] += self.penalty[:, 0]
        return hessian


def _losses(margins: Array) -> Array:
    losses: Array = np.log1p(np.exp(-np.abs(margins))) - np.minimum(margins, 0.0)
    return losses


def _solve(hessians: Array, right: Array) -> Array:
    if hessians.shape[1] <= _WIDE:
        solved: Array = solve(hessians, right)
        return solved
    solved = np.empty(right.shape)
    for task, hessian in enumerate(hessians):
        _, solved[task], info = lapack.dposv(hessian, right[task], lower=1)
        if info:
            solved[task] = lapack.dpotrs(_factor(hessian), right[task], lower=1)[0]
    return solved


def _inverse(hessians: Array, identity: Array) -> Array:
    if hessians.shape[1] <= _WIDE:
        return _solve(hessians, identity)
    inverse = np.empty(hessians.shape)
    for task, hessian in enumerate(hessians):
        lower = lapack.dpotri(_factor(hessian), lower=1)[0]  # its upper half is zero: the factor came clean
        inverse[task] = lower + lower.T
    _diagonal(inverse)[:] *= 0.5
    return inverse


def _diagonal(matrices: Array) -> Array:
    return matrices.reshape(len(matrices), -1)[:, :: matrices.shape[1] + 1]


def _factor(matrix: Array) -> Array:
    factor, info = lapack.dpotrf(matrix, lower=1)
    if info:  # all rows are certain: the constant has no curvature left
        jitter = 1e-10 * max(float(np.trace(matrix)), 1e-300)
        factor, _ = lapack.dpotrf(matrix + jitter * np.eye(len(matrix)), lower=1)
    cholesky: Array = factor
    return cholesky
