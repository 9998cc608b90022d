"""What all single-task learners share: their protocol, their answer, and the coordinates they work in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from ..tasks import Array, Rows


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


class Learner(Protocol):
    """Labelled rows in, a direction out: the black box of the paper."""

    def fit(self, rows: Rows) -> Fit:
        """Learn a halfspace (labels -1 and 1) or a regression from rows that are not all of one label."""


@dataclass(frozen=True, slots=True)
class Design:
    """Rows in a learner's own coordinates: centred, scaled, in the span of the rows, the constant last.

    ``weight`` counts a row's repetitions times its class's balance; ``unit`` is what leaving out one repetition takes
    away, so that a row of weight two is exactly two rows, and leaving one out leaves the other.
    """

    matrix: Array
    weight: Array | None
    unit: Array | None
    mean: Array | None
    scale: float
    span: Array | None
    constant: bool
    count: float

    def fit(self, solution: Array, unseen: Array | None, noise: float = 0.0) -> Fit:
        """Back to the coordinates of the rows."""
        coef = (solution[:-1] if self.constant else solution) / self.scale
        if self.span is not None:
            coef = self.span.dot(coef)
        intercept = float(solution[-1]) if self.constant else 0.0
        if self.mean is not None:
            intercept -= float(coef.dot(self.mean))
        return Fit(coef, intercept, unseen, noise)

    def every(self, step: int) -> Design:
        """The same coordinates for every step-th row."""
        weight, unit = self.weight, self.unit
        return replace(
            self,
            matrix=self.matrix[::step],
            weight=None if weight is None else weight[::step],
            unit=None if unit is None else unit[::step],
            count=self.count / step,
        )

    def penalty(self, strength: float) -> Array:
        """The diagonal of the ridge penalty: next to none on the constant."""
        diagonal = np.full(self.matrix.shape[1], strength)
        if self.constant:
            diagonal[-1] *= 1e-6
        return diagonal


def design(rows: Rows, fit_intercept: bool, balanced: bool = False) -> Design:
    X, weight = rows.X, rows.weight
    unit = None if weight is None else np.minimum(weight, 1.0)
    if balanced:
        balance = class_balance(rows.y, weight)
        unit = balance if unit is None else unit * balance
        weight = balance if weight is None else weight * balance
    total = float(len(X)) if weight is None else float(np.add.reduce(weight))
    mean = None
    if fit_intercept:
        mean = (np.add.reduce(X, 0) if weight is None else weight.dot(X)) / total
        X = X - mean
    squares = X.ravel().dot(X.ravel()) if weight is None else weight.dot(np.einsum("ij,ij->i", X, X))
    if mean is not None and float(squares) <= 1e-24 * total * float(mean.dot(mean)):
        X, squares = np.zeros_like(X), 0.0  # rows that differ by rounding do not differ
    scale = math.sqrt(float(squares) / (total * max(X.shape[1], 1))) or 1.0
    span = None
    if X.shape[0] < X.shape[1]:  # the solution lies in the span of the rows
        span, triangle = np.linalg.qr(X.T)
        X = triangle.T
    matrix = np.empty((X.shape[0], X.shape[1] + fit_intercept))
    np.divide(X, scale, out=matrix[:, : X.shape[1]])
    if fit_intercept:
        matrix[:, -1] = 1.0
    return Design(matrix, weight, unit, mean, scale, span, fit_intercept, rows.count())


def class_balance(y: Array, weight: Array | None) -> Array:
    """Weights that let both classes count the same, one on average."""
    positive = y > 0
    share = float(positive.mean() if weight is None else weight.dot(positive) / np.add.reduce(weight))
    balance: Array = np.where(positive, 0.5 / share, 0.5 / (1.0 - share))
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
