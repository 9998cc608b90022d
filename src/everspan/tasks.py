"""The words of the stream: a task's labels, what happened to it, and the history of all tasks."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Action = Literal["reused", "grew", "updated"]


@runtime_checkable
class LabelSource(Protocol):
    """Labels on demand: anything that can be asked for n more labelled rows."""

    def draw(self, n: int) -> tuple[Any, Any]:
        """Return up to n fresh rows X and their labels y; fewer than n means that there are no more."""


class Labels(Protocol):
    """The labelled rows of one task, as the loop asks for them."""

    @property
    def on_demand(self) -> bool:
        """Whether more labels may be had than were taken so far."""

    def take(self, n: int | None = None) -> Rows:
        """The first n rows, or as many as there are; all those at hand when n is None."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Labelled rows: y is -1 or 1 for halfspaces, a number for regression. A weight counts repetitions of a row."""

    X: Array
    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    def count(self) -> float:
        """How many rows these count for."""
        return float(len(self.y)) if self.weight is None else float(np.add.reduce(self.weight))

    def part(self, chosen: Any) -> Rows:
        return Rows(self.X[chosen], self.y[chosen], None if self.weight is None else self.weight[chosen])


@dataclass(frozen=True, slots=True)
class Table:
    """Labels that are all there at once."""

    rows: Rows
    on_demand: bool = False

    def take(self, n: int | None = None) -> Rows:
        return self.rows


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """What happened to a task, and why.

    Attributes
    ----------
    task : hashable
        The task's name.
    action : {"reused", "grew", "updated"}
        Whether the features at hand served it, a new one was learned, or more rows came for a task known already.
    met : bool
        Whether the error asked for was reached with the labels there were: epsilon (reused) or epsilon_acc (grew).
    error : float
        The estimated error of the task's predictor as it was learned. (Where old tasks are re-projected it may move
        later, with accept="bound" no further than keeps it within epsilon.)
    error_bound : float or None
        An upper bound on that error, from rows that the fit has not seen; None where there were none.
    confidence : float or None
        The probability with which `error_bound` holds.
    labels_used : int
        Labels that this task took, with those that came later.
    labels_wanted : int or None
        Where `met` is False: about how many labels would do, if errors fall like one over their number.
    dimension : int
        Dimension of the representation afterwards.
    features_learned : int
        Features learned directly so far, by all tasks.
    refinement : Refinement or None
        The last refinement with its certificate, where this task caused one.
    seconds : float
        Time it took. Neither this nor `refinement` is part of equality.
    drift : float or None
        Of an update: the error that the task's predictor had on the new rows before it learned from them, where that is
        surely worse than it had been. The task may have changed.
    """

    task: Hashable
    action: Action
    met: bool
    error: float
    error_bound: float | None
    confidence: float | None
    labels_used: int
    labels_wanted: int | None
    dimension: int
    features_learned: int
    refinement: Any = field(default=None, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)
    drift: float | None = None

    def __str__(self) -> str:
        name = "the task" if self.task is None else str(self.task)
        did = f"reused {_count(self.dimension, 'feature')}"
        if self.action == "grew":
            did = f"learned feature {self.features_learned}, representation of {_count(self.dimension, 'dimension')}"
        elif self.action == "updated":
            did = "updated"
        bound = ""
        if self.error_bound is not None and self.confidence is not None:
            bound = f" (at most {self.error_bound:.3g} with {100 * self.confidence:.4g}% confidence)"
        text = f"{name}: {did}, error {self.error:.3g}{bound}, {_count(self.labels_used, 'label')}"
        if self.drift is not None:
            text += f"; it seems to have changed: error {self.drift:.3g} on the new rows before"
        if self.labels_wanted is not None:
            text += f"; about {self.labels_wanted:,} labels would reach the accuracy asked for"
        return text


_COLUMNS = tuple(f.name for f in fields(TaskEvent) if f.name != "refinement")


