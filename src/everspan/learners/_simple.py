"""Two classical learners of a halfspace: averaging and the hard-margin support vector machine."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from ..tasks import Rows
from ._base import Fit, design

_STEPS = 100_000  # of the solver: separable rows need far fewer, others would take for ever


@dataclass(frozen=True)
class Averaging:
    """The mean of y x, with the threshold halfway between the means of the classes."""

    fit_intercept: bool = True
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        positive = rows.y > 0
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        if not self.fit_intercept:
            inputs = design(rows, False, self.balanced)
            weight = weight if inputs.weight is None else inputs.weight
            return Fit((weight * rows.y).dot(rows.X) / weight.sum(), 0.0)
        means = [np.average(rows.X[side], axis=0, weights=weight[side]) for side in (positive, ~positive)]
        coef = 0.5 * (means[0] - means[1])
        return Fit(coef, -float(coef.dot(means[0] + means[1])) / 2.0)


@dataclass(frozen=True)
class HardMargin:
    """The separating halfspace of largest margin (scikit-learn's SVC); soft where the rows do not separate.

    ``C`` is the price of a violated margin on rows of unit mean square, large enough that separable rows violate none.
    """

    C: float = 1e4
    fit_intercept: bool = True
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import SVC, LinearSVC

        inputs = design(rows, self.fit_intercept, self.balanced)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # rows that do not separate have no hard margin
            if self.fit_intercept:
                machine = SVC(C=self.C, kernel="linear", tol=1e-4, cache_size=500, max_iter=_STEPS)
                machine.fit(inputs.matrix[:, :-1], rows.y, sample_weight=inputs.weight)
                return inputs.fit(np.append(machine.coef_.ravel(), machine.intercept_), None)
            machine = LinearSVC(C=self.C, loss="hinge", fit_intercept=False, tol=1e-4, max_iter=5000, random_state=0)
            machine.fit(inputs.matrix, rows.y, sample_weight=inputs.weight)
            return inputs.fit(machine.coef_.ravel(), None)
