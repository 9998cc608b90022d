"""Ridge regression, and least squares as its limit, with exact leave-one-out residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tasks import Array, Rows
from ._base import Fit, design

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
        inputs = design(rows, self.fit_intercept, self.balanced)
        Z = inputs.matrix[:, :-1] if self.fit_intercept else inputs.matrix
        weight = np.ones(len(Z)) if inputs.weight is None else inputs.weight
        unit = np.ones(len(Z)) if inputs.unit is None else inputs.unit
        total = float(weight.sum())
        middle = float(weight.dot(rows.y)) / total if self.fit_intercept else 0.0
        target = rows.y - middle
        curvature, axes = np.linalg.eigh((Z * weight[:, None]).T.dot(Z))
        curvature = np.maximum(curvature, 0.0)
        along = Z.dot(axes)
        penalties = np.array(self.strengths) * (float(curvature.sum()) / max(rows.X.shape[1], 1) or 1.0)
        shrink = 1.0 / (curvature[:, None] + penalties)
        solutions = shrink * (weight * target).dot(along)[:, None]
        residuals = target[:, None] - along.dot(solutions)
        constant = 1.0 / total if self.fit_intercept else 0.0
        leverage = unit[:, None] * (np.square(along).dot(shrink) + constant)
        unseen = residuals / np.maximum(1.0 - leverage, 1e-9)
        losses = weight.dot(np.square(unseen))
        best = int(losses.argmin())
        freedom = total - float((curvature * shrink[:, best]).sum()) - self.fit_intercept
        noise = float(weight.dot(np.square(residuals[:, best]))) / freedom if freedom >= 1.0 else 0.0
        solution = axes.dot(solutions[:, best])
        if self.fit_intercept:
            solution = np.append(solution, middle)
        scores: Array = rows.y - unseen[:, best]
        return inputs.fit(solution, scores, noise)


def least_squares(fit_intercept: bool = True, balanced: bool = False) -> Ridge:
    """Plain least squares on the labels (linear discriminant analysis, for halfspaces)."""
    return Ridge((1e-7,), fit_intercept, balanced)
