"""A table goes in, one file comes out; again with new rows, and only these are learned."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators import DriftWarning, LifelongClassifier, LifelongRegressor
from ..estimators._saving import Journal
from ..store import StaleError, StoreError, reason
from ..tables import MEMORY, Grouped, Preparation, Scan, TableError, TableFile, guess_columns
from ..tasks import TaskEvent
from ._opening import open_model
from ._seen import digests, new_rows, with_rows
from ._texts import texts_with

_TOGETHER = 512  # tasks that wait to be learned at most
_OVERHEAD = 512  # bytes of a task beside its rows and labels
_COMMIT_AFTER = 1.0  # seconds of learning after which what was learned is committed
Task = tuple[str, Any, Any]  # name, rows as numbers, labels
Progress = Callable[[str, int, int], None]


@dataclass
class Learned:
    """What `learn` did.

    Attributes
    ----------
    events : list of TaskEvent
        Of the tasks that were learned or updated now.
    known, known_rows : int
        Tasks of the table that brought nothing new, and rows that were learned before.
    failed : dict
        Of tasks that could not be learned: why.
    notes : list of str
        What was guessed, and what was left out.
    """

    path: Path
    events: list[TaskEvent] = field(default_factory=list)
    known: int = 0
    known_rows: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rows: int = 0
    seconds: float = 0.0


def learn(
    path: str | Path,
    table: str | Path,
    *,
    task_column: str | None = None,
    target_column: str | None = None,
    kind: str | None = None,
    drop: Sequence[str] = (),
    all_rows: bool = False,
    parameters: Mapping[str, Any] | None = None,
    memory: int = MEMORY,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Learned:
    """Learn every new task, and new rows of known ones, of a table into a file.

    Parameters
    ----------
    path : path
        The file, NAME.everspan; made if there is none. Tasks are committed to it about once a second while they are
        learned, and whatever happens it is whole.
    table : path
        CSV, gzipped CSV, Parquet or Arrow, one labelled row an example. It may be larger than memory, and the rows of a
        task may be anywhere in it.
    task_column, target_column : str, optional
        Guessed for a new file; of a known one they must be what they were.
    kind : {"classification", "regression"}, optional
        None: found from the target.
    drop : sequence of str
        Columns of a new file to leave out.
    all_rows : bool
        Learn also rows that are the same as some learned before.
    parameters : dict, optional
        Of the estimator that a new file is made with; goal="excess" if nothing else is said.
    memory : int
        Bytes that the rows held at one time may take, unless one task has more.
    folder : path, optional
        Where rows are sorted by task, if they do not fit.
    progress : function, optional
        Called with what is done, how much of it, and of how many tasks (0: not known).
    """
    started, path = time.perf_counter(), Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise StoreError(f"{path}: is a folder, or would be in one that is not there")
    while True:
        report, source = Learned(path), TableFile.open(table, memory)
        model = open_model(path) if path.exists() else None
        scan = _scanned(source, model, report, task_column, target_column, kind, drop, progress)
        if model is None:
            model = _new_model(scan.preparation, dict(parameters or {}))
        elif changed := [name for name, value in (parameters or {}).items() if getattr(model, name, None) != value]:
            raise StoreError(
                f"{path}: has its parameters from when it was made: {', '.join(sorted(changed))} cannot change"
            )
        try:
            tasks = Grouped(source, scan, memory=memory, folder=folder)
            Work(
                path,
                model,
                scan.preparation,
                report,
                all_rows=all_rows,
                tasks=len(scan.counts),
                memory=memory,
                progress=progress,
            ).do(tasks)
        except _OtherTable:
            continue
        report.rows, report.seconds = sum(scan.counts), time.perf_counter() - started
        return report


def _scanned(
    source: TableFile,
    model: Any,
    report: Learned,
    task: str | None,
    target: str | None,
    kind: str | None,
    drop: Sequence[str],
    progress: Progress | None,
) -> Scan:
    def said(rows: int) -> None:
        if progress is not None:
            progress("reading", rows, 0)

    if model is None:
        task, target, guessed = guess_columns(source.kinds, task, target)
        report.notes += guessed
        scan = Scan.new(source, task, target, drop=drop, kind=kind, progress=said)
    else:
        known = preparation_of(model, report.path)
        for given, before, name in ((task, known.task_column, "task"), (target, known.target_column, "target")):
            if given is not None and given != before:
                raise TableError(f"{report.path}: its {name} column is {before!r}, not {given!r}")
        if kind is not None and (kind == "regression") != isinstance(model, LifelongRegressor):
            raise TableError(f"{report.path}: is not for {kind}")
        if used := [column.name for column in known.columns if column.name in drop]:
            raise TableError(f"{report.path}: its columns were chosen when it was made: it needs {used[0]!r}")
        scan = Scan.again(source, known, said)
    report.notes += scan.notes
    for count, lack in ((scan.unlabelled, "label"), (scan.nameless, "task")):
        if count:
            report.notes.append(f"{count:,} of {scan.rows:,} rows have no {lack}: left out")
    return scan


def tasks_of(table: str | Path, known: Preparation) -> Iterator[tuple[str, Any, Any]]:
    """Name, rows as numbers, and labels of every task of a table, as a file that has this preparation learns them."""
    source = TableFile.open(table)
    return iter(Grouped(source, Scan.again(source, known)))


def preparation_of(model: Any, path: str | Path = "the model") -> Preparation:
    """How the columns of the table that a model was made from become numbers; ``path`` is for messages."""
    facts = getattr(model, "table_", None)
    if facts is None:
        raise StoreError(f"{path}: was not made from a table, so it does not say how columns become numbers")
    try:
        known = Preparation.from_facts(facts)
        if len(known.names) != model.n_features_in_:
            raise ValueError("as many columns as weights")
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        raise StoreError(f"{path}: is damaged: {type(error).__name__} {reason(error)}") from error
    return known


def _new_model(known: Preparation, parameters: dict[str, Any]) -> Any:
    kind: Any = LifelongRegressor if known.target == "number" else LifelongClassifier
    if known.target == "number" and parameters.get("class_weight") is not None:
        raise ValueError(
            "class_weight goes with classes, and the target is a number: --kind classification if it is not"
        )
    model = kind(**({"goal": "excess"} | parameters))
    model._rules()  # says now what is wrong with them
    model.table_ = known.facts()
    return model


class _OtherTable(StoreError):
    """A file whose columns become numbers in another way than was thought: another process has just made it."""


@dataclass
class Work:
    """The tasks of a table on their way into a model and, if it has one, into its file."""

    path: Path
    model: Any
    known: Preparation
    report: Learned
    all_rows: bool = False
    tasks: int = 0
    memory: int = MEMORY
    progress: Progress | None = None
    to_file: bool = True
    done: int = 0
    journal: Journal | None = None
    committed: dict[Any, int] = field(default_factory=dict)  # bytes of digests of the tasks that were learned here

    def do(self, tasks: Iterable[Task]) -> None:
        try:
            for waiting in self._waiting(tasks):
                self._learn_all(waiting)
        finally:
            self._close()

    def _waiting(self, tasks: Iterable[Task]) -> Iterator[list[Task]]:
        """The next tasks, no more bytes than there is room for."""
        waiting, held = list[Task](), 0
        for name, X, y in tasks:
            waiting.append((name, X, y))
            held += X.nbytes + y.nbytes + _OVERHEAD
            if len(waiting) >= _TOGETHER or held >= self.memory // 8:  # new rows are copied once, so a quarter
                yield waiting
                waiting, held = [], 0
        if waiting:
            yield waiting

    def _learn_all(self, waiting: list[Task]) -> None:
        while waiting:
            try:
                rest = self._learn_some(waiting)
            except StaleError:  # another process was faster: take up what it did, and try again
                self._close()
                self._take_up()
                continue
            self.done += len(waiting) - len(rest)
            waiting = rest
            if self.progress is not None:
                self.progress("learning", self.done, self.tasks)

    def _take_up(self) -> None:
        """Load the file as another process left it; all of the table is learned anew if that is another file."""
        before = self.model.table_
        self.model = open_model(self.path)
        seen: dict[Any, bytes] = getattr(self.model, "_seen", {})
        lost = any(len(seen.get(task, b"")) < size for task, size in self.committed.items())
        if lost or getattr(self.model, "table_", None) != before:
            raise _OtherTable(f"{self.path}: another file, or an older copy, was put in its place")

    def _close(self) -> None:
        if self.journal is not None:
            self.journal.close()
        self.journal = None

    def _learn_some(self, waiting: list[Task]) -> list[Task]:
        """Learn what is new of some tasks for about a second, and commit it; return the tasks that are left."""
        seen: dict[Any, bytes] = getattr(self.model, "_seen", {})
        given, after, known = list[Task](), dict[str, tuple[bytes, bytes | None]](), dict[str, int]()
        for name, X, y in waiting:
            found = digests(X, y)
            fresh = new_rows(None if self.all_rows else seen.get(name), found)
            known[name] = int((~fresh).sum())
            fresh &= self._of_known_classes(name, y)
            if fresh.any():
                given.append((name, X[fresh], y[fresh]))
                after[name] = with_rows(seen.get(name), found[fresh]), self._texts_with(name, X[fresh])
        if given and self.to_file and self.journal is None and "_saved" in self.model.__dict__:
            self.journal = Journal(self.path, self.model)  # before anything is learned: it writes what changes
            self.journal.open()
        events, failed, left = self._events(given)
        if events:
            self._note(events, after)
        first = next((place for place, task in enumerate(waiting) if left and task[0] == left[0][0]), len(waiting))
        done, rest = waiting[:first], waiting[first:]
        self.report.events += events
        self.report.failed |= failed
        self.report.known += sum(known[name] == len(X) for name, X, _ in done)
        self.report.known_rows += sum(known[name] for name, _, _ in done)
        return rest

    def _note(self, events: list[TaskEvent], after: dict[str, tuple[bytes, bytes | None]]) -> None:
        """Note which rows and texts tasks have, and commit."""
        learned = {event.task: after[str(event.task)] for event in events}
        for column, place in (("_seen", 0), ("_texts", 1)):
            noted = {task: values[place] for task, values in learned.items() if values[place] is not None}
            self.model.__dict__.setdefault(column, {}).update(noted)
        if not self.to_file:
            return
        if self.journal is None:
            self.journal = Journal(self.path, self.model)  # a new file has all in it at once
        else:
            self.journal.learned(learned)
        self.committed |= {task: len(seen) for task, (seen, _) in learned.items()}

    def _texts_with(self, name: str, X: Any) -> bytes | None:
        """Which texts of text columns the rows of a task have, these rows among them; None without such columns."""
        return texts_with(getattr(self.model, "_texts", {}).get(name), X, self.known)

    def _of_known_classes(self, name: str, y: Any) -> Any:
        """Which rows a known task can take: it has its classes from when it was learned, once there are two."""
        if isinstance(self.model, LifelongRegressor) or self._event(name) is None:
            return np.ones(len(y), dtype=bool)
        classes = self.model.classes_of(name)
        known = np.isin(y, classes) if len(classes) > 1 else np.ones(len(y), dtype=bool)
        if not known.all():
            self.report.failed[name] = (
                f"{int((~known).sum())} rows are of other classes than {', '.join(map(str, classes))}: forget it to "
                "learn it from all its rows"
            )
        return known

    def _events(self, given: list[Task]) -> tuple[list[TaskEvent], dict[str, str], list[Task]]:
        """Learn tasks until it is time to commit; one that cannot be learned does not keep the others from it."""
        events: list[TaskEvent] = []
        failed: dict[str, str] = {}
        due = time.perf_counter() + _COMMIT_AFTER
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DriftWarning)  # events say it
            while given and (not events or time.perf_counter() < due):
                before = [self._event(name) for name, _, _ in given]
                try:
                    learned = self.model.learn_tasks(given, until=lambda: time.perf_counter() >= due)
                    events, given = events + learned, given[len(learned) :]
                except (ValueError, np.linalg.LinAlgError) as error:  # those before it are learned
                    after = [self._event(name) for name, _, _ in given]
                    place = next(i for i, event in enumerate(after) if event is None or event == before[i])
                    events += [event for event in after[:place] if event is not None]
                    failed[given[place][0]] = str(error).splitlines()[0]
                    given = given[place + 1 :]
        return events, failed, given

    def _event(self, name: str) -> TaskEvent | None:
        place = getattr(self.model, "_places", {}).get(name)
        return None if place is None else self.model.history_[place]
