"""Class after class: one classifier over all classes seen (paper, Appendix B)."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..checks import Loss, ZeroOne
from ..learners import balanced, fit_multinomial
from ..lifelong import Rules, refine
from ..representation import LinearRepresentation
from ..spread import HalfspaceSpread, Spread
from ..tasks import Array, Rows, Table, TaskEvent
from ..threads import LOCK, limited
from ._base import LifelongEstimator
from ._checked import checked_count
from ._memory import RowMemory
from ._predictors import Predictors, check_finite
from ._tables import checked_classes, checked_weight, kind_of, without_weightless


class ClassIncrementalClassifier(ClassifierMixin, LifelongEstimator):  # type: ignore[misc]
    """Classes that arrive one after another, told apart by one classifier on a shared small representation.

    A new class is first told from a memory of the earlier ones on the features at hand, as a halfspace: this decides
    whether the representation grows (paper, Appendix B). The region of one class among several is not a halfspace,
    so predictions come from a multinomial fit over memory and new rows.

    Parameters
    ----------
    epsilon : float, default=0.02
        How much worse than on all columns a class may be told from the others on the representation, as the mean
        error of both sides.
    memory : int or None, default=2000
        Rows kept, in total, for all classes; a random sample of each. None keeps all.
    goal : {"excess", "absolute"}, default="excess"
        "excess", because the best halfspace for a class may err often.
    n_features, epsilon_acc, refiner, rounding, refine_above, representation, learner, check, spread, fit_intercept,
    random_state
        As for `LifelongClassifier`.

    Attributes
    ----------
    classes_ : array
        Labels seen, sorted.
    history_ : History
        One event a call; its task is the new label, or the tuple of the new labels. Its error is that of the
        classifier over all classes seen, estimated on rows set aside.
    memory_ : RowMemory
        The rows kept, with their labels.
    representation_
        As for `LifelongClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from everspan import ClassIncrementalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ClassIncrementalClassifier(memory=300)
    >>> for digit in range(4):
    ...     rows = (y[:1200] == digit)
    ...     event = model.learn_task(X[:1200][rows] / 16, y[:1200][rows])
    >>> model.classes_
    array([0, 1, 2, 3])
    >>> later = y[1200:] < 4
    >>> bool(model.score(X[1200:][later] / 16, y[1200:][later]) > 0.85)
    True
    """

    _losses: ClassVar[tuple[str, ...]] = ("error",)
    loss: ClassVar[str] = "error"
    accept: ClassVar[str] = "estimate"
    confidence: ClassVar[float] = 0.95
    old_tasks: ClassVar[str] = "freeze"
    unseen_tasks: ClassVar[str] = "error"
    max_labels: ClassVar[int] = 200_000

    def __init__(
        self,
        epsilon: float = 0.02,
        *,
        memory: int | None = 2000,
        n_features: int | None = None,
        epsilon_acc: float | None = None,
        refiner: Any = "auto",
        rounding: str = "certified",
        refine_above: int | None = None,
        representation: Any = "linear",
        learner: Any = "auto",
        check: Any = "auto",
        goal: str = "excess",
        spread: tuple[float, float] | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.memory = memory
        self.n_features = n_features
        self.epsilon_acc = epsilon_acc
        self.refiner = refiner
        self.rounding = rounding
        self.refine_above = refine_above
        self.representation = representation
        self.learner = learner
        self.check = check
        self.goal = goal
        self.spread = spread
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def _make_spread(self) -> Spread:
        return HalfspaceSpread() if self.spread is None else HalfspaceSpread(*self.spread)

    def _make_loss(self, rows: Rows) -> Loss:
        return ZeroOne(balanced=True)

    def _constant_score(self, rows: Rows) -> float:
        return float(rows.y[0])

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Forget everything, then learn the classes one at a time in order of first appearance."""
        self._commit(lambda model: model._learn_anew(X, y, sample_weight))
        return self

    def _learn_anew(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._reset()
        rows, labels, weight = self._checked(X, y, sample_weight)
        for label in labels[np.sort(np.unique(labels, return_index=True)[1])]:
            chosen = labels == label
            self._learn_rows(rows[chosen], labels[chosen], None if weight is None else weight[chosen])

    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None, classes: Any = None) -> Self:
        """Learn more classes, or more rows of known ones; ``classes`` is there for scikit-learn's callers."""
        self.learn_task(X, y, sample_weight=sample_weight)
        return self

    def learn_task(self, X: Any, y: Any, *, sample_weight: Any = None) -> TaskEvent:
        """Learn the new classes of a table together, and tell what happened."""
        return self._commit(lambda model: model._learn_rows(*model._checked(X, y, sample_weight)))

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Any, Array | None]:
        """Rows that count, their labels and weights."""
        rows = self._prepare_to_learn(X)
        labels, weight = self._prepare_labels(y, len(rows)), checked_weight(sample_weight, len(rows))
        return without_weightless(rows, labels, weight)

    def _start(self, X: Array, weight: Array | None = None) -> None:
        super()._start(X, weight)
        if not hasattr(self, "memory_"):
            self.memory_ = RowMemory(np.zeros((0, X.shape[1])), np.zeros(0), np.zeros(0), np.zeros(0), {})
            self.classes_: Any = np.zeros(0)
            self._pairs: list[tuple[Any, Any]] = []  # the classes that each feature was learned from

    def _learn_rows(self, X: Array, y: Any, weight: Array | None) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        size = None if self.memory is None else checked_count("memory", self.memory, 1)
        rules = replace(rules, learner=balanced(rules.learner))
        self._start(X, weight)
        if len(self.classes_) and kind_of(np.asarray(y)) != kind_of(self.classes_):
            known, other = kind_of(self.classes_), kind_of(np.asarray(y))
            raise ValueError(f"the classes known are {known}, such as {self.classes_[0]!r}, but these are {other}")
        seed = self._seed()
        pool = self.memory_.joined(X, y, np.ones(len(X)) if weight is None else weight, seed)
        classes = np.unique(pool.labels)
        if size is not None and size < len(classes):
            raise ValueError(f"memory={size} cannot hold a row of each of {len(classes)} classes")
        new = classes[~np.isin(classes, self.classes_)] if len(self.classes_) else classes
        centred = pool.rows - self.representation_.origin if self.fit_intercept else pool.rows
        counts = None if (pool.counts == 1.0).all() else pool.counts
        outcomes = []
        for label, other in _pairs(new, classes):
            chosen = _to_learn_from(pool, label) | _to_learn_from(pool, other)
            side = np.where(pool.labels[chosen] == label, 1.0, -1.0)
            rows = Rows(centred[chosen], side, None if counts is None else counts[chosen])
            outcomes.append(self._learn_one(Table(rows), rules, seed))
            if outcomes[-1].action == "grew":
                self._pairs = [*self._pairs, (label, other)]
        self._fit_classifier(centred, pool, classes)
        self.classes_, self.memory_ = classes, pool.trimmed(size)
        return self._record(self._name(new), outcomes, self.error_, started, labels_used=len(X))

    def _fit_classifier(self, centred: Array, pool: RowMemory, classes: Any) -> None:
        """Over the columns, drawn towards the features; over all units where those are functions."""
        codes, known = np.searchsorted(classes, pool.labels), self.representation_
        rows = known.lift(centred)
        basis = known.basis if isinstance(known, LinearRepresentation) else np.eye(rows.shape[1])
        with LOCK, limited():
            fit = fit_multinomial(rows, codes, pool.weights(), basis, pool.aside)
        check_finite(fit.coef, fit.intercept)
        self.coef_, self.intercept_, self.error_ = fit.coef @ fit.basis.T, fit.intercept, fit.error

    def _move_origin(self, rules: Rules) -> None:
        """Put the origin at the mean of the rows that are kept."""
        rows = np.average(self.memory_.rows, axis=0, weights=self.memory_.counts)
        self.representation_ = self.representation_.moved(rows)

    def _name(self, new: Any) -> Hashable:
        """The label that is new, or the tuple of those that are."""
        labels: list[Hashable] = new.tolist()
        if len(labels) == 1:
            return labels[0]
        if labels:
            return tuple(labels)
        return next(name for i in range(len(self.history_) + 1) if (name := f"more rows {i}") not in self._places)

    def _prepare_labels(self, y: Any, n: int) -> Any:
        return checked_classes(y, n)

    # Predicting ------------------------------------------------------------------------------------------------------

    def _scores(self, X: Any) -> tuple[Array, Any]:
        """Scores of rows, a column a class, and the classes."""
        view = self._reader()
        check_is_fitted(view, "history_")
        rows = view._prepare(X)
        centred = rows - view.representation_.origin if view.fit_intercept else rows
        return view.representation_.lift(centred) @ view.coef_.T + view.intercept_, view.classes_

    def decision_function(self, X: Any) -> Array:
        """Log-probabilities up to a constant, a column a class; one column, of the second class, for two."""
        scores, _ = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of all classes seen, in the order of ``classes_``."""
        scores, _ = self._scores(X)
        probabilities: Array = np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))
        return probabilities

    def predict(self, X: Any) -> Any:
        """The most probable class."""
        scores, classes = self._scores(X)
        return classes[scores.argmax(axis=1)]

    def forget(self, task: Hashable = None) -> Self:
        """Remove the classes of one call: their rows, and every feature learned from them.

        The other features are refined again and the classifier is fitted again to the rows that are kept. If it was the
        first call, the columns' origin moves to the mean of these rows. A call that fails or is interrupted removes
        nothing. Features that were learned from other classes, but refined while these were known, stay.
        """
        return super().forget(task)

    def _forget(self, task: Hashable) -> None:
        check_is_fitted(self, "history_")
        position, rules = self._position(task), self._rules()
        gone = task if isinstance(task, tuple) else (task,)
        if not np.isin(self.classes_, np.array(gone)).any():
            raise ValueError(f"{task!r} brought no class: forget the classes whose rows these were")
        kept = self.memory_.without(gone)
        if not len(kept.labels):
            raise ValueError(f"{task!r} is all there is: a classifier needs a class")
        representation = self.representation_
        lost = [index for index, pair in enumerate(self._pairs) if set(pair) & set(gone)]
        for index in reversed(lost):
            representation = representation.without_feature(index)
        if lost and len(representation.features):
            representation, _ = refine(representation, rules)
        self.representation_, self.predictors_ = representation, Predictors()
        self.predictors_.new_version(representation.basis)
        self.history_ = self.history_.without(position)
        for _ in self.history_:  # classes are told apart by one classifier: no task has a predictor of its own
            self.predictors_.end_task()
        self._pairs = [pair for index, pair in enumerate(self._pairs) if index not in lost]
        self.memory_, self.classes_ = kept, np.unique(kept.labels)
        if self.fit_intercept and position == self.__dict__.get("_origin_task", 0):
            self._move_origin(rules)
            self._origin_task = None
        representation = self.representation_
        centred = kept.rows - representation.origin if self.fit_intercept else kept.rows
        self._fit_classifier(centred, kept, self.classes_)


def _to_learn_from(pool: RowMemory, label: Any) -> Any:
    """The rows of a class that are not set aside, or all where none would be left."""
    rows = pool.labels == label
    kept = rows & ~pool.aside
    return kept if kept.any() else rows


def _pairs(new: Any, classes: Any) -> list[tuple[Any, Any]]:
    """Every new class with every other; two new ones once."""
    fresh = set(new.tolist())
    return [(a, b) for a in new.tolist() for b in classes.tolist() if b != a and (b not in fresh or b < a)]
