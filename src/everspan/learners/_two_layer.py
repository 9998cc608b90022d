"""A small two-layer network of ReLU units for one task: the learner behind nonlinear features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize

from ..tasks import Array, Rows
from ._base import class_balance

FOLDS = 4  # in which a network is checked: it takes long, and knows nothing of leaving one row out
SIZES = (1, 2, 3, 5, 8, 12)
_PENALTY = 5.0  # on the sum of losses of all rows, so that it fades as there are more
_OTHERS = (0.25, 4.0)  # times that
_STEPS = 400
_TRIAL_STEPS = 150  # of the one start that chooses the number of units and the penalty
_BETTER = 0.98  # more units must bring the loss on rows left out below this share of it
_NEGLIGIBLE = 1e-3  # of the function's variance: what a unit must stand for to stay


@dataclass(frozen=True, slots=True)
class NetworkFit:
    """The predictor x -> coef . relu(weights x + biases) + intercept; the last ``new`` of the units are its own.

    Attributes
    ----------
    weights : array of shape (units, d)
        Of length one each.
    biases : array of shape (units,)
    coef : array of shape (units,)
    intercept : float
    noise : float
        Regression: the variance of the target that no fit can explain, as it seems. Zero for classification.
    new : int
        Units that were learned with it; others were known before.
    unseen : None
        No score of a row by a fit that left it out is for free here.
    """

    weights: Array
    biases: Array
    coef: Array
    intercept: float
    noise: float
    new: int
    unseen: None = None

    def scores(self, X: Array) -> Array:
        scores: Array = activations(X, self.weights, self.biases).dot(self.coef) + self.intercept
        return scores


def activations(X: Array, weights: Array, biases: Array) -> Array:
    """The outputs of ReLU units, a column a unit."""
    outputs: Array = np.maximum(X.dot(weights.T) + biases, 0.0)
    return outputs


@dataclass(frozen=True)
class TwoLayer:
    """A two-layer network of ReLU units by L-BFGS from several starts.

    How many units, and how strongly weights are drawn to zero, is decided by the loss on a quarter of the rows; then
    all rows are fitted. Units that stand for next to nothing are taken out again.

    Parameters
    ----------
    regression : bool
        The squared loss instead of the logistic one.
    units : int, optional
        Units of the network; None: found out, at most ``most``.
    most : int
        Units to go up to.
    biases : bool
        Whether units have a constant of their own.
    fit_intercept : bool
        Whether the network has one.
    balanced : bool
        Let both classes count the same.
    starts : int
        Random starts, of which the best is kept.
    seed : int
        Of the starts.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.learners import TwoLayer
    >>> from everspan.tasks import Rows
    >>> X = np.random.default_rng(0).standard_normal((2000, 4))
    >>> fit = TwoLayer().fit(Rows(X[:1500], np.where(np.abs(X[:1500, 0]) > 0.7, 1.0, -1.0)))
    >>> bool(np.mean((fit.scores(X[1500:]) > 0) == (np.abs(X[1500:, 0]) > 0.7)) > 0.97)
    True
    """

    regression: bool = False
    units: int | None = None
    most: int = SIZES[-1]
    biases: bool = True
    fit_intercept: bool = True
    balanced: bool = False
    starts: int = 2
    seed: int = 0
    folds: ClassVar[int] = FOLDS

    def fit(self, rows: Rows) -> NetworkFit:
        problem = _Problem.of(rows, self)
        sizes = _ladder(self.most) if self.units is None else [self.units]
        size, strength = sizes[0], 1.0
        if len(rows) >= 8:
            size, strength = self._choose(problem, sizes)
        best = self._train(problem, size, strength, self.starts, _STEPS)
        return problem.answer(best, size)

    def _choose(self, problem: _Problem, sizes: list[int]) -> tuple[int, float]:
        """The fewest units next to which more are of no use, then the best penalty, on rows left out."""
        order = np.random.default_rng(self.seed).permutation(len(problem.y))
        order = order[np.argsort(np.sign(problem.y[order]), kind="stable")]  # as many of either label in every part
        aside = np.zeros(len(order), dtype=bool)
        aside[order[3::4]] = True
        seen, unseen = problem.part(~aside), problem.part(aside)
        losses = {size: self._unseen_loss(seen, unseen, size, 1.0) for size in sizes}
        size = min(size for size, loss in losses.items() if _BETTER * loss <= min(losses.values()))
        tried = {other: self._unseen_loss(seen, unseen, size, other) for other in _OTHERS} | {1.0: losses[size]}
        return size, min(tried, key=lambda strength: tried[strength])

    def _unseen_loss(self, seen: _Problem, unseen: _Problem, size: int, strength: float) -> float:
        return unseen.loss(self._train(seen, size, strength, 1, _TRIAL_STEPS), size)

    def _train(self, problem: _Problem, size: int, strength: float, starts: int, steps: int) -> Array:
        penalty = strength * _PENALTY / problem.count
        options: dict[str, Any] = {"maxiter": steps, "maxcor": 20}
        found = [
            minimize(problem.value, start, args=(size, penalty), jac=True, method="L-BFGS-B", options=options)
            for start in self._starts(problem, size, starts)
        ]
        best: Array = min(found, key=lambda one: float(one.fun)).x
        return best

    def _starts(self, problem: _Problem, size: int, starts: int) -> Iterator[Array]:
        """Random units; half of them speak for and half against, by turns."""
        d = problem.X.shape[1]
        for start in range(starts):
            rng = np.random.default_rng([self.seed, start, size])
            weights = rng.standard_normal((size, d)) / math.sqrt(d)
            signs = np.where(np.arange(size) % 2 == start % 2, 1.0, -1.0)
            yield np.concatenate([weights.ravel(), np.zeros(size), signs, [0.0]])


def _ladder(most: int) -> list[int]:
    """Numbers of units to try, up to the most: half as many again from step to step."""
    sizes = [*SIZES]
    while sizes[-1] < most:
        sizes.append(sizes[-1] * 3 // 2)
    return [*(size for size in sizes if size < most), most]


@dataclass(frozen=True)
class _Problem:
    """Rows made ready for descent: centred (where units have constants) and of unit mean square, targets of a
    regression of unit variance. ``count`` is how many rows these count for, ``weight`` sums to one.
    """

    X: Array
    y: Array
    weight: Array
    count: float
    centre: Array
    scale: float
    mean: float
    spread: float
    kind: Literal["logistic", "squares"]
    biases: bool
    intercept: bool

    @classmethod
    def of(cls, rows: Rows, learner: TwoLayer) -> _Problem:
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        if learner.balanced and not learner.regression:
            weight = weight * class_balance(rows.y, rows.weight)
        y, mean, spread = rows.y, 0.0, 1.0
        if learner.regression:
            mean = float(np.average(y, weights=weight)) if learner.fit_intercept else 0.0
            spread = math.sqrt(float(np.average(np.square(y - mean), weights=weight))) or 1.0
            y = (y - mean) / spread
        centre = weight.dot(rows.X) / weight.sum() if learner.biases else np.zeros(rows.X.shape[1])
        X = rows.X - centre
        scale = math.sqrt(float(np.mean(weight.dot(np.square(X)) / weight.sum()))) if X.size else 1.0
        kind: Literal["logistic", "squares"] = "squares" if learner.regression else "logistic"
        return cls(
            X / (scale or 1.0),
            y,
            weight / weight.sum(),
            rows.count(),
            centre,
            scale or 1.0,
            mean,
            spread,
            kind,
            learner.biases,
            learner.fit_intercept,
        )

    def part(self, chosen: Any) -> _Problem:
        weight = self.weight[chosen]
        share = float(weight.sum())
        return replace(self, X=self.X[chosen], y=self.y[chosen], weight=weight / share, count=self.count * share)

    def split(self, flat: Array, size: int) -> tuple[Array, Array, Array, float]:
        d = self.X.shape[1]
        weights, rest = flat[: size * d].reshape(size, d), flat[size * d :]
        return weights, rest[:size], rest[size : 2 * size], float(rest[-1])

    def value(self, flat: Array, size: int, penalty: float) -> tuple[float, Array]:
        """The loss with its penalty, and the slope of it."""
        weights, biases, coef, intercept = self.split(flat, size)
        before = self.X.dot(weights.T) + biases
        outputs = np.maximum(before, 0.0)
        loss, slope = self._loss(outputs.dot(coef) + intercept)
        back = (slope[:, None] * coef) * (before > 0.0)
        to_biases = back.sum(axis=0) + penalty * biases if self.biases else np.zeros(size)
        to_intercept = slope.sum() if self.intercept else 0.0
        slopes = np.concatenate(
            [
                (back.T.dot(self.X) + penalty * weights).ravel(),
                to_biases,
                outputs.T.dot(slope) + penalty * coef,
                [to_intercept],
            ]
        )
        drawn = float(np.vdot(weights, weights) + biases.dot(biases) + coef.dot(coef))
        return loss + 0.5 * penalty * drawn, slopes

    def _loss(self, scores: Array) -> tuple[float, Array]:
        if self.kind == "squares":
            rest = scores - self.y
            return 0.5 * float(self.weight.dot(np.square(rest))), self.weight * rest
        margins = self.y * scores
        far = np.exp(-np.abs(margins))
        slope = -self.y * np.where(margins > 0.0, far, 1.0) / (1.0 + far)
        return float(self.weight.dot(np.log1p(far) - np.minimum(margins, 0.0))), self.weight * slope

    def loss(self, flat: Array, size: int) -> float:
        weights, biases, coef, intercept = self.split(flat, size)
        return self._loss(activations(self.X, weights, biases).dot(coef) + intercept)[0]

    def answer(self, flat: Array, size: int) -> NetworkFit:
        """The network on the rows as they came: units of length one, those that stand for nothing taken out."""
        weights, biases, coef, intercept = self.split(flat, size)
        lengths = np.linalg.norm(weights, axis=1)
        kept = lengths > 1e-9 * max(float(lengths.max()), 1e-30)
        intercept += float(coef[~kept].dot(np.maximum(biases[~kept], 0.0)))  # a unit without weights is a constant
        weights, biases, coef, lengths = weights[kept], biases[kept], coef[kept], lengths[kept]
        outputs = activations(self.X, weights, biases)
        means = self.weight.dot(outputs)
        apart = outputs - means
        parts = self.weight.dot(np.square(apart)) * np.square(coef)
        alone = parts > _NEGLIGIBLE * float(self.weight.dot(np.square(apart.dot(coef))))
        intercept += float(coef[~alone].dot(means[~alone]))
        weights, biases, coef, lengths = weights[alone], biases[alone], coef[alone], lengths[alone]
        if not self.intercept:
            intercept = 0.0
        rest = self._loss(activations(self.X, weights, biases).dot(coef) + intercept)[0]
        noise, n, used = 0.0, self.count, coef.size * (self.X.shape[1] + 2)
        if self.kind == "squares" and n > used:
            noise = 2.0 * rest * self.spread**2 * n / (n - used)
        directions = weights / lengths[:, None]
        return NetworkFit(
            directions,
            biases * self.scale / lengths - directions.dot(self.centre),
            coef * lengths / self.scale * self.spread,
            intercept * self.spread + self.mean,
            noise,
            len(coef),
        )
