"""The words of the stream: a task's labels, what happened to it, and the history of all tasks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from struct import Struct
from typing import Any, Literal, Protocol, TypeVar, overload, runtime_checkable

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
V = TypeVar("V")


class Overlay(Mapping[int, V]):
    """An immutable map from positions to values, in parts that a changed copy shares with the original.

    Examples
    --------
    >>> from everspan.tasks import Overlay
    >>> one = Overlay().having({3: "a"})
    >>> two = one.having({3: "b", 900: "c"})
    >>> one.get(3), two.get(3), two.get(4), len(two)
    ('a', 'b', None, 2)
    """

    def __init__(self, parts: dict[int, dict[int, V]] | None = None) -> None:
        self._parts = parts or {}

    def having(self, values: Mapping[int, V]) -> Overlay[V]:
        """A copy with these values; it costs the square root of the size, not the size."""
        parts, fresh = dict(self._parts), set[int]()
        for position, value in values.items():
            part = position >> 8
            if part not in fresh:
                parts[part] = dict(parts.get(part, {}))
                fresh.add(part)
            parts[part][position] = value
        return Overlay(parts)

    def __getitem__(self, position: int) -> V:
        return self._parts[position >> 8][position]

    def get(self, position: int, default: Any = None) -> Any:
        part = self._parts.get(position >> 8)
        return default if part is None else part.get(position, default)

    def __iter__(self) -> Iterator[int]:
        return (position for part in self._parts.values() for position in part)

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))


class Places(Mapping[Hashable, int]):
    """The position of every task of a history, by name."""

    def __init__(self, history: History) -> None:
        self._history = history

    def __getitem__(self, task: Hashable) -> int:
        place = self._history._index[task]
        if place >= len(self._history):  # a later history shares the index
            raise KeyError(task)
        return place

    def get(self, task: Hashable, default: Any = None) -> Any:
        place = self._history._index.get(task)
        return default if place is None or place >= len(self._history) else place

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._history._tasks[: len(self._history)])

    def __len__(self) -> int:
        return len(self._history)


# flags (bit 0: grew, bit 1: met, bit 2: updated); error, error_bound, confidence, seconds, drift;
# labels_used, labels_wanted, dimension, features_learned
_EVENT = Struct("<Bdddddqqqq")
_EVENTS = np.dtype([("flags", "u1"), ("reals", "<f8", 5), ("counts", "<i8", 4)])


class History(Sequence[TaskEvent]):
    """The events of all tasks in order, packed: some eighty bytes a task.

    A model's history never changes under a reader: learning appends to a `fork`, which shares the packed events.

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
        self._rows = bytearray()  # an _EVENT a task
        self._index: dict[Hashable, int] = {}  # the position of each name; written last
        self._replaced: Overlay[TaskEvent] = Overlay()
        self._refinements: Overlay[Any] = Overlay()
        self._length = self._labels = 0
        for event in events:
            self.append(event)

    def fork(self) -> History:
        """A history that begins as this one; this one stays as it is while that one grows."""
        fork = History.__new__(History)
        fork.__dict__.update(self.__dict__)
        return fork

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has: nothing of it is shared."""
        tasks = self._tasks[: len(self)]
        own = {"_tasks": tasks, "_index": {task: place for place, task in enumerate(tasks)}}
        return self.__dict__ | own | {"_rows": self._rows[: len(self) * _EVENT.size]}

    def _claim(self) -> None:
        """Copy the shared events if something follows this history's last event: it belongs to another fork."""
        n = self._length
        if len(self._tasks) != n or len(self._rows) != n * _EVENT.size:
            self._tasks, self._rows = self._tasks[:n], self._rows[: n * _EVENT.size]
            self._index = {task: place for place, task in enumerate(self._tasks)}

    def append(self, event: TaskEvent) -> None:
        self._claim()
        self._rows += _packed(event)
        self._tasks.append(event.task)
        self._index[event.task] = self._length
        if event.refinement is not None:
            self._refinements = self._refinements.having({self._length: event.refinement})
        self._labels += int(event.labels_used)
        self._length += 1

    def extend_reused(
        self,
        tasks: Sequence[Hashable],
        errors: Array,
        labels_used: NDArray[np.intp],
        features: tuple[int, int],
        seconds: float,
    ) -> list[TaskEvent]:
        """Tasks in a row that reused the features (their dimension, and how many were learned) and met the error."""
        self._claim()
        rows, nothing = np.zeros(len(tasks), dtype=_EVENTS), float("nan")
        rows["flags"], rows["reals"] = 2, (0.0, nothing, nothing, seconds, nothing)
        rows["reals"][:, 0], rows["counts"][:, 0], rows["counts"][:, 1:] = errors, labels_used, (-1, *features)
        self._rows += rows.tobytes()
        self._tasks.extend(tasks)
        self._index.update(zip(tasks, range(self._length, self._length + len(tasks)), strict=True))
        self._labels += int(labels_used.sum())
        self._length += len(tasks)
        return [
            TaskEvent(task, "reused", True, error, None, None, used, None, *features, None, seconds)
            for task, error, used in zip(tasks, errors.tolist(), labels_used.tolist(), strict=True)
        ]

    def replace(self, index: int, event: TaskEvent) -> None:
        """Put another event of the same task in the place of one."""
        self._labels += event.labels_used - self[index].labels_used
        self._replaced = self._replaced.having({index: event})

    def reused_in_a_row(self, most: int) -> int:
        """How many of the last tasks reused the features, counted up to this many."""
        last = range(len(self) - 1, max(len(self) - most, 0) - 1, -1)
        return next((place for place, i in enumerate(last) if self[i].action == "grew"), len(last))

    def table(self) -> dict[str, list[Any]]:
        """The events as columns, for ``pandas.DataFrame(...)`` or any other table."""
        events = list(self)
        return {name: [getattr(event, name) for event in events] for name in _COLUMNS}

    def without(self, index: int) -> History:
        """The history with one event left out."""
        return History([event for position, event in enumerate(self) if position != index])

    @property
    def places(self) -> Mapping[Hashable, int]:
        """The position of every task, by name."""
        return Places(self)

    @property
    def labels(self) -> int:
        """The labels that all tasks used."""
        return self._labels

    @property
    def nbytes(self) -> int:
        """Bytes of the packed events, task names and refinements aside."""
        return (_EVENT.size + 8) * len(self)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> TaskEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[TaskEvent]: ...
    def __getitem__(self, index: int | slice) -> TaskEvent | list[TaskEvent]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        replaced: TaskEvent | None = self._replaced.get(i)
        if replaced is not None:
            return replaced
        flags, error, bound, confidence, seconds, drift, used, wanted, dimension, learned = _EVENT.unpack_from(
            self._rows, i * _EVENT.size
        )
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
            drift=None if drift != drift else drift,
            refinement=self._refinements.get(i),
            seconds=seconds,
        )

    def __iter__(self) -> Iterator[TaskEvent]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        grew = sum(event.action == "grew" for event in self)
        return f"<History of {_count(len(self), 'task')}: {len(self) - grew} reused, {grew} grew>"


def _packed(event: TaskEvent) -> bytes:
    nothing = float("nan")
    return _EVENT.pack(
        (event.action == "grew") + 2 * event.met + 4 * (event.action == "updated"),
        event.error,
        nothing if event.error_bound is None else event.error_bound,
        nothing if event.confidence is None else event.confidence,
        event.seconds,
        nothing if event.drift is None else event.drift,
        event.labels_used,
        -1 if event.labels_wanted is None else event.labels_wanted,
        event.dimension,
        event.features_learned,
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
