"""Many tasks at once: those of one size are fitted on the features together, and then learned one after another."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import AutoCheck, is_plenty
from ..learners import Fit, Fits
from ..lifelong import FEW, Rules
from ..names import as_name
from ..prior import next_mark
from ..representation import LinearRepresentation
from ..tasks import Array, Rows, TaskEvent
from ..threads import one_thread
from ._means import distinct_means
from ._stream import EARLY
from ._tables import MOST, is_missing
from ._updates import UpdatedStream

_TOGETHER = 512  # tasks that are fitted together at most


@dataclass
class Foreseen:
    """A learner whose first fit is known already."""

    learner: Any
    fits: list[Fit]

    def fit(self, rows: Rows) -> Fit:
        found: Fit = self.fits.pop() if self.fits else self.learner.fit(rows)
        return found


class Source:
    """A stream of tasks; what goes wrong in it is said after the tasks that came before are learned."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self._stream, self._came = iter(stream), 0
        self._error: Exception | None = None

    def take(self, count: int) -> list[tuple[Hashable, Any, Any]]:
        """The next tasks, up to so many: (name, rows, labels)."""
        taken: list[tuple[Hashable, Any, Any]] = []
        while len(taken) < count and self._error is None:
            try:
                item = next(self._stream)
            except StopIteration:
                break
            except Exception as error:
                self._error = error
                break
            if not isinstance(item, tuple | list) or len(item) != 3:
                self._error = ValueError(f"a stream has (task, X, y) for every task, but place {self._came} has not")
                break
            taken.append((item[0], item[1], item[2]))
            self._came += 1
        return taken

    def complain(self) -> None:
        if self._error is not None:
            raise self._error


class Block:
    """What is known of some tasks before they are learned: their fits on the features, and which these serve."""

    def __init__(self, tasks: int, dimension: int, summary: int) -> None:
        self.fits: dict[int, tuple[Fits, int]] = {}
        self.served: NDArray[np.bool_] = np.zeros(tasks, dtype=bool)
        self.coefficients, self.intercepts = np.zeros((tasks, dimension)), np.zeros(tasks)
        self.errors = np.zeros((tasks, 2))
        self.summaries = np.zeros((tasks, summary))
        self.means: dict[int, Array] = {}
        self.labels_used = np.zeros(tasks, dtype=np.intp)
        self.classes: list[Any] = [None] * tasks
        self.seconds = 0.0

    def fit(self, place: int) -> Fit | None:
        """What the learner found for a task, if it was fitted with others."""
        fits, i = self.fits.get(place, (None, 0))
        return None if fits is None else fits[i]

    def run(self, start: int, most: int) -> int:
        """How many tasks from this one on are served."""
        rest = self.served[start : start + most]
        return int(rest.argmin()) if not rest.all() else len(rest)


