"""Task after task: the part of scikit-learn's face that classification and regression share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..empirical_bayes import learn_prior
from ..functions import FunctionRepresentation
from ..learners import Fit, Learner
from ..lifelong import Outcome, Rules
from ..names import as_name
from ..prior import MOST_COLUMNS, Prior, Shrunk, Summary, doubted, foresees, is_mark, weak_prior
from ..representation import LinearRepresentation, Representation
from ..tasks import Array, LabelSource, Rows, TaskEvent
from ..threads import one_thread
from ._atomic import Cache
from ._base import LifelongEstimator
from ._checked import checked_choice
from ._labels import Demand
from ._origin import moved, new_origin, rough, spread_of
from ._predictors import UPDATED, Kept
from ._tables import checked_weight, distinct_tasks, is_missing, rows_of_tasks

_ROWS = 1 << 12  # of which scores are found at once: they stay in the cache
_MOST_PAIRED = 256  # columns up to which all pairs of them are kept of tasks in doubt
_ROOM = 1 << 30  # bytes of summaries, beyond which only those of few columns are kept whole
EARLY = 64  # tasks after which only doubtful ones are kept in columns, unless most are


class TaskStream(LifelongEstimator):
    """Named tasks, each with a predictor of its own; see `LifelongClassifier` for the parameters."""

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
        self.prior = prior
        self.spread = spread
        self.max_labels = max_labels
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    # What tasks say about each other ---------------------------------------------------------------------------------

    def _resolve(self) -> Rules:
        if self.prior is not None:
            checked_choice("prior", self.prior, ("learned",))
        return super()._resolve()

    def _start(self, X: Array, weight: Array | None = None) -> None:
        super()._start(X, weight)
        if not hasattr(self, "prior_"):
            self.prior_: Prior | None = None

    def _shares(self) -> bool:
        """Whether tasks tell each other about their weights: there must not be too many."""
        linear = isinstance(self.representation_, LinearRepresentation)
        return self.prior is not None and linear and self.n_features_in_ <= MOST_COLUMNS

    def _keeps_columns(self) -> bool:
        """Whether tasks about which there is doubt are kept in columns: there must be room for all pairs of them."""
        if self._shares() or self.prior is None or not isinstance(self.representation_, LinearRepresentation):
            return self._shares()
        return self.n_features_in_ <= _MOST_PAIRED and self.predictors_.summary_bytes < _ROOM

    def _shrunk(self) -> Learner | None:
        known = self.prior_ if self.prior is not None else None
        return None if known is None else Shrunk(known, self._regression, bool(self.fit_intercept))

    def _trusted(self) -> bool:
        return self.prior_ is not None and self.prior_.trusted

    def _directions(self) -> int:
        return 0 if self.prior_ is None else self.prior_.factors

    def _counted(self, tasks: int) -> None:
        """Learn the prior after 8, 10, ... tasks, so that the result does not depend on how they are batched."""
        if is_mark(tasks) and self._shares():
            self.prior_ = self._learned_prior() or self.prior_

    @one_thread
    def _learned_prior(self) -> Prior | None:
        """From the tasks with much doubt; from all that are kept in columns, where those are most tasks."""
        common = 2 * len(self.predictors_.doubtful(2)) >= len(self.predictors_)
        summaries = [Summary(packed) for packed in self.predictors_.doubtful(1 if common else 2)]
        found = learn_prior(summaries, constant=bool(self.fit_intercept), regression=self._regression)
        if found is None or not (np.isfinite(found.mean).all() and np.isfinite(found.precision).all()):
            return None
        return replace(found, trusted=common and foresees(self.predictors_.foreseen(), found.trusted))

    def _forgotten(self, position: int) -> None:
        if self.prior_ is not None:
            self.prior_ = self._learned_prior()

    def _begin_anew(self) -> None:
        super()._begin_anew()
        self.prior_ = None

    def _move_origin(self, rules: Rules) -> None:
        """Put the origin where the tasks that are left are; what they predict stays the same."""
        known, predictors = self.representation_, self.predictors_
        if isinstance(known, FunctionRepresentation):
            self.representation_ = known.moved(rough(known.origin, known.spread()))
            return
        kept = [(index, predictors.at(index)) for index in range(len(predictors))]
        in_columns = {index for index, own in kept if self._of_columns(own.version, own.doubt) and len(own.summary)}
        near = rough(known.origin, spread_of([kept[index][1].summary for index in in_columns], len(known.origin)))
        origin = new_origin(predictors, known.origin, near, [event.labels_used for event in self.history_])

        def offset(index: int, shift: Array) -> Array:
            own = kept[index][1]
            if index in in_columns:
                return shift
            on = predictors.basis(own.version) if own.version >= 0 else predictors.original(index, known)[:, None]
            taken: Array = shift.dot(on)
            return taken

        def reads(index: int) -> Array:
            own = kept[index][1]
            return predictors.original(index, known) if self._on_prior(own) else self._direction(index, rules)[0]

        self.predictors_ = moved(predictors, known, origin, near, offset, reads)
        if self.prior_ is not None:
            self.prior_ = self.prior_.shifted(origin - known.origin)
        self.representation_ = known.moved(origin)
        self._cache = Cache()

    def _summarised(self, kept: Kept, outcome: Outcome, rows: Rows, alone: bool) -> Kept:
        early = self._shares() and len(self.history_) < EARLY
        asked = outcome.doubt >= 2 or self._trusted() or early or outcome.action == "grew"
        asked = asked and (alone or not self._shares()) and self._keeps_columns()
        doubt = (3 if outcome.stands_on == "prior" else outcome.doubt) if asked else 0
        fit, known = outcome.fit, outcome.representation
        if doubt:
            summary = self._doubtful(rows, self.prior_)
        else:
            weights = fit.coef if self._of_columns(kept.version, 0) or kept.version >= 0 else np.ones(1)
            weights = np.append(weights, fit.intercept) if self.fit_intercept else weights
            direction = kept.coefficients[0] * known.feature(kept.feature) if kept.version == -1 else kept.coefficients
            Z = self._coordinates(kept.version, direction, rows.X, known)
            summary = self._in_short(replace(rows, X=Z), weights if self._log_odds() else None)
        foreseen = math.nan
        if doubt and self.prior_ is not None:
            foreseen = self.prior_.foreseen(rows, bool(self.fit_intercept))
            if self.prior_.kind == "factors" and not math.isnan(outcome.gained):
                foreseen = outcome.gained  # it knows directions, of which its mean may say nothing
        return kept._replace(summary=summary.packed, doubt=doubt, foreseen=foreseen)

    def _of_columns(self, version: int, doubt: int) -> bool:
        """Whether all of a predictor's weights on the columns change as more rows come."""
        linear = isinstance(self.representation_, LinearRepresentation)
        return bool(doubt) or (version < 0 and linear and self.n_features_in_ <= MOST_COLUMNS)

    def _coordinates(self, version: int, direction: Array, X: Array, known: Representation) -> Array:
        """What a predictor's weights weigh, of centred rows: its features, all columns, or else its own scores."""
        if self._of_columns(version, 0):
            return X
        lifted = known.lift(X)
        if version < 0:
            return known.scores(lifted, direction)[:, None]
        basis = self.predictors_.basis(version)
        Z: Array = lifted[:, : len(basis)].dot(basis)
        return Z

    def _in_short(self, rows: Rows, weights: Array | None) -> Summary:
        """The summary of rows in a predictor's coordinates, at its log-odds; None: where a weak prior has them."""
        if self._regression or weights is None:
            return self._doubtful(rows, None)
        return Summary.of_signs(rows, bool(self.fit_intercept), weights)

    def _doubtful(self, rows: Rows, prior: Prior | None) -> Summary:
        """The summary of rows whose weights a prior draws; a weak one, where there is none."""
        constant = bool(self.fit_intercept)
        if self._regression:
            return Summary.of_numbers(rows, constant)
        known = weak_prior(rows, constant) if prior is None else doubted(prior, rows, constant)
        return Summary.of_doubtful_signs(rows, constant, known)

    def _log_odds(self) -> bool:
        """Whether the learner's scores are log-odds."""
        return False

    # Learning --------------------------------------------------------------------------------------------------------

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

        def anew(model: Self) -> None:
            model._reset()
            model._learn_table(X, y, tasks, sample_weight)

        self._commit(anew)
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

        Rows without a ``task`` are a task of their own, which takes the place of the last one without a name: rows that
        come in parts need a name. ``classes`` is there for scikit-learn's callers and not needed: every task has its
        own.
        """
        if tasks is not None:
            self._commit(lambda model: model._learn_table(X, y, tasks, sample_weight))
        else:
            self._commit(lambda model: model._learn(X, y, task, sample_weight))
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
            The task's name. Rows of a name that is known are more rows of that task; the task without a name gives
            way to the next.
        sample_weight : array of shape (n,), optional
            How often each row counts.
        """
        return self._commit(lambda model: model._learn(X, y, task, sample_weight))

    def _learn(self, X: Any, y: Any, task: Hashable, sample_weight: Any, foreseen: Fit | None = None) -> TaskEvent:
        task = as_name(task)
        if task is not None and is_missing(task):
            raise ValueError(f"a task needs a name that is equal to itself, which {task!r} is not")
        if y is None and isinstance(X, LabelSource):
            if sample_weight is not None:
                raise ValueError("sample_weight goes with rows, not with labels on demand")
            self._make_room(task)
            return self._learn_source(X, task)
        rows = self._prepare_to_learn(X)
        labels, weight = self._prepare_labels(y, len(rows)), checked_weight(sample_weight, len(rows))
        return self._learn_or_update(rows, labels, weight, task, foreseen)

    def _learn_or_update(
        self, X: Array, y: Any, weight: Array | None, task: Hashable, foreseen: Fit | None = None
    ) -> TaskEvent:
        if task is not None and "history_" in self.__dict__ and task in self._places:
            self.__dict__.get("_texts", {}).pop(task, None)  # `everspan learn` notes again which texts the task has
            return self._update_rows(X, y, weight, task)
        self._make_room(task)
        return self._learn_rows(X, y, weight, task, foreseen)

    def _demand(self, source: LabelSource, rules: Rules) -> Demand:
        """The source, its rows and labels checked as they are drawn."""

        def prepare(X: Any, y: Any) -> tuple[Array, Any]:
            rows = self._prepare_to_learn(X)
            return rows, self._prepare_labels(y, len(rows))

        return Demand(source, prepare, rules.max_labels)

    def _learn_table(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> None:
        if tasks is None:
            self._learn(X, y, None, sample_weight)
            return
        rows = self._prepare_to_learn(X)
        labels, weight = self._prepare_labels(y, len(rows)), checked_weight(sample_weight, len(rows))
        for task, chosen in rows_of_tasks(tasks, len(rows)).items():
            self._learn_or_update(rows[chosen], labels[chosen], None if weight is None else weight[chosen], task)

    @abstractmethod
    def _prepare_labels(self, y: Any, n: int) -> Any: ...

    @abstractmethod
    def _learn_rows(
        self, X: Array, y: Any, weight: Array | None, task: Hashable, foreseen: Fit | None = None
    ) -> TaskEvent: ...

    @abstractmethod
    def _update_rows(self, X: Array, y: Any, weight: Array | None, task: Hashable) -> TaskEvent: ...

    @abstractmethod
    def _learn_source(self, source: LabelSource, task: Hashable) -> TaskEvent: ...

    def _make_room(self, task: Hashable) -> None:
        """The task without a name gives way to the next; labels on demand are for tasks that are new."""
        if "history_" in self.__dict__ and task in self._places:
            if task is not None:
                raise ValueError(f"task {task!r} is already learned: give rows and labels to update it, or forget it")
            self._forget(None)

    def linear_predictor(self, *, task: Hashable = None) -> tuple[Array, Array]:
        """A task's predictor on the columns of X, as it is now.

        Returns
        -------
        weights : array of shape (predictors, d)
            One predictor for two classes or a number, one a class for more.
        intercepts : array of shape (predictors,)
            The scores of rows are ``X @ weights.T + intercepts``.
        """
        return self._reader(task)._linear_predictor(task)

    def _linear_predictor(self, task: Hashable) -> tuple[Array, Array]:
        check_is_fitted(self, "history_")
        if not isinstance(self.representation_, LinearRepresentation):
            raise ValueError("a task's predictor is not linear in the columns: its features are not")
        rules, origin = self._rules(), self.representation_.origin
        reads = [self._direction(index, rules) for index in self.predictors_.of_task(self._position(task))]
        weights = np.array([direction for direction, _ in reads])
        intercepts = np.array([intercept for _, intercept in reads])
        return weights, intercepts - weights @ origin if self.fit_intercept else intercepts

    def _at_once(self, X: Array, tasks: Any) -> tuple[list[Hashable], NDArray[np.intp], NDArray[np.intp], Any, Array]:
        """The scores of rows whose tasks stand on the features there are now, whatever the number of tasks.

        Returns the names, the place of every row's among them, the tasks' positions, and of these rows: which they are,
        and their scores.
        """
        names, places = distinct_tasks(tasks, len(X))
        positions = self._places
        known = np.array([positions.get(name, -1) for name in names], dtype=np.intp)
        plain, coefficients, intercepts = self.predictors_.on_newest(known)
        chosen, basis = plain[places], self.predictors_.bases[-1]
        assert basis is not None
        among = np.cumsum(plain) - 1
        scores = np.empty(int(chosen.sum()))
        rows, own = np.flatnonzero(chosen), among[places[chosen]]
        for first in range(0, len(rows), _ROWS):
            part = slice(first, first + _ROWS)
            Z = self._lifted(X[rows[part]])[:, : len(basis)].dot(basis)
            scores[part] = np.einsum("ij,ij->i", Z, coefficients[own[part]]) + intercepts[own[part]]
        return names, places, known, rows, scores

    def _unknown(self, task: Hashable) -> bool:
        named = task is not None or len(self._places) != 1
        return self.unseen_tasks != "error" and named and as_name(task) not in self._places

    def _direction(self, index: int, rules: Rules) -> tuple[Array, float]:
        own = self.predictors_.at(index)
        if self._on_prior(own):
            return self._through_prior(index, own)
        moves = isinstance(self.representation_, LinearRepresentation)  # Assumption 1 says nothing of functions
        moves = moves and self.old_tasks == "reproject" and rules.refiner is not None
        spread = rules.spread if moves and not (own.version == UPDATED and self._knows_better(index)) else None
        proved = rules.accept == "bound"
        return self.predictors_.read(index, self.representation_, spread, rules.epsilon, proved)

    def _knows_better(self, index: int) -> bool:
        """Whether a task that grew has by now seen about as many labels as all that the features rest on beside it."""
        known: Any = self.representation_
        others = np.delete(known.labels, self.predictors_.at(index).feature)
        return float(others.sum()) < 4.0 * self.history_[self.predictors_.task_of(index)].labels_used

    def _cached(self) -> Cache:
        cache: Cache = self.__dict__.setdefault("_cache", Cache())
        return cache

    def _replace(self, index: int, kept: Kept) -> None:
        """Put another predictor in the place of one, and drop what was computed from that."""
        self.predictors_.update(index, kept)
        self._cache = Cache()

    def _on_prior(self, own: Kept) -> bool:
        """Whether a predictor is read through the prior, which may have changed since it was learned."""
        return self.old_tasks != "freeze" and self._leans(own)

    def _leans(self, own: Kept) -> bool:
        """Whether the prior has a word in a predictor: it was learned so, or has doubts, and the prior is trusted."""
        if self.prior_ is None or self.prior is None:
            return False
        return own.doubt == 3 or (own.doubt > 0 and self.prior_.trusted)

    def _through_prior(self, index: int, own: Kept) -> tuple[Array, float]:
        """A predictor as its rows and all tasks together say it is now."""
        assert self.prior_ is not None
        cache = self._cached()
        prior, posteriors = cache.posteriors
        if prior is not self.prior_:
            posteriors = {}
            cache.posteriors = self.prior_, posteriors
        weights = posteriors.get(index)
        if weights is None:
            weights = posteriors[index] = self.prior_.posterior(Summary(own.summary))
        return (weights[:-1], float(weights[-1])) if self.fit_intercept else (weights, 0.0)

    def _average_direction(self, rules: Rules) -> tuple[Array, float]:
        """The prior's mean, or that of all predictors; of their directions, where only the sign of a score counts."""
        if self.unseen_tasks == "prior" and self.prior_ is not None:
            mean = self.prior_.mean
            return (mean[:-1], float(mean[-1])) if self.fit_intercept else (mean, 0.0)
        cache = self._cached()
        known = cache.average
        stamp = (len(self.predictors_), len(self.predictors_.bases), rules)
        if known is None or known[0] != stamp:
            padded = self.representation_.padded
            reads = [(padded(a), b) for a, b in (self._direction(i, rules) for i in range(len(self.predictors_)))]
            reads = [read for read in reads if self._regression or read[0].any()] or reads
            lengths = [self.representation_.length(direction) or 1.0 for direction, _ in reads]
            scales = [1.0 if self._regression else 1.0 / length for length in lengths]
            direction = np.mean([scale * a for scale, (a, _) in zip(scales, reads, strict=True)], axis=0)
            intercept = float(np.mean([scale * b for scale, (_, b) in zip(scales, reads, strict=True)]))
            known = cache.average = (stamp, direction, intercept)
        return known[1], known[2]
