"""A good learner for the rows at hand, and learners by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..tasks import Array, Rows
from ._base import Fit, Fits, Learner, class_balance
from ._bayes_point import BayesPoint
from ._logistic import Logistic
from ._ridge import Ridge, least_squares
from ._simple import Averaging, HardMargin


@dataclass(frozen=True)
class Auto:
    """`BayesPoint` where rows are few for the columns, `Logistic` where they are not and both are as good.

    Fewer than three rows a column is where the mean of all halfspaces beats the best of them; past a few thousand rows
    its sweeps cost more than they gain.
    """

    fit_intercept: bool = True
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        return self._chosen(rows.count(), rows.X.shape[1]).fit(rows)

    def fit_many(self, X: Array, y: Array) -> Fits | None:
        """`Logistic.fit_many` where that is the choice; None where `BayesPoint` is, which takes tasks one at a time."""
        chosen = self._chosen(*X.shape[1:])
        return chosen.fit_many(X, y) if isinstance(chosen, Logistic) else None

    def _chosen(self, count: float, columns: int) -> BayesPoint | Logistic:
        kind = BayesPoint if count < min(3 * (columns + 1), 3000) else Logistic
        return kind(fit_intercept=self.fit_intercept, balanced=self.balanced)


@dataclass(frozen=True)
class Foreign:
    """Any scikit-learn estimator with ``coef_`` and ``intercept_``, as a learner."""

    estimator: Any
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        from sklearn.base import clone

        weight = rows.weight
        if self.balanced:
            balance = class_balance(rows.y, weight)
            weight = balance if weight is None else weight * balance
        options = {} if weight is None else {"sample_weight": weight}
        fitted = clone(self.estimator).fit(rows.X, rows.y, **options)
        coef = np.asarray(fitted.coef_, dtype=np.float64).ravel()
        return Fit(coef, float(np.ravel(getattr(fitted, "intercept_", 0.0))[0]))


HALFSPACES = {
    "auto": Auto,
    "bayes_point": BayesPoint,
    "logistic": Logistic,
    "hard_margin": HardMargin,
    "least_squares": least_squares,
    "averaging": Averaging,
}
REGRESSIONS = {"auto": Ridge, "ridge": Ridge, "least_squares": least_squares}
PROBABILISTIC = ("auto", "bayes_point", "logistic")  # their scores are log-odds


def is_probabilistic(learner: Any) -> bool:
    """Whether a learner's scores are log-odds."""
    return isinstance(learner, (Auto, BayesPoint, Logistic)) or hasattr(learner, "predict_proba")


def named_learner(learner: Any, *, regression: bool, fit_intercept: bool) -> Learner:
    """The learner of this name, or the learner or scikit-learn estimator itself."""
    known: dict[str, Any] = REGRESSIONS if regression else HALFSPACES
    if isinstance(learner, str):
        if learner not in known:
            raise ValueError(f"learner must be one of {', '.join(known)}, or a learner object, but it is {learner!r}")
        named: Learner = known[learner](fit_intercept=fit_intercept)
        return named
    if hasattr(learner, "get_params") and hasattr(learner, "fit"):
        return Foreign(learner)
    if not hasattr(learner, "fit"):
        raise ValueError(f"learner must be a name or an object with fit(rows), but it is {learner!r}")
    own: Learner = learner
    return own


def balanced(learner: Learner) -> Learner:
    """The same learner with both classes counting the same; a learner that cannot is refused."""
    if not hasattr(learner, "balanced"):
        raise ValueError(f"{type(learner).__name__} has no `balanced`: one class against the rest needs it")
    return replace(learner, balanced=True)  # type: ignore[type-var]
