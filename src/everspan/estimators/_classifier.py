"""Task after task of classification."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Hashable
from dataclasses import replace
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import AreaAbove, LogLoss, Loss, ZeroOne, plausible_share, without_lone_rows
from ..learners import Fit, Fits, balanced, cache_parts, class_balance
from ..lifelong import Outcome, Rules
from ..prior import summaries_of_signs
from ..spread import HalfspaceSpread, Spread
from ..tasks import Array, LabelSource, Rows, Table, TaskEvent
from ._class_predictions import ClassPredictions
from ._classes import encoded, places_of, same_classes, union_of
from ._drift import drift_of_loss, drift_of_share
from ._labels import HalfspaceLabels
from ._means import distinct_mean
from ._tables import (
    checked_classes,
    kind_of,
    weighed_by_class,
    without_weightless,
)
from ._together import Foreseen


class LifelongClassifier(ClassPredictions):
    """Classification tasks that arrive one after another and share a small linear representation.

    Every new task is first tried on the features at hand. If that is good enough they are reused; otherwise one new
    feature is learned from the task alone, and all features are refined into a small subspace near every one of them
    (LLL-RR; Algorithm 4 of "Provable Lifelong Learning of Representations"). A task has two classes, or more, which
    become one-against-rest problems inside it. Columns should have comparable scales.

    Parameters
    ----------
    epsilon : float, default=0.1
        The error every task must meet.
    n_features : int, optional
        k, the number of features all tasks share. None: found as tasks come.
    epsilon_acc : float, optional
        The error a newly learned feature must meet. None: epsilon / (c sqrt k) with c from the proof of Theorem 4.
    refiner : {"auto", "sdp", "svd"}, callable or None, default="auto"
        How learned features become a small representation: "sdp" is the paper's program, a subspace near every one of
        them; "svd" is nearest in the mean, which is better where they were learned from too few labels; "auto" is the
        first where most of them are as accurate as the theorem asks, else the second. None is Basic LLL: all of them,
        for ever. A callable gets (features as rows, k, the radius within which each is known) and returns a basis
        (d, q), or an object with one.
    rounding : {"certified", "extreme", "paper"}, default="certified"
        See `everspan.refine`; "paper" takes 2k - 1 dimensions.
    refine_above : int, optional
        Refine only when the representation has more dimensions than this. None: after every new feature.
    representation : {"linear", "relu"} or ReLU, default="linear"
        What features are: directions in the columns, or functions of ReLU units that are learned
        (`everspan.functions.ReLU` sets how).
    learner : str or object, default="auto"
        The learner of one halfspace: "auto", "bayes_point", "logistic", "hard_margin", "least_squares", "averaging",
        an object with ``fit(rows)`` (`everspan.learners.Learner`), or a scikit-learn estimator with ``coef_``.
    check : {"auto", "train", "loo", "cv", "holdout"} or object, default="auto"
        How the error of a fit is measured. "auto" leaves one out, or holds out a quarter where rows are plenty;
        "train" is the paper's simulation.
    accept : {"estimate", "bound"}, default="estimate"
        Whether the estimated error, or an upper bound on it from held-out rows, must be below epsilon. With "bound"
        the ``confidence`` is that of all tasks of the stream together.
    goal : {"absolute", "excess"}, default="absolute"
        Whether the error itself, or what it exceeds that of the task learned alone by, must be below epsilon.
    loss : {"error", "log_loss", "auc"}, default="error"
        What the check looks at ("auc": one minus the area under the ROC curve).
    confidence : float, default=0.95
        Of the bounds in events.
    old_tasks : {"reproject", "freeze"}, default="reproject"
        Whether tasks learned earlier move to a refined representation where that keeps them within epsilon, or stay
        as they were. Tasks on ReLU functions always stay.
    unseen_tasks : {"error", "average", "prior"}, default="error"
        Whether predicting for a task never learned is an error, or predicts with the average of all tasks, or with the
        mean of the prior that was learned from them (the average, while there is none).
    prior : "learned" or None, default="learned"
        What a task is drawn to where its own labels leave doubt: the weights of other tasks, their mean and how far
        they stray from it, learned after 8, 10, 12, ... tasks. It takes linear features and at most 50
        columns.
    class_weight : dict, "balanced" or None, default=None
        How much rows of each class count: {label: weight}, 1 where a label has none, or "balanced": all classes of a
        task the same. Probabilities are then those of rows that count so.
    spread : tuple (c1, c2), optional
        Assumption 1's constants: halfspaces at angle theta disagree on a share of the data between c1 theta and
        c2 theta. None: those of Gaussian data, 1/pi both.
    max_labels : int, default=200_000
        The most labels on demand to draw for one task.
    fit_intercept : bool, default=True
        Whether predictors have a constant of their own, outside the representation.
    random_state : int, RandomState or None, default=None
        Seeds the splits of the checks; None is 0.

    Attributes
    ----------
    history_ : History
        What happened to every task.
    representation_ : LinearRepresentation or FunctionRepresentation
        What all tasks share: ``basis``, ``features`` (all learned directly), ``dimension``.
    tasks_ : list
        Names of the tasks, in order.
    classes_ : array
        All labels of all tasks.

    Examples
    --------
    >>> from everspan import LifelongClassifier
    >>> from everspan.scenarios import LinearStream
    >>> model = LifelongClassifier(epsilon=0.1)
    >>> for name, X, y in LinearStream(d=20, k=2, tasks=6, rows=400, seed=1):
    ...     print(model.learn_task(X, y, task=name))
    task 0: learned feature 1, representation of 1 dimension, error 0.0125, 400 labels
    task 1: learned feature 2, representation of 2 dimensions, error 0.0275, 400 labels
    task 2: reused 2 features, error 0.04, 400 labels
    task 3: reused 2 features, error 0.0425, 400 labels
    task 4: reused 2 features, error 0.04, 400 labels
    task 5: reused 2 features, error 0.0525, 400 labels
    >>> model.predict(X[:3], task="task 5")
    array([-1.,  1., -1.])
    """

    _losses: ClassVar[tuple[str, ...]] = ("error", "log_loss", "auc")

    def __init__(
        self,
        epsilon: float = 0.1,
        *,
        n_features: int | None = None,
        epsilon_acc: float | None = None,
        refiner: Any = "auto",
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
        prior: str | None = "learned",
        class_weight: Any = None,
        spread: tuple[float, float] | None = None,
        max_labels: int = 200_000,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon,
            n_features=n_features,
            epsilon_acc=epsilon_acc,
            refiner=refiner,
            rounding=rounding,
            refine_above=refine_above,
            representation=representation,
            learner=learner,
            check=check,
            accept=accept,
            goal=goal,
            loss=loss,
            confidence=confidence,
            old_tasks=old_tasks,
            unseen_tasks=unseen_tasks,
            prior=prior,
            spread=spread,
            max_labels=max_labels,
            fit_intercept=fit_intercept,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def _make_spread(self) -> Spread:
        return HalfspaceSpread() if self.spread is None else HalfspaceSpread(*self.spread)

    def _make_loss(self, rows: Rows) -> AreaAbove | LogLoss | ZeroOne:
        if self.loss == "log_loss":
            return LogLoss()
        return AreaAbove() if self.loss == "auc" else ZeroOne()

    def _finer_loss(self, rows: Rows) -> Loss:
        return LogLoss() if self.loss == "error" and self._log_odds() else self._make_loss(rows)

    def _trivial(self) -> float:
        return float(self.epsilon) if self.loss == "error" else 0.0

    def _constant_score(self, rows: Rows) -> float:
        return math.copysign(math.log(rows.count() + 1.0), rows.y[0])  # the rule of succession

    # Learning --------------------------------------------------------------------------------------------------------

    def _prepare_labels(self, y: Any, n: int) -> Any:
        return checked_classes(y, n)

    def _start(self, X: Array, weight: Array | None = None) -> None:
        super()._start(X, weight)
        if not hasattr(self, "classes_"):
            self.classes_: Any = np.zeros(0)
            self._label_sets: list[Any] = []
            self._label_set_of = array("q")

    def _note_label_sets(self) -> None:
        """After the label sets were read from a file."""
        self.classes_ = union_of(self._label_sets) if self._label_sets else np.zeros(0)

    def _forgotten(self, position: int) -> None:
        super()._forgotten(position)
        codes = self._label_set_of[: len(self.history_) + 1]
        used = [code for place, code in enumerate(codes) if place != position]
        kept = sorted(set(used))
        self._label_set_of = array("q", [kept.index(code) for code in used])
        self._label_sets = [self._label_sets[code] for code in kept]
        self.classes_ = union_of(self._label_sets) if kept else np.zeros(0)

    def _learn_rows(
        self, X: Array, y: Any, weight: Array | None, task: Hashable, foreseen: Fit | None = None
    ) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        if foreseen is not None:
            rules = replace(rules, learner=Foreseen(rules.learner, [foreseen]))
        X, y, weight = without_weightless(X, y, weighed_by_class(self.class_weight, y, weight))
        if weight is not None and rules.accept == "bound":
            raise ValueError('accept="bound" needs rows that count once, not sample_weight or class_weight')
        self._start(X, weight)
        classes, codes = self._as_others(*encoded(y))
        centred = X - self.representation_.origin if self.fit_intercept else X
        if len(classes) <= 2:
            signs = np.where(codes == len(classes) - 1, 1.0, -1.0)
            outcome = self._learn_one(Table(Rows(centred, signs, weight)), rules, self._seed())
            return self._finish(
                task, classes, [outcome], outcome.assessment.error, started, distinct_mean(centred, weight)
            )
        outcomes = self._learn_one_against_rest(centred, codes, weight, len(classes), rules)
        return self._finish(
            task, classes, outcomes, _error_of_largest(outcomes, codes, weight), started, distinct_mean(centred, weight)
        )

    def _can_be_plain(self, dtype: np.dtype[Any]) -> bool:
        return self.class_weight is None and self.loss == "error" and dtype.kind in "iuf"

    def _plain_targets(self, y: Any) -> tuple[NDArray[np.bool_], Array, list[Any]]:
        low, high = y.min(axis=1), y.max(axis=1)
        upper = y == high[:, None]
        plain = (low < high) & (upper | (y == low[:, None])).all(axis=1)
        if y.dtype.kind == "f":
            plain &= np.isfinite(high - low) & (low == np.floor(low)) & (high == np.floor(high))
        return plain, np.where(upper, 1.0, -1.0), list(zip(low.tolist(), high.tolist(), repeat(y.dtype)))

    def _measured(self, Z: Array, y: Array, fits: Fits, rules: Rules) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        n, positive = y.shape[1], y > 0.0
        upper, unseen = np.add.reduce(positive, -1), fits.unseen
        for place in np.flatnonzero((upper == 1) | (upper == n - 1)):
            unseen = unseen.copy() if unseen is fits.unseen else unseen
            unseen[place] = without_lone_rows(y[place], unseen[place])
        wrong = np.add.reduce((unseen >= 0.0) != positive, -1)
        plausible = np.array([plausible_share(count, n) for count in wrong.tolist()])
        noise = np.zeros(len(y))
        if rules.goal == "excess":
            scores = [fits[i].scores(Z[i]) for i in range(len(y))]
            noise = np.add.reduce((np.array(scores) >= 0.0) != positive, -1) / n
        share = upper / n
        return wrong / n, plausible, noise, np.minimum(share, 1.0 - share) <= rules.trivial

    def _all_in_short(self, Z: Array, y: Array, weights: Array) -> Array:
        if self._log_odds():
            constant = bool(self.fit_intercept)
            return np.concatenate([summaries_of_signs(Z[i], y[i], constant, weights[i]) for i in cache_parts(Z)])
        return np.stack([self._in_short(Rows(Z[i], y[i]), None).packed for i in range(len(y))])

    def _note_classes(self, classes: list[Any]) -> None:
        codes = {pair: self._code_of(np.array(pair[:2], dtype=pair[2])) for pair in dict.fromkeys(classes)}
        self._note_codes([codes[pair] for pair in classes])

    def _note_codes(self, codes: list[int]) -> None:
        """The label sets of the next tasks; states share the column, and none changes or reads another's end."""
        if len(self._label_set_of) != len(self.history_):
            self._label_set_of = self._label_set_of[: len(self.history_)]
        self._label_set_of.extend(codes)

    def _as_others(self, classes: Any, codes: NDArray[np.intp]) -> tuple[Any, NDArray[np.intp]]:
        """Rows of one class as one of two, where there is one pair of classes that other tasks have it in."""
        pairs = [labels for labels in self._label_sets if len(labels) == 2 and len(classes) == 1]
        pairs = [pair for pair in pairs if kind_of(pair) == kind_of(classes) and bool((pair == classes[0]).any())]
        if len(pairs) != 1:
            return classes, codes
        return pairs[0], np.full_like(codes, int(pairs[0][1] == classes[0]))

    def _update_rows(self, X: Array, y: Any, weight: Array | None, task: Hashable) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        X, y, weight = without_weightless(X, y, weighed_by_class(self.class_weight, y, weight))
        position = self._position(task)
        classes = self._classes_with(position, y)
        centred = X - self.representation_.origin if self.fit_intercept else X
        codes = np.searchsorted(classes, y)
        old = self.history_[position]
        several, parts = len(classes) > 2, []
        for place, index in enumerate(self.predictors_.of_task(position)):
            side = np.where(codes == (place if several else len(classes) - 1), 1.0, -1.0)
            even = several and self.class_weight is None and not (self._log_odds() and self.fit_intercept)
            parts.append((index, Rows(centred, side, _balanced_weight(side, weight) if even else weight)))
        before = [self._scored(index, own, rules) for index, own in parts]
        wrong = places_of(np.column_stack(before), classes) != codes
        rows, loss = parts[-1][1], self._make_loss(parts[-1][1])
        other = None if several or isinstance(loss, ZeroOne) else loss  # than that of the label
        drift = drift_of_share(wrong, weight, old) if other is None else drift_of_loss(other, rows, before[-1], old)
        if self.class_weight is not None and len(np.unique(codes)) < len(classes):
            drift = None  # errors that weigh the classes are known for all of them together
        drifted, used = drift is not None, old.labels_used
        found = [self._update(index, own, rules, used, drifted, alone=not several) for index, own in parts]
        judged = found[-1].rows  # all, unless it was learned anew with rows held out
        wrong = places_of(np.column_stack([one.scores for one in found]), classes) != codes[judged]
        error = float(np.average(wrong, weights=None if weight is None else weight[judged]))
        if other is not None:
            error = other.mean(rows.part(judged), found[-1].scores)
            if self.loss == "auc" and len(np.unique(codes)) < 2:
                error = math.nan  # there is no pair to order
        return self._record_update(task, error, drift, len(y), rules, started)

    def _classes_with(self, position: int, y: Any) -> Any:
        """The task's classes; rows of one class may be joined by a second, and no other comes in."""
        known, new = self._label_sets[self._label_set_of[position]], np.unique(y)
        alike = kind_of(known) == kind_of(new)
        classes = np.unique(np.concatenate([known, new])) if alike else new
        if alike and len(classes) == len(known):
            return known
        if not alike or len(known) > 1 or len(classes) > 2:
            names = ", ".join(str(label) for label in known)
            raise ValueError(
                f"the task has the classes {names}, and the new rows bring others: forget it to learn it from all rows"
            )
        if classes[0] == known[0]:  # what was the only side is now the lower one
            index = self.predictors_.of_task(position)[0]
            self._replace(index, self.predictors_.at(index).mirrored())
        codes = self._label_set_of[:]  # other states keep theirs
        codes[position] = self._code_of(classes)
        self._label_set_of = codes
        return classes

    def _code_of(self, classes: Any) -> int:
        """The place of these classes among all label sets, where they are put if they are new."""
        known = next((i for i, seen in enumerate(self._label_sets) if same_classes(seen, classes)), None)
        if known is None:
            known = len(self._label_sets)
            self._label_sets = [*self._label_sets, classes]
            self.classes_ = union_of(self._label_sets)
        return known

    def _learn_one_against_rest(
        self, X: Array, codes: NDArray[np.intp], weight: Array | None, count: int, rules: Rules
    ) -> list[Outcome]:
        """One halfspace a class, both sides counting the same: else "none of this class" would be good enough.

        Log-odds are then set back to those of the sides as often as they are. With a ``class_weight`` sides count as
        that says.
        """
        rules = replace(rules, confidence=1.0 - (1.0 - rules.confidence) / count)
        if self.class_weight is None:
            loss = (lambda rows: ZeroOne(balanced=True)) if self.loss == "error" else rules.loss
            rules = replace(rules, learner=balanced(rules.learner), loss=loss)
        seed = self._seed()  # the same rows are held out for every class
        sides = [np.where(codes == code, 1.0, -1.0) for code in range(count)]
        even = self.class_weight is None and self._log_odds() and bool(self.fit_intercept)
        shifts = [_log_odds_of(side, weight) if even else 0.0 for side in sides]
        return [
            self._learn_one(Table(Rows(X, side, weight)), rules, seed, alone=False, shift=shift)
            for side, shift in zip(sides, shifts, strict=True)
        ]

    def _learn_source(self, source: LabelSource, task: Hashable) -> TaskEvent:
        started, rules = time.perf_counter(), self._rules()
        if self.loss != "error":
            raise ValueError(f'labels on demand need a loss with a bound: "error", not {self.loss!r}')
        if self.class_weight is not None:
            raise ValueError("class_weight goes with rows, not with labels on demand")
        labels = HalfspaceLabels(self._demand(source, rules), self._origin)
        labels.take()
        outcome = self._learn_one(labels, rules, self._seed())
        mean = distinct_mean(labels.take().X)
        return self._finish(task, labels.classes, [outcome], outcome.assessment.error, started, mean)

    def _finish(
        self, task: Hashable, classes: Any, outcomes: list[Outcome], error: float, started: float, mean: Array | None
    ) -> TaskEvent:
        self._note_codes([self._code_of(classes)])
        return self._record(task, outcomes, error, started, mean=mean)


def _balanced_weight(side: Array, weight: Array | None) -> Array | None:
    """Weights with which both sides count the same, where both are there."""
    if side.min() == side.max():
        return weight
    balance = class_balance(side, weight)
    return balance if weight is None else balance * weight


def _log_odds_of(side: Array, weight: Array | None) -> float:
    """Of the upper side, by how often it is there."""
    upper, lower = (float(np.sum(chosen if weight is None else weight[chosen])) for chosen in (side > 0.0, side <= 0.0))
    return math.log(upper / lower)


def _error_of_largest(outcomes: list[Outcome], codes: NDArray[np.intp], weight: Array | None) -> float:
    """The share of rows, unseen by all fits, whose largest score is not their class's."""
    rows = outcomes[0].assessment.rows
    for outcome in outcomes[1:]:
        rows = np.intersect1d(rows, outcome.assessment.rows, assume_unique=True)
    scores = [o.assessment.scores[np.searchsorted(o.assessment.rows, rows)] for o in outcomes]
    wrong = np.argmax(scores, axis=0) != codes[rows]
    return float(np.average(wrong, weights=None if weight is None else weight[rows]))
