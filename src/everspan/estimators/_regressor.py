"""Task after task of regression (paper, Appendix B)."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d

from ..checks import Loss, SquaredError, left_out_assessment, mean_square_bounds
from ..learners import Fit, Fits
from ..lifelong import Rules
from ..prior import Summary, summaries_of_numbers, with_constant
from ..spread import RegressionSpread, Spread
from ..tasks import Array, LabelSource, Rows, Table, TaskEvent
from ._drift import RISK
from ._labels import RegressionLabels
from ._means import distinct_mean
from ._tables import MOST, check_dtype, check_size, checked_weight, left_over, rows_of_tasks, without_weightless
from ._together import Foreseen, StreamTogether


class LifelongRegressor(RegressorMixin, StreamTogether):  # type: ignore[misc]
    """Regression tasks that arrive one after another and share a small linear representation (paper, Appendix B).

    As `LifelongClassifier`, with numbers for labels. A task's error is the mean squared error of its predictor as a
    share of the variance of its target, so that epsilon means the same for targets of every scale. It is a squared
    distance, so that epsilon_acc is epsilon / (c^2 k); what a fit estimates to be noise is not counted against a
    newly learned feature.

    Parameters
    ----------
    epsilon : float, default=0.1
        The share of a target's variance that may stay unexplained. Noise counts: where there is more of it, use
        goal="excess".
    learner : {"auto", "ridge", "least_squares"} or object, default="auto"
    spread : tuple (c1, c2), optional
        The smallest and the largest eigenvalue of E[x x']. None: 1 both.
    loss : {"error", "squared_error"}, default="error"
        Both are the squared error: the error of a regression.
    n_features, epsilon_acc, refiner, rounding, refine_above, representation, check, accept, goal, confidence,
    old_tasks, unseen_tasks, prior, max_labels, fit_intercept, random_state
        As for `LifelongClassifier`. Bounds on a squared error are exact for normal residuals.

    Attributes
    ----------
    history_, representation_, tasks_
        As for `LifelongClassifier`.

    Examples
    --------
    >>> from everspan import LifelongRegressor
    >>> from everspan.scenarios import LinearStream
    >>> stream = LinearStream(d=20, k=2, tasks=4, rows=100, kind="regression", noise=0.1, seed=0)
    >>> model = LifelongRegressor(epsilon=0.05)
    >>> [model.learn_task(X, y, task=name).action for name, X, y in stream]
    ['grew', 'grew', 'reused', 'reused']
    """

    _losses: ClassVar[tuple[str, ...]] = ("error", "squared_error")
    _regression: ClassVar[bool] = True

    def _make_spread(self) -> Spread:
        return RegressionSpread() if self.spread is None else RegressionSpread(*self.spread)

    def _make_loss(self, rows: Rows) -> Loss:
        if not len(rows):
            return SquaredError()
        mean = np.average(rows.y, weights=rows.weight) if self.fit_intercept else 0.0
        return SquaredError(float(np.average(np.square(rows.y - mean), weights=rows.weight)) or 1.0)

    def _constant_score(self, rows: Rows) -> float:
        return float(rows.y[0])

    def _loss_with(self, rows: Rows, summary: Summary) -> Loss:
        """In units of the target's variance over all rows."""
        _, moment, square, count = summary.parts()
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        total, squares = count + float(weight.sum()), square + float(weight.dot(np.square(rows.y)))
        mean = (float(moment[-1]) + float(weight.dot(rows.y))) / total if self.fit_intercept else 0.0
        return SquaredError(max(squares / total - mean**2, 1e-15 * squares / total) or 1.0)

    def _prepare_labels(self, y: Any, n: int) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        check_dtype("y", y)
        target = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=np.float64, input_name="y")
        if len(target) != n:
            raise ValueError(f"X has {n} rows but y has {len(target)} numbers")
        check_size("y", target)
        return target

    def _learn_rows(
        self, X: Array, y: Any, weight: Array | None, task: Hashable, foreseen: Fit | None = None
    ) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        if foreseen is not None:
            rules = replace(rules, learner=Foreseen(rules.learner, [foreseen]))
        X, y, weight = without_weightless(X, y, weight)
        if weight is not None and rules.accept == "bound":
            raise ValueError('accept="bound" needs rows that count once, not sample_weight')
        self._start(X, weight)
        centred = X - self.representation_.origin if self.fit_intercept else X
        outcome = self._learn_one(Table(Rows(centred, y, weight)), rules, self._seed())
        return self._record(task, [outcome], outcome.assessment.error, started, mean=distinct_mean(centred, weight))

    def _can_be_plain(self, dtype: np.dtype[Any]) -> bool:
        return dtype == np.float64

    def _plain_targets(self, y: Any) -> tuple[NDArray[np.bool_], Array, list[Any]]:
        return (np.abs(y) <= MOST).all(axis=1) & (y.min(axis=1) < y.max(axis=1)), y, [None] * len(y)

    def _measured(self, Z: Array, y: Array, fits: Fits, rules: Rules) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        found = np.empty((3, len(y)))
        for i, target in enumerate(y):
            rows, fit = Rows(Z[i], target), fits[i]
            loss = self._make_loss(rows)
            left_out = left_out_assessment(loss, rows, fit, fits.unseen[i])
            training = left_out.training if rules.goal == "excess" else 0.0
            found[:, i] = left_out.error, left_out.plausible, loss.share(fit.noise) or training
        return found[0], found[1], found[2], np.zeros(len(y), dtype=bool)

    def _all_in_short(self, Z: Array, y: Array, weights: Array) -> Array:
        return summaries_of_numbers(Z, y, bool(self.fit_intercept))

    def _update_rows(self, X: Array, y: Any, weight: Array | None, task: Hashable) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        X, y, weight = without_weightless(X, y, weight)
        rows = Rows(X - self.representation_.origin if self.fit_intercept else X, y, weight)
        index = self.predictors_.of_task(self._position(task))[0]
        drifted = self._drifted(index, rows)
        used = self.history_[self._position(task)].labels_used
        loss = self._loss_with(rows, Summary(self.predictors_.at(index).summary))
        drift = loss.mean(rows, self._scored(index, rows, rules)) if drifted else None
        assessment = self._update(index, rows, rules, used, drifted)
        return self._record_update(task, assessment.error, drift, len(rows), rules, started)

    def _drifted(self, index: int, rows: Rows) -> bool:
        """Whether residuals on new rows are surely larger than noise and the uncertainty of the weights make them."""
        standing = self._standing(index)
        known, (_, _, _, count) = standing.known, standing.summary.parts()
        leans = self._leans(self.predictors_.at(index))
        if not leans and count <= 2 * len(known.mean):
            return False  # nobody can tell a change from what was not known
        Z = with_constant(standing.coordinates(self.representation_.lift(rows.X)), bool(self.fit_intercept))
        variance = known.noise + np.add.reduce(Z * np.linalg.solve(known.precision, Z.T).T, 1)
        freedom = max(count - (0 if leans else len(known.mean)), 1.0)
        surely, _ = mean_square_bounds((rows.y - Z.dot(known.mean)) / np.sqrt(variance), RISK)
        return surely > freedom / float(chdtri(freedom, 1.0 - RISK))

    def _learn_source(self, source: LabelSource, task: Hashable) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        labels = RegressionLabels(self._demand(source, rules), self._origin)
        labels.take()
        outcome = self._learn_one(labels, rules, self._seed())
        mean = distinct_mean(labels.take().X)
        return self._record(task, [outcome], outcome.assessment.error, started, mean=mean)

    def predict(self, X: Any, *, task: Hashable = None, tasks: Any = None) -> Array:
        """Predictions for rows of one ``task``, or of a task a row (``tasks``)."""
        return self._reader(task, tasks)._predict(X, task, tasks)

    def _predict(self, X: Any, task: Hashable, tasks: Any) -> Array:
        check_is_fitted(self, "history_")
        rows, rules = self._prepare(X), self._rules()
        if tasks is None:
            return self._predictions(self._lifted(rows), task, rules)
        if task is not None:
            raise ValueError("give either task, for all rows, or tasks, one a row")
        predictions = np.empty(len(rows))
        names, places, _, plain, scores = self._at_once(rows, tasks)
        predictions[plain] = scores
        for name, chosen in left_over(names, places, plain):
            predictions[chosen] = self._predictions(self._lifted(rows[chosen]), name, rules)
        return predictions

    def _predictions(self, X: Array, task: Hashable, rules: Any) -> Array:
        if self._unknown(task):
            direction, intercept = self._average_direction(rules)
        else:
            direction, intercept = self._direction(self.predictors_.of_task(self._position(task))[0], rules)
        predictions: Array = self.representation_.scores(X, direction) + intercept
        return predictions

    def score(self, X: Any, y: Any, *, task: Hashable = None, tasks: Any = None, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2 over all rows."""
        weight = checked_weight(sample_weight, len(y))
        return float(r2_score(y, self.predict(X, task=task, tasks=tasks), sample_weight=weight))

    def score_tasks(self, X: Any, y: Any, tasks: Any) -> dict[Hashable, float]:
        """R^2 of every task in a table."""
        predictions, target = self.predict(X, tasks=tasks), np.asarray(y)
        groups = rows_of_tasks(tasks, len(predictions))
        return {name: float(r2_score(target[rows], predictions[rows])) for name, rows in groups.items()}
