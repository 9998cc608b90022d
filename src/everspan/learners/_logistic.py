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
_FLYING_OFF = 30.0**2  # no honest step moves log-odds by so much, in mean square
_STILL = 0.14**2  # where a step moves them by so little, the next one ends within about 1e-3: labels tell far less
_AHEAD, _BACK = 0.85, 0.6  # how far along its path a solution is followed to a weaker or a stronger penalty
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
            return tasks.solve(0.1 * rough.strength, rough)  # more rows want less of it
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
    found = tasks.solve(np.full((count, 1, 1), strengths[0]), best)
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
        self.small = columns <= _WIDE and width <= _BLOCK
        self.scaled = np.empty(matrix.shape if self.small else 0)
        self.state, self.slope, self.curvature, self.moved = np.empty((4, tasks, 1, width))
        self.margins, self.solution = self.state[:, :, :n], self.state[:, :, n:]
        self.row_slope, self.penalty_slope = self.slope[:, :, :n], self.slope[:, :, n:]
        self.row_curvature, self.penalty = self.curvature[:, :, :n], self.curvature[:, :, n:]
        self.slopes, self.moved_margins = self.slope.transpose(0, 2, 1), self.moved[:, :, :n]
        self.moved_turned = self.moved_margins.transpose(0, 2, 1)

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

    def solve(self, strength: Array, nearby: _Solutions | None = None) -> _Solutions:
        """The solutions at these strengths, and the margin of every row after one Newton step without it."""
        rounding = 1e-15 * len(self.unit_penalty) * self.count  # hides what is less
        np.add(strength * self.unit_penalty, rounding, self.penalty)
        self.start(strength, nearby)
        self.minimise()
        inverse = _inverse(self.hessian(), self.identity)
        slope, curvature = self.row_slope, self.row_curvature
        if self.weight is not None:  # of one repetition
            slope = -expit(-self.margins)
            curvature = slope * (-1.0 - slope)
        self.move(np.matmul(inverse, self.gradient()))
        leverage = np.add.reduce(np.matmul(inverse, self.rows) * self.rows, 1, keepdims=True)
        if self.unit is not None:
            leverage *= self.unit
        unseen = self.margins + slope * leverage / np.maximum(1.0 - curvature * leverage, 1e-3)
        path = np.matmul(self.penalty * self.solution, inverse)
        return _Solutions(strength, self.solution.copy(), path, unseen, self.sums(_losses(unseen)))

    def want_weaker(self, found: _Solutions) -> NDArray[np.bool_]:
        """Whether a weaker penalty would lower the loss on rows left out."""
        if self.count < 5 * len(self.unit_penalty):  # then the rows' own pull changes too
            return np.zeros(len(found.loss), dtype=bool)
        return self.sums(expit(-found.unseen) * np.matmul(found.path, self.rows)) > 0.0

    def start(self, strength: Array, nearby: _Solutions | None) -> None:
        """Where the first step starts: separable rows want long directions, and Newton lengthens them only slowly."""
        if nearby is None:
            self.state[:] = 0.0
            self.step()
            self.state *= 3.0
            return
        least = 1e-9  # of strengths, lest it be nought
        ahead = np.clip(np.log((nearby.strength + least) / (strength + least)), -5.0, 5.0)
        ahead *= _AHEAD if ahead[0] > 0.0 else _BACK  # all tasks go the same way
        np.matmul(nearby.solution + ahead * nearby.path, self.matrix, self.state)

    def minimise(self, steps: int = 25) -> None:
        """Newton steps on the penalised loss, each task's until one hardly moves its margins.

        Full steps nearly always converge; where one flies off, all is done again with steps that are guarded.
        """
        still, most = _STILL * self.count, _FLYING_OFF * self.count
        squares, left = self.step(), steps - 1
        while left and still < min(squares) <= max(squares) <= most:
            squares, left = self.step(), left - 1
        most = most if left else still
        going = [task for task, square in enumerate(squares) if still < square <= most]
        if going:
            others = self.part(going)
            others.minimise(left)
            self.state[going] = others.state
        for task in [task for task, square in enumerate(squares) if not square <= most]:
            alone = self.part([task])
            alone.guarded()
            self.state[task] = alone.state

    def guarded(self) -> None:
        """Minimise for one task alone, by steps that are halved until they lower the loss."""
        still = _STILL * self.count
        self.state[:] = 0.0
        for _ in range(200):
            value = self.loss()
            (square,) = self.step()
            while square > still and not self.loss() <= value:
                self.moved *= 0.5
                self.state += self.moved
                square *= 0.25
            if square <= still:
                break

    def loss(self) -> Any:
        penalty = 0.5 * np.matmul(self.penalty * self.solution, self.solution.transpose(0, 2, 1))
        return (self.sums(_losses(self.margins)) + penalty).item()

    def sums(self, values: Array) -> Array:
        """The sums of the rows' values."""
        sums: Array = np.add.reduce(values if self.weight is None else self.weight * values, 2)[:, 0]
        return sums

    def step(self) -> list[float]:
        """Take a Newton step, and return the sums of squares by which it moves the margins."""
        hessian = self.hessian()
        self.move(_solve(hessian, self.gradient()))
        moved = self.moved_margins if self.weight is None else self.weight * self.moved_margins
        squares: list[float] = np.matmul(moved, self.moved_turned).ravel().tolist()
        return squares

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
