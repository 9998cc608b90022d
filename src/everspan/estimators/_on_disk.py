"""The tasks of a large file, read when they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from copy import copy
from pathlib import Path
from threading import Lock
from typing import Any

from ..names import key_of
from ..store import TASK, Contents, StoreError, Version, known_keys, read, read_tasks, reading
from ._atomic import Cache
from ._restoring import restore_tasks
from ._tables import task_names

_PARTS, _HELD = 64, 4096  # parts of a file that stay in memory, and tasks that they may have in all


class OnDisk:
    """The tasks of a large file. The parts that were read last stay in memory. Any number of threads may read."""

    def __init__(self, path: Path, version: Version, tasks: int) -> None:
        self.path, self.version, self.tasks = path, copy(version), tasks
        self._parts: OrderedDict[tuple[str, ...], dict[str, Any]] = OrderedDict()
        self._lock = Lock()

    def load_all(self, model: Any) -> None:
        contents, version = read(self.path)
        self.version.require_same(self.path, version)
        self._give(model, contents)
        if len(model._places) != self.tasks:
            raise StoreError(f"{self.path}: is damaged: it has not as many tasks as it says")
        del model._bases

    def reader(self, model: Any, task: Hashable, tasks: Any) -> Any:
        """A model with the tasks asked for alone; None where all should be read."""
        if (task is None) == (tasks is None) or (model.unseen_tasks != "error" and not self._has_prior(model)):
            return None
        names = [task] if tasks is None else list(dict.fromkeys(task_names(tasks, len(tasks))))
        if 4 * len(names) > self.tasks:
            return None
        try:
            keys = tuple(map(key_of, names))
        except TypeError:  # no name that a file can have
            return None
        part = object.__new__(type(model))
        part.__dict__ = {name: value for name, value in model.__dict__.items() if name != "_on_disk"}
        part.__dict__ |= self._kept(keys) or self._read(part, names, keys)
        return part

    def _kept(self, keys: tuple[str, ...]) -> dict[str, Any] | None:
        with self._lock:
            if keys in self._parts:
                self._parts.move_to_end(keys)
            return self._parts.get(keys)

    def known(self, names: Sequence[Hashable]) -> set[Any]:
        """Those of these names that are tasks."""
        keys = {key_of(name): name for name in names}
        with reading(self.path) as connection:
            self.version.require(self.path, connection)
            return {keys[key] for key in known_keys(connection, keys)}

    def _read(self, part: Any, names: list[Hashable], keys: tuple[str, ...]) -> dict[str, Any]:
        """What tells the model with these tasks from the one whose tasks are on disk."""
        with reading(self.path) as connection:
            self.version.require(self.path, connection)
            found = read_tasks(connection, keys)
        known = {row[TASK.index("key")] for row in found.tasks}
        unknown = next((name for name, key in zip(names, keys, strict=True) if key not in known), None)
        if unknown is not None and part.unseen_tasks == "error":
            raise ValueError(f"task {unknown!r} has not been learned; {self.tasks:,} others have")
        place = {row[0]: position for position, row in enumerate(found.tasks)}
        renumbered = Contents(
            {},
            tasks=[(place[row[0]], *row[1:]) for row in found.tasks],
            predictors=[(place[row[0]], *row[1:]) for row in found.predictors],
        )
        before = dict(part.__dict__)
        self._give(part, renumbered)
        own = {name: value for name, value in part.__dict__.items() if before.get(name) is not value}
        own["_cache"] = Cache()
        with self._lock:
            self._parts[keys] = own
            while len(self._parts) > _PARTS or (len(self._parts) > 1 and sum(map(len, self._parts)) > _HELD):
                self._parts.popitem(last=False)
        return own

    def _has_prior(self, model: Any) -> bool:
        """Whether an unseen task needs no other task."""
        return model.unseen_tasks == "prior" and model.prior_ is not None

    def _give(self, model: Any, contents: Contents) -> None:
        try:
            restore_tasks(model, contents)
        except StoreError as error:
            raise StoreError(f"{self.path}: {error}") from error