class History(Sequence[TaskEvent]):
    """The events of all tasks in order, kept as columns: some eighty bytes a task.

    Examples
    --------
    >>> from everspan.tasks import History, TaskEvent
    >>> history = History()
    >>> history.append(TaskEvent("acme", "grew", True, 0.02, None, None, 200, None, 1, 1))
    >>> print(history[0])
    acme: learned feature 1, representation of 1 dimension, error 0.02, 200 labels
    >>> history.table()["labels_used"]
    [200]
    """

    def __init__(self, events: Sequence[TaskEvent] = ()) -> None:
        self._tasks: list[Hashable] = []
        self._flags = array("B")  # bit 0: grew, bit 1: met, bit 2: updated
        self._reals = array("d")  # error, error_bound, confidence, seconds
        self._drifts: dict[int, float] = {}
        self._counts = array("q")  # labels_used, labels_wanted, dimension, features_learned
        self._refinements: dict[int, Any] = {}
        for event in events:
            self.append(event)

    def append(self, event: TaskEvent) -> None:
        self._tasks.append(event.task)
        self._flags.append(0)
        self._reals.extend((0.0,) * 4)
        self._counts.extend((0,) * 4)
        self.replace(len(self) - 1, event)

    def extend_reused(
        self,
        tasks: Sequence[Hashable],
        errors: Array,
        labels_used: NDArray[np.intp],
        features: tuple[int, int],
        seconds: float,
    ) -> list[TaskEvent]:
        """Tasks in a row that reused the features (their dimension, and how many were learned) and met the error."""
        reals, counts = np.full((len(tasks), 4), np.nan), np.empty((len(tasks), 4), dtype=np.int64)
        reals[:, 0], reals[:, 3], counts[:, 0], counts[:, 1:] = errors, seconds, labels_used, (-1, *features)
        self._tasks.extend(tasks)
        self._flags.frombytes(bytes([2]) * len(tasks))
        self._reals.frombytes(reals.tobytes())
        self._counts.frombytes(counts.tobytes())
        return [
            TaskEvent(task, "reused", True, error, None, None, used, None, *features, None, seconds)
            for task, error, used in zip(tasks, errors.tolist(), labels_used.tolist(), strict=True)
        ]

    def replace(self, index: int, event: TaskEvent) -> None:
        """Put another event of the same task in the place of one."""
        for kept, value in ((self._refinements, event.refinement), (self._drifts, event.drift)):
            kept.pop(index, None)
            if value is not None:
                kept[index] = value
        self._flags[index] = (event.action == "grew") + 2 * event.met + 4 * (event.action == "updated")
        nothing = float("nan")
        bound = nothing if event.error_bound is None else event.error_bound
        confidence = nothing if event.confidence is None else event.confidence
        self._reals[4 * index : 4 * index + 4] = array("d", (event.error, bound, confidence, event.seconds))
        wanted = -1 if event.labels_wanted is None else event.labels_wanted
        counts = (event.labels_used, wanted, event.dimension, event.features_learned)
        self._counts[4 * index : 4 * index + 4] = array("q", counts)

    def reused_in_a_row(self, most: int) -> int:
        """How many of the last tasks reused the features, counted up to so many."""
        last = self._flags[max(len(self) - most, 0) :].tobytes()[::-1]
        return next((place for place, flags in enumerate(last) if flags & 1), len(last))

    def table(self) -> dict[str, list[Any]]:
        """The events as columns, for ``pandas.DataFrame(...)`` or any other table."""
        events = list(self)
        return {name: [getattr(event, name) for event in events] for name in _COLUMNS}

    def truncate(self, length: int) -> None:
        """Drop all events from this one on."""
        del self._tasks[length:], self._flags[length:], self._reals[4 * length :], self._counts[4 * length :]
        for kept in (self._refinements, self._drifts):
            for index in [index for index in kept if index >= length]:
                del kept[index]

    def without(self, index: int) -> History:
        """The history with one event left out."""
        return History([event for position, event in enumerate(self) if position != index])

    @property
    def labels(self) -> int:
        """The labels that all tasks used."""
        return int(np.frombuffer(self._counts, dtype=np.int64)[::4].sum()) if len(self) else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, task names and refinements aside."""
        return sum(column.itemsize * len(column) for column in (self._flags, self._reals, self._counts)) + 8 * len(self)

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> TaskEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[TaskEvent]: ...
    def __getitem__(self, index: int | slice) -> TaskEvent | list[TaskEvent]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        flags = self._flags[i]
        error, bound, confidence, seconds = self._reals[4 * i : 4 * i + 4]
        used, wanted, dimension, learned = self._counts[4 * i : 4 * i + 4]
        return TaskEvent(
            task=self._tasks[i],
            action="updated" if flags & 4 else "grew" if flags & 1 else "reused",
            met=bool(flags & 2),
            error=error,
            error_bound=None if bound != bound else bound,
            confidence=None if confidence != confidence else confidence,
            labels_used=used,
            labels_wanted=None if wanted < 0 else wanted,
            dimension=dimension,
            features_learned=learned,
            drift=self._drifts.get(i),
            refinement=self._refinements.get(i),
            seconds=seconds,
        )

    def __iter__(self) -> Iterator[TaskEvent]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        grew = sum(flags & 1 for flags in self._flags)
        return f"<History of {_count(len(self), 'task')}: {len(self) - grew} reused, {grew} grew>"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
