"""What a classifier says of rows: labels, scores, probabilities, and how often it is right."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ..learners import PROBABILISTIC, is_probabilistic
from ..lifelong import Rules
from ..tasks import Array
from ._classes import assembled, labels_by, probabilities_by, same_classes
from ._tables import checked_weight, left_over, rows_of_tasks
from ._together import StreamTogether


def _has_probabilities(estimator: ClassPredictions) -> bool:
    if estimator._log_odds():
        return True
    raise AttributeError(f"predict_proba has no meaning with learner={estimator.learner!r}")


class ClassPredictions(ClassifierMixin, StreamTogether):  # type: ignore[misc]
    """Predictions of classes; what classes a task has is the place of its label set among all there are."""

    _label_sets: list[Any]
    _label_set_of: array[int]

    def _log_odds(self) -> bool:
        learner = self.learner
        return learner in PROBABILISTIC if isinstance(learner, str) else is_probabilistic(learner)

    def _scores(self, X: Array, task: Hashable, rules: Rules) -> tuple[Array, Any]:
        """Scores (n, predictors) of lifted rows, and the task's classes."""
        if self._unknown(task):
            if len(self._label_sets) != 1 or len(self._label_sets[0]) != 2:
                raise ValueError("an average task needs tasks with the same two classes")
            reads = [self._average_direction(rules)]
            classes = self._label_sets[0]
        else:
            position = self._position(task)
            reads = [self._direction(index, rules) for index in self.predictors_.of_task(position)]
            classes = self._label_sets[self._label_set_of[position]]
        known = self.representation_
        return np.column_stack([known.scores(X, direction) + intercept for direction, intercept in reads]), classes

    def _by_task(self, X: Any, task: Hashable, tasks: Any) -> list[tuple[Any, Array, Any]]:
        """Row positions, scores and classes of every task asked for."""
        return self._reader(task, tasks)._parts(X, task, tasks)

    def _parts(self, X: Any, task: Hashable, tasks: Any) -> list[tuple[Any, Array, Any]]:
        check_is_fitted(self, "history_")
        rows, rules = self._prepare(X), self._rules()
        if tasks is None:
            return [(slice(None), *self._scores(self._lifted(rows), task, rules))]
        if task is not None:
            raise ValueError("give either task, for all rows, or tasks, one a row")
        names, places, known, plain, scores = self._at_once(rows, tasks)
        sets = np.array(self._label_set_of[:])[known[places[plain]]] if len(plain) else np.zeros(0, dtype=np.intp)
        parts = [(plain[sets == code], scores[sets == code, None], self._label_sets[code]) for code in np.unique(sets)]
        rest = left_over(names, places, plain)
        return [*parts, *((chosen, *self._scores(self._lifted(rows[chosen]), name, rules)) for name, chosen in rest)]

    def predict(self, X: Any, *, task: Hashable = None, tasks: Any = None) -> Any:
        """Labels of rows of one ``task``, or of a task a row (``tasks``)."""
        parts = [(rows, labels_by(scores, classes)) for rows, scores, classes in self._by_task(X, task, tasks)]
        return assembled(parts)

    def decision_function(self, X: Any, *, task: Hashable = None, tasks: Any = None) -> Any:
        """Scores: positive for the second class of two; a column a class of more."""
        parts = self._by_task(X, task, tasks)
        if len({scores.shape[1] for _, scores, _ in parts}) > 1:
            raise ValueError("these tasks have different numbers of classes: ask for one task at a time")
        scores = assembled([(rows, scores) for rows, scores, _ in parts])
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, task: Hashable = None, tasks: Any = None) -> Any:
        """Probabilities of the task's classes, a column each in sorted order.

        Where several tasks are asked for they must have the same classes.
        """
        parts = self._by_task(X, task, tasks)
        if any(not same_classes(classes, parts[0][2]) for _, _, classes in parts):
            raise ValueError("these tasks have different classes: ask for one task at a time")
        return assembled([(rows, probabilities_by(scores, classes)) for rows, scores, classes in parts])

    def classes_of(self, task: Hashable = None) -> list[Any]:
        """The classes of a task, in sorted order."""
        reader = self._reader(task)
        labels: list[Any] = reader._label_sets[reader._label_set_of[reader._position(task)]].tolist()
        return labels

    def predict_with_probability(self, X: Any, *, task: Hashable = None, tasks: Any = None) -> tuple[Any, Array]:
        """Labels of rows, and how probable each is; tasks may have different classes.

        Where a learner's scores are not log-odds, the probabilities are nan.
        """
        parts = self._by_task(X, task, tasks)
        labels = assembled([(rows, labels_by(scores, classes)) for rows, scores, classes in parts])
        if not self._log_odds():
            return labels, np.full(len(labels), np.nan)
        best = [(rows, probabilities_by(scores, classes).max(axis=1)) for rows, scores, classes in parts]
        return labels, assembled(best)

    def score(self, X: Any, y: Any, *, task: Hashable = None, tasks: Any = None, sample_weight: Any = None) -> float:
        """Accuracy over all rows."""
        correct = self.predict(X, task=task, tasks=tasks) == column_or_1d(y)
        return float(np.average(correct, weights=checked_weight(sample_weight, len(correct))))

    def score_tasks(self, X: Any, y: Any, tasks: Any) -> dict[Hashable, float]:
        """Accuracy of every task in a table."""
        correct = self.predict(X, tasks=tasks) == column_or_1d(y)
        return {name: float(correct[rows].mean()) for name, rows in rows_of_tasks(tasks, len(correct)).items()}
