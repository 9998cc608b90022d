"""Task after task: the part of scikit-learn's face that classification and regression share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..lifelong import Rules
from ..representation import LinearRepresentation
from ..tasks import Array, LabelSource, TaskEvent
from ._base import LifelongEstimator
from ._labels import Demand
from ._tables import checked_weight, rows_of_tasks


class TaskStream(LifelongEstimator):
    """Named tasks, each with a predictor of its own; see `LifelongClassifier` for the parameters."""

    def __init__(
        self,
        epsilon: float = 0.1,
        *,
        n_features: int | None = None,
        epsilon_acc: float | None = None,
        refiner: Any = "sdp",
        rounding: str = "certified",
        refine_above: int | None = None,
        representation: Any = "linear",
        learner: Any = "auto",
        check: Any = "auto",
        accept: str = "estimate",
        goal: str = "absolute",
        loss: str = "error",
        confidence: float = 0.95,
        old_tasks: str = "reproject",
        unseen_tasks: str = "error",
        spread: tuple[float, float] | None = None,
        max_labels: int = 200_000,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_features = n_features
        self.epsilon_acc = epsilon_acc
        self.refiner = refiner
        self.rounding = rounding
        self.refine_above = refine_above
        self.representation = representation
        self.learner = learner
        self.check = check
        self.accept = accept
        self.goal = goal
        self.loss = loss
        self.confidence = confidence
        self.old_tasks = old_tasks
        self.unseen_tasks = unseen_tasks
        self.spread = spread
        self.max_labels = max_labels
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    # ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, *, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, then learn the tasks of a table in order of first appearance.

        Parameters
        ----------
        X : array or table of shape (n, d)
            One example a row.
        y : array of shape (n,)
            Their labels.
        tasks : array of shape (n,), optional
            The task of every row. Without it all rows are one anonymous task.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        """
        with self._all_or_nothing():
            self._reset()
            self._learn_table(X, y, tasks, sample_weight)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        task: Hashable = None,
        tasks: Any = None,
        sample_weight: Any = None,
        classes: Any = None,
    ) -> Self:
        """Learn one more task (or, with ``tasks``, the tasks of a table) on top of what is known.

        ``classes`` is there for scikit-learn's callers and not needed: every task has its own.
        """
        with self._all_or_nothing():
            if tasks is not None:
                self._learn_table(X, y, tasks, sample_weight)
            else:
                self._learn(X, y, task, sample_weight)
        return self

    def learn_task(self, X: Any, y: Any = None, *, task: Hashable = None, sample_weight: Any = None) -> TaskEvent:
        """Learn one more task and tell what happened.

        Parameters
        ----------
        X : array or table of shape (n, d), or a source of labels
            A source has ``draw(n) -> (X, y)``; it is asked for few labels to try the features at hand, and for more,
            doubling, only while the bounds on the error do not decide.
        y : array of shape (n,)
            The labels of rows.
        task : hashable, optional
            The task's name. A name is learned once; the task without a name gives way to the next.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        """
        with self._all_or_nothing():
            return self._learn(X, y, task, sample_weight)

    def _learn(self, X: Any, y: Any, task: Hashable, sample_weight: Any) -> TaskEvent:
        if y is None and isinstance(X, LabelSource):
            if sample_weight is not None:
                raise ValueError("sample_weight goes with rows, not with labels on demand")
            self._make_room(task)
            return self._learn_source(X, task)
        rows = self._prepare(X)
        labels, weight = self._prepare_labels(y, len(rows)), checked_weight(sample_weight, len(rows))
        self._make_room(task)
        return self._learn_rows(rows, labels, weight, task)

    def _demand(self, source: LabelSource, rules: Rules) -> Demand:
        """The source, its rows and labels checked as they are drawn."""

        def prepare(X: Any, y: Any) -> tuple[Array, Any]:
            rows = self._prepare(X)
            return rows, self._prepare_labels(y, len(rows))

        return Demand(source, prepare, rules.max_labels)

    def _learn_table(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> None:
        if tasks is None:
            self._learn(X, y, None, sample_weight)
            return
        rows = self._prepare(X)
        labels, weight = self._prepare_labels(y, len(rows)), checked_weight(sample_weight, len(rows))
        for task, chosen in rows_of_tasks(tasks, len(rows)).items():
            self._make_room(task)
            self._learn_rows(rows[chosen], labels[chosen], None if weight is None else weight[chosen], task)

    @abstractmethod
    def _prepare_labels(self, y: Any, n: int) -> Any: ...

    @abstractmethod
    def _learn_rows(self, X: Array, y: Any, weight: Array | None, task: Hashable) -> TaskEvent: ...

    @abstractmethod
    def _learn_source(self, source: LabelSource, task: Hashable) -> TaskEvent: ...

    def _make_room(self, task: Hashable) -> None:
        """A name is learned once; the task without a name gives way to the next."""
        if hasattr(self, "_places") and task in self._places:
            if task is not None:
                raise ValueError(
                    f"task {task!r} is already learned: forget it first, or give the new rows another name"
                )
            self.forget(None)

    def linear_predictor(self, *, task: Hashable = None) -> tuple[Array, Array]:
        """A task's predictor on the columns of X, as it is now.

        Returns
        -------
        weights : array of shape (predictors, d)
            One predictor for two classes or a number, one a class for more.
        intercepts : array of shape (predictors,)
            The scores of rows are ``X @ weights.T + intercepts``.
        """
        check_is_fitted(self, "history_")
        if not isinstance(self.representation_, LinearRepresentation):
            raise ValueError("a task's predictor is not linear in the columns: its features are not")
        rules, origin = self._rules(), self.representation_.origin
        reads = [self._direction(index, rules) for index in self.predictors_.of_task(self._position(task))]
        weights = np.array([direction for direction, _ in reads])
        intercepts = np.array([intercept for _, intercept in reads])
        return weights, intercepts - weights @ origin if self.fit_intercept else intercepts

    def _unknown(self, task: Hashable) -> bool:
        named = task is not None or len(self._places) != 1
        return self.unseen_tasks == "average" and named and task not in self._places

    def _direction(self, index: int, rules: Rules) -> tuple[Array, float]:
        moves = isinstance(self.representation_, LinearRepresentation)  # Assumption 1 says nothing of functions
        moves = moves and self.old_tasks == "reproject" and rules.refiner is not None
        spread = rules.spread if moves else None
        proved = rules.accept == "bound"
        return self.predictors_.read(index, self.representation_, spread, rules.epsilon, proved)

    def _average_direction(self, rules: Rules) -> tuple[Array, float]:
        """The mean of all tasks' predictors; of their directions, where only the sign of a score counts."""
        known: tuple[Any, Array, float] | None = self.__dict__.get("_average")
        stamp = (len(self.predictors_), len(self.predictors_.bases), rules)
        if known is None or known[0] != stamp:
            padded = self.representation_.padded
            reads = [(padded(a), b) for a, b in (self._direction(i, rules) for i in range(len(self.predictors_)))]
            reads = [read for read in reads if self._regression or read[0].any()] or reads
            lengths = [self.representation_.length(direction) or 1.0 for direction, _ in reads]
            scales = [1.0 if self._regression else 1.0 / length for length in lengths]
            direction = np.mean([scale * a for scale, (a, _) in zip(scales, reads, strict=True)], axis=0)
            intercept = float(np.mean([scale * b for scale, (_, b) in zip(scales, reads, strict=True)]))
            known = self._average = (stamp, direction, intercept)
        return known[1], known[2]
