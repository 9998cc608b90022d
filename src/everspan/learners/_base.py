"""What all single-task learners share: their protocol, their answer, and the coordinates they work in."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np

from ..tasks import Array, Rows

# What np.linalg does for stacks of matrices, without its checks, which cost more than a small matrix does.
_kernels: Any = getattr(np.linalg, "_umath_linalg", np.linalg)
solve, eigh = _kernels.solve, getattr(_kernels, "eigh_lo", np.linalg.eigh)
_TOGETHER = 3 << 14  # numbers in the rows of tasks fitted at once, that with their products stay in the cache


@dataclass(frozen=True, slots=True)
class Fit:
    """The predictor x -> coef . x + intercept that a learner found.

    Attributes
    ----------
    coef : array of shape (d,)
    intercept : float
    unseen : array of shape (n,) or None
        The score of every row by a fit that left it out, where the learner knows it (nearly) for free.
    noise : float
        Regression: the variance of the target that no fit can explain. Zero for halfspaces.
    """

    coef: Array
    intercept: float
    unseen: Array | None = None
    noise: float = 0.0

    def scores(self, X: Array) -> Array:
        scores: Array = X.dot(self.coef) + self.intercept
        return scores


def changed(fit: Any, **values: Any) -> Any:
    """A copy of a fit, of whatever class, with some of its attributes changed."""
    if is_dataclass(fit) and not isinstance(fit, type):
        return replace(fit, **values)
    other = copy.copy(fit)
    for name, value in values.items():
        setattr(other, name, value)
    return other


@dataclass(frozen=True, slots=True)
class Fits:
    """What a learner found for many tasks of one size: ``fits[i]`` is the `Fit` of task i.

    Attributes
    ----------
    coef : array of shape (tasks, d)
    intercept : array of shape (tasks,)
    unseen : array of shape (tasks, n)
    noise : array of shape (tasks,)
    """

    coef: Array
    intercept: Array
    unseen: Array
    noise: Array

    def __len__(self) -> int:
        return len(self.coef)

    def __getitem__(self, task: int) -> Fit:
        return Fit(self.coef[task], float(self.intercept[task]), self.unseen[task], float(self.noise[task]))


class Learner(Protocol):
    """Labelled rows in, a direction out: the black box of the paper."""

    def fit(self, rows: Rows) -> Fit:
        """Learn a halfspace (labels -1 and 1) or a regression from rows that are not all of one label."""


@dataclass(frozen=True, slots=True)
class Designs:
    """Tasks of one size in a learner's own coordinates: centred, scaled, in the span of the rows, the constant last.

    ``matrix[task]`` has a line for every coordinate and a column for every row; what else a task has a number of for
    every row or coordinate is one line. ``weight`` counts a row's repetitions times its class's balance; ``unit`` is
    what leaving out one repetition takes away, so that a row of weight two is exactly two rows, and leaving one out
    leaves the other. Only a task alone may have repetitions.

    A task's numbers do not depend on its companions, to the bit: matrices are multiplied task by task, and sums run
    along a line, whose numbers lie next to each other.
    """

    matrix: Array
    weight: Array | None
    unit: Array | None
    mean: Array | None
    scale: Array
    span: Array | None
    constant: bool
    count: float

    def back(self, solution: Array) -> tuple[Array, Array]:
        """Coefficients and intercepts in the coordinates of the rows."""
        coef = (solution[:, :, :-1] if self.constant else solution) / self.scale
        if self.span is not None:
            coef = np.matmul(coef, self.span.transpose(0, 2, 1))
        intercept = solution[:, 0, -1] if self.constant else np.zeros(len(solution))
        if self.mean is not None:
            intercept = intercept - np.matmul(coef, self.mean)[:, 0, 0]
        return coef[:, 0], intercept


@dataclass(frozen=True, slots=True)
class Design:
    """The design of one task, its ``matrix`` with a line for every row."""

    matrix: Array
    weight: Array | None
    unit: Array | None
    count: float
    stack: Designs

    def fit(self, solution: Array, unseen: Array | None, noise: float = 0.0) -> Fit:
        """Back to the coordinates of the rows."""
        coef, intercept = self.stack.back(solution[None, None])
        return Fit(coef[0], float(intercept[0]), unseen, noise)


def designs(X: Array, y: Array, weight: Array | None, fit_intercept: bool, balanced: bool) -> Designs:
    tasks, n, d = X.shape
    count = float(n) if weight is None else float(np.add.reduce(weight, None))
    unit = None if weight is None else np.minimum(weight, 1.0)
    if balanced:
        balance = class_balance(y, weight)
        unit = balance if unit is None else unit * balance
        weight = balance if weight is None else weight * balance
    total: float | Array = count if weight is None else np.add.reduce(weight, 2, keepdims=True)
    matrix = np.empty((tasks, min(n, d) + fit_intercept, n))
    inner = matrix[:, : min(n, d)]
    Z = inner if d <= n else np.empty((tasks, d, n))
    Z[:] = X.transpose(0, 2, 1)
    mean = None
    if fit_intercept:
        matrix[:, -1] = 1.0
        mean = np.add.reduce(Z if weight is None else Z * weight, 2, keepdims=True) / total
        Z -= mean
    weighed = Z if weight is None else Z * weight
    squares = np.matmul(weighed.reshape(tasks, 1, d * n), Z.reshape(tasks, d * n, 1))
    scale = np.sqrt(squares / (total * max(d, 1)))
    same = squares <= (0.0 if mean is None else 1e-24 * total * np.matmul(mean.transpose(0, 2, 1), mean))
    if np.count_nonzero(same):  # rows that differ by rounding do not differ
        Z[same.ravel()], scale[same] = 0.0, 1.0
    span = None
    if n < d:  # the solution lies in the span of the rows
        span, Z = np.linalg.qr(Z)
    np.divide(Z, scale, out=inner)
    return Designs(matrix, weight, unit, mean, scale, span, fit_intercept, count)


def design(rows: Rows, fit_intercept: bool, balanced: bool = False) -> Design:
    stack = designs(*alone(rows), fit_intercept, balanced)
    weight, unit = (None if line is None else line[0, 0] for line in (stack.weight, stack.unit))
    return Design(np.ascontiguousarray(stack.matrix[0].T), weight, unit, stack.count, stack)


def alone(rows: Rows) -> tuple[Array, Array, Array | None]:
    """The rows of a task as a stack of one task, and its labels and weights as lines."""
    return rows.X[None], rows.y[None, None], None if rows.weight is None else rows.weight[None, None]


def together(fit: Callable[[Array, Array], Fits], X: Array, y: Array) -> Fits:
    """Fit a stack of tasks, as many at once as stay in the cache."""
    if X.ndim != 3 or y.shape != X.shape[:2]:
        raise ValueError(f"X must have shape (tasks, n, d) and y (tasks, n), but they have {X.shape} and {y.shape}")
    y = np.ascontiguousarray(y)
    parts = [fit(X[part], y[part, None]) for part in cache_parts(X)]
    return Fits(*(np.concatenate([getattr(part, name) for part in parts]) for name in Fits.__slots__))


def cache_parts(X: Array) -> list[slice]:
    """A stack of tasks in parts that stay in the cache."""
    count = max(1, math.ceil(X.size / _TOGETHER))
    ends = [len(X) * i // count for i in range(count + 1)]
    return [slice(i, j) for i, j in pairwise(ends) if i < j]


def class_balance(y: Array, weight: Array | None) -> Array:
    """Weights that let both classes count the same, one on average."""
    positive = np.where(y > 0, 1.0, 0.0)
    total = y.shape[-1] if weight is None else np.add.reduce(weight, -1, keepdims=True)
    share = np.add.reduce(positive if weight is None else weight * positive, -1, keepdims=True) / total
    balance: Array = np.where(y > 0, 0.5 / share, 0.5 / (1.0 - share))
    return balance


State = TypeVar("State")


def best_strength(
    strengths: Sequence[float],
    start: int,
    solve: Callable[[float, State | None], tuple[float, State]],
    direction: Callable[[float, State], int],
    precision: float = 0.0,
) -> State:
    """Walk from the start up (1) or down (-1) the list, or stay (0), while the loss on rows left out falls.

    A fall by no more than this share of the loss, its ``precision``, is none.
    """
    best_loss, best = solve(strengths[start], None)
    step = direction(best_loss, best)
    position = start + step
    while step and 0 <= position < len(strengths):
        loss, state = solve(strengths[position], best)
        if not loss < (1.0 - precision) * best_loss:
            break
        best_loss, best = loss, state
        position += step
    return best
