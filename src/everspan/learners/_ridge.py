"""Ridge regression, and least squares as its limit, with exact leave-one-out residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tasks import Array, Rows
from ._base import Fit, Fits, alone, designs, eigh, together

_STRENGTHS = tuple(10.0**power for power in range(-7, 4))


@dataclass(frozen=True)
class Ridge:
    """Ridge regression whose strength has the least squared error on rows left out; all strengths are tried at once.

    Parameters
    ----------
    strengths : tuple of float
        Penalties to choose from, in units of the mean curvature of the data.
    fit_intercept, balanced : bool
        As for `Logistic`.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.learners import Ridge
    >>> from everspan.tasks import Rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> fit = Ridge().fit(Rows(X, X @ [3.0, -1.0] + 2.0 + 0.1 * rng.standard_normal(200)))
    >>> fit.coef.round(1), round(fit.intercept, 1), round(fit.noise, 2)
    (array([ 3., -1.]), 2.0, 0.01)
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
        Z, weight, unit = inputs.matrix, inputs.weight, inputs.unit
        total: float | Array = inputs.count if weight is None else np.add.reduce(weight, 2, keepdims=True)
        target, solution = y, np.empty((len(y), 1, Z.shape[1]))
        if self.fit_intercept:
            Z = Z[:, :-1]
            middle = np.add.reduce(y if weight is None else weight * y, 2, keepdims=True) / total
            target, solution[:, :, -1:] = y - middle, middle
        curvature, axes = eigh(np.matmul(Z if weight is None else Z * weight, Z.transpose(0, 2, 1)))
        curvature = np.maximum(curvature, 0.0)[:, None]
        axes = axes.transpose(0, 2, 1)
        along = np.matmul(axes, Z)
        pull = np.matmul(target if weight is None else weight * target, along.transpose(0, 2, 1))
        penalties = total * np.array(self.strengths)[:, None]  # rows of unit mean square have that mean curvature
        shrink = 1.0 / (curvature + penalties)
        residuals = target - np.matmul(shrink * pull, along)
        leverage = np.matmul(shrink, np.square(along))
        if self.fit_intercept:
            leverage += 1.0 / total
        if unit is not None:
            leverage *= unit
        unseen = residuals / np.maximum(1.0 - leverage, 1e-9)
        losses = np.square(unseen)
        best = np.add.reduce(losses if weight is None else weight * losses, 2).argmin(1)
        tasks = np.arange(len(y))
        shrink, residuals, unseen = (each[tasks, best][:, None] for each in (shrink, residuals, unseen))
        np.matmul(shrink * pull, axes, out=solution[:, :, : Z.shape[1]])
        losses = np.square(residuals)
        freedom = total - np.add.reduce(curvature * shrink, 2, keepdims=True) - self.fit_intercept
        noise = np.add.reduce(losses if weight is None else weight * losses, 2, keepdims=True)
        noise = np.where(freedom >= 1.0, noise / np.maximum(freedom, 1.0), 0.0)
        return Fits(*inputs.back(solution), (y - unseen)[:, 0], noise.ravel())


def least_squares(fit_intercept: bool = True, balanced: bool = False) -> Ridge:
    """Plain least squares on the labels (linear discriminant analysis, for halfspaces)."""
    return Ridge((1e-7,), fit_intercept, balanced)
