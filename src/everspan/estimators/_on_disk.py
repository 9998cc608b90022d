"""The tasks of a large file, read when they are asked for."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from ..names import key_of
from ..store import TASK, Contents, StoreError, Version, known_keys, read, read_tasks, reading
from ._restoring import restore_tasks
from ._tables import task_names

_READS = 200  # after which all is read: the next ones cost no more


class OnDisk:
    """Where the tasks of a model are, as long as they are not in memory."""

    def __init__(self, path: Path, version: Version, tasks: int) -> None:
        self.path, self.version, self.tasks = path, version.copy(), tasks
        self.reads = 0
        self._last: tuple[list[Hashable], Any] = ([], None)

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
        self.reads += 1
        if 4 * len(names) > self.tasks or self.reads > _READS:
            return None
        if self._last[0] != names:
            self._last = names, self._part(model, names)
        return self._last[1]

    def known(self, names: Sequence[Hashable]) -> set[Any]:
        """Those of these names that are tasks."""
        keys = {key_of(name): name for name in names}
        with reading(self.path) as connection:
            self.version.require(self.path, connection)
            return {keys[key] for key in known_keys(connection, keys)}

    def _part(self, model: Any, names: list[Hashable]) -> Any:
        try:
            keys = [key_of(name) for name in names]
        except TypeError:
            return None
        with reading(self.path) as connection:
            self.version.require(self.path, connection)
            found = read_tasks(connection, keys)
        known = {row[TASK.index("key")] for row in found.tasks}
        unknown = next((name for name, key in zip(names, keys, strict=True) if key not in known), None)
        if unknown is not None and model.unseen_tasks == "error":
            raise ValueError(f"task {unknown!r} has not been learned; {self.tasks:,} others have")
        place = {row[0]: position for position, row in enumerate(found.tasks)}
        renumbered = Contents(
            {},
            tasks=[(place[row[0]], *row[1:]) for row in found.tasks],
            predictors=[(place[row[0]], *row[1:]) for row in found.predictors],
        )
        part = object.__new__(type(model))
        part.__dict__.update({name: value for name, value in model.__dict__.items() if name != "_on_disk"})
        self._give(part, renumbered)
        return part

    def _has_prior(self, model: Any) -> bool:
        """Whether an unseen task needs no other task."""
        return model.unseen_tasks == "prior" and model.prior_ is not None

    def _give(self, model: Any, contents: Contents) -> None:
        try:
            restore_tasks(model, contents)
        except StoreError as error:
            raise StoreError(f"{self.path}: {error}") from error