class StreamTogether(UpdatedStream):
    """A stream whose tasks can be learned many at a time."""

    def learn_tasks(
        self, stream: Iterable[tuple[Hashable, Any, Any]], *, until: Callable[[], bool] | None = None
    ) -> list[TaskEvent]:
        """Learn many tasks one after another, and tell what happened to each; faster than `learn_task` in a loop.

        Tasks with as many rows are fitted on the features at hand together; where one grows the features, those behind
        it are fitted again. What is learned is the same, to the bit. If a task cannot be learned, those before it stay.

        Parameters
        ----------
        stream : iterable of (task, X, y)
            Name, rows and labels of every task, as for `learn_task`.
        until : function, optional
            Asked after every task, or every few. When it returns True, learning stops. There are then fewer events than
            tasks; tasks that were taken from an iterator ahead of time are not put back.

        Examples
        --------
        >>> from everspan import LifelongClassifier
        >>> from everspan.scenarios import LinearStream
        >>> model = LifelongClassifier()
        >>> events = model.learn_tasks(LinearStream(d=20, k=2, tasks=50, rows=400, seed=1))
        >>> sum(event.action == "reused" for event in events)
        48
        """
        source, events = Source(stream), list[TaskEvent]()
        ahead = max(8, self.history_.reused_in_a_row(_TOGETHER)) if "history_" in self.__dict__ else 8
        waiting = source.take(ahead)
        while waiting:
            learned, stopped = self._learn_waiting(waiting, events, until)
            if stopped:
                return events
            ahead = min(2 * ahead, _TOGETHER) if learned == len(waiting) else 8
            waiting = waiting[learned:]
            waiting += source.take(ahead - len(waiting))
        source.complain()
        return events

    def _learn_waiting(
        self, waiting: list[tuple[Hashable, Any, Any]], events: list[TaskEvent], until: Callable[[], bool] | None
    ) -> tuple[int, bool]:
        """Learn tasks until what they are tried on changes; how many were learned, and whether to stop."""
        with self._lock:  # another thread must not change what the block was fitted on
            block, place = self._fitted(waiting), 0
            known = self.__dict__.get("representation_"), self.__dict__.get("prior_")
            while place < len(waiting):
                done = self._commit(partial(type(self)._learn_next, waiting=waiting, block=block, place=place))
                events += done
                place += len(done)
                if until is not None and until():
                    return place, True
                if self.representation_ is not known[0] or self.prior_ is not known[1]:
                    break
            return place, False

    def _learn_next(self, waiting: list[tuple[Hashable, Any, Any]], block: Block | None, place: int) -> list[TaskEvent]:
        """Learn the task at this place, and those behind it that the features serve as well."""
        if block is not None:
            run = block.run(place, next_mark(len(self.history_)) - len(self.history_))
            if run:
                return self._record_served([task for task, _, _ in waiting[place : place + run]], block, place)
        task, X, y = waiting[place]
        return [self._learn(X, y, task, None, block.fit(place) if block else None)]

    @one_thread
    def _fitted(self, tasks: list[tuple[Hashable, Any, Any]]) -> Block | None:
        """The fits on the features at hand of those tasks that can be fitted together; None where there are none."""
        started, known, rules = time.perf_counter(), self.__dict__.get("representation_"), self._rules()
        learner = rules.learner
        if not isinstance(known, LinearRepresentation) or not known.dimension or not hasattr(learner, "fit_many"):
            return None
        if type(rules.check) is not AutoCheck or rules.accept != "estimate" or len(tasks) < 2:
            return None
        size = known.dimension + bool(self.fit_intercept)
        block = Block(len(tasks), known.dimension, (size + 1) * (size + 2) // 2 + 1)
        for together in self._alike(tasks, known.dimension).values():
            features, finite = self._features_of(tasks, together, known, block.means)
            plain, target, classes = self._plain_targets(np.array([tasks[place][2] for place in together]))
            chosen = np.flatnonzero(plain & finite).tolist()
            places, Z = [together[i] for i in chosen], features
            if len(chosen) < len(together):
                Z, target = features[chosen], target[chosen]
            fits = learner.fit_many(Z, target) if places else None
            if fits is None:
                continue
            for i, place in enumerate(places):
                block.fits[place], block.classes[place] = (fits, i), classes[chosen[i]]
            errors, plausible, noise, vague = self._measured(Z, target, fits, rules)
            served = (errors <= rules.epsilon) & ~vague & (Z.shape[1] >= FEW or not self._keeps_columns())
            early = self._shares() and len(self.history_) < EARLY
            if self._trusted() or early:
                served &= plausible <= rules.epsilon  # the others are looked at more closely
            weights = np.column_stack([fits.coef, fits.intercept]) if self.fit_intercept else fits.coef
            block.served[places], block.coefficients[places], block.intercepts[places] = (
                served,
                fits.coef,
                fits.intercept,
            )
            block.errors[places] = np.column_stack([errors, np.maximum(plausible - noise, 0.0)])
            block.summaries[places] = self._all_in_short(Z, target, weights)
            block.labels_used[places] = Z.shape[1]
        block.seconds = (time.perf_counter() - started) / len(tasks)
        return block

    def _alike(self, tasks: list[tuple[Hashable, Any, Any]], columns: int) -> dict[Any, list[int]]:
        """New tasks that may need no preparation, those together that have as many rows and labels of one type."""
        names, alike, can, known = set[Hashable](), dict[Any, list[int]](), dict[Any, bool](), self._places
        for place, (task, X, y) in enumerate(tasks):
            if is_missing(task) or as_name(task) is not task or task in known or task in names:
                continue
            names.add(task)
            if not self._has_shape(X) or type(y) is not np.ndarray or y.shape != X.shape[:1]:
                continue
            key = (len(X), y.dtype)
            if key not in can:
                can[key] = self._can_be_plain(y.dtype) and not is_plenty(Rows(X, y), columns)
            if can[key]:
                alike.setdefault(key, []).append(place)
        return alike

    def _features_of(
        self, tasks: list[Any], places: list[int], known: LinearRepresentation, means: dict[int, Array]
    ) -> tuple[Array, NDArray[np.bool_]]:
        """The features of tasks of one size, and whose rows are finite; notes the means that are not nought."""
        n, d = tasks[places[0]][1].shape
        origins = np.tile(known.origin, n) if self.fit_intercept else 0.0  # one long line is faster than n short ones
        room, ones = np.empty(n * d), np.ones(n)
        features, sums = np.empty((len(places), n, known.dimension)), np.empty((len(places), d))
        lengths, squares = np.empty((2, len(places)))
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # of rows that are not finite or too large, and are not learned here
            for i, place in enumerate(places):
                line = tasks[place][1].ravel()
                lengths[i] = line.dot(line)  # and the rows are in the cache
                centred = np.subtract(line, origins, out=room)
                squares[i] = centred.dot(centred)
                matrix = centred.reshape(n, d)
                matrix.dot(known.basis, out=features[i])
                ones.dot(matrix, out=sums[i])
            found, distinct = distinct_means(sums, squares, float(n))
        means.update((places[i], found[i].copy()) for i in np.flatnonzero(distinct).tolist())
        return features, lengths <= MOST**2

    def _record_served(self, names: list[Hashable], block: Block, place: int) -> list[TaskEvent]:
        """Write tasks that the features serve into the history."""
        part, known, first = slice(place, place + len(names)), self.representation_, len(self.history_)
        self._note_classes(block.classes[part])
        self.predictors_.add_tasks(
            block.coefficients[part], block.intercepts[part], block.errors[part], block.summaries[part]
        )
        means = {first + index - place: mean for index, mean in block.means.items() if part.start <= index < part.stop}
        self.predictors_.note_means(means)
        events = self.history_.extend_reused(
            names,
            block.errors[part, 0],
            block.labels_used[part],
            (known.dimension, len(known.features)),
            block.seconds,
        )
        self._counted(len(self.history_))
        return events

    @abstractmethod
    def _measured(self, Z: Array, y: Array, fits: Fits, rules: Rules) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
        """Errors on rows left out, what they may be at most, how much of them is noise, and which tell nothing."""

    @abstractmethod
    def _all_in_short(self, Z: Array, y: Array, weights: Array) -> Array:
        """The packed summaries of tasks of one size, one a row."""

    def _note_classes(self, classes: list[Any]) -> None:
        """What else is kept of tasks in a row."""

    @abstractmethod
    def _can_be_plain(self, dtype: np.dtype[Any]) -> bool:
        """Whether labels of this type may be such as need no preparation."""

    @abstractmethod
    def _plain_targets(self, y: Any) -> tuple[NDArray[np.bool_], Array, list[Any]]:
        """Of labels of tasks of one size: which need no preparation, the target as the loop sees it, and classes."""
