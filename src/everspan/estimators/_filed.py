"""Estimators in files: saved whole, loaded whole or, where they are large, task by task."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from ..store import Contents, StoreError, as_stored, read, write
from ._atomic import Atomic
from ._on_disk import OnDisk
from ._restoring import damage_said, parameters_of, restore
from ._saving import contents_of

EAGER = 2000  # tasks up to which a file is read at once
_ON_DISK = ("history_", "predictors_", "_label_set_of", "_seen", "_texts")


class Filed(Atomic):
    """An estimator that can be saved to a file and loaded from it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that was learned into one file, in the place of any that is there.

        The file is an SQLite database without pickle (docs/format.md), usually called NAME.everspan. At every moment
        it is whole. The contents are checked as `load` checks them before anything is written, and if writing fails,
        the old file stays. Certificates of past refinements are not saved.

        Parameters
        ----------
        path : path
            An existing file there must be one of everspan's. If this model was loaded from it or saved to it, and
            another model or process has changed it since, `everspan.store.StaleError` says so and the file stays.
        """
        check_is_fitted(self, "history_")
        with self._lock:
            self._saved = write(path, self._loadable_contents(), self.__dict__.get("_saved"))

    def _loadable_contents(self) -> Contents:
        """All that is to be saved; ValueError if `load` would refuse it."""
        contents = contents_of(self._view())
        try:
            type(self)._from_contents(as_stored(contents))
        except ValueError as error:
            raise ValueError(f"this model cannot be saved, because it could not be loaded again: {error}") from error
        return contents

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The estimator that was saved: it predicts and learns on as the one that was, to the bit.

        A file from a stranger cannot run code. It is checked before use, and `everspan.store.StoreError` says what is
        wrong with it. Of a file with many thousands of tasks only what they share is read at once, and tasks when they
        are asked for; if the file has changed by then, that is said.
        """
        contents, version = read(path, EAGER)
        try:
            model = cls._from_contents(contents)
        except ValueError as error:
            raise StoreError(f"{path}: {error}") from error
        model._saved = version
        if "history_" not in model.__dict__:
            model._on_disk = OnDisk(Path(path).resolve(), version, contents.about["tasks"])
        return model

    @classmethod
    def _from_contents(cls, contents: Contents) -> Self:
        """The estimator with these contents; ValueError says what is wrong with them."""
        kind, parameters = parameters_of(contents)
        if kind != cls.__name__:
            raise StoreError(f"holds a {kind:.60}: load it with that")
        model = cls()
        unknown = set(parameters) ^ set(model.get_params(deep=False))
        if unknown:
            raise StoreError(f"has parameters that this everspan has not, or lacks some: {sorted(unknown)!r:.80}")
        model.set_params(**parameters)
        with damage_said():
            model._rules()
        restore(model, contents)
        return model

    def __getattr__(self, name: str) -> Any:
        """What is still on disk is read when it is asked for."""
        if name in _ON_DISK:
            self._load_tasks()
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _load_tasks(self) -> None:
        """Read all tasks that are still on disk, once, whichever thread comes first."""
        if "_on_disk" not in self.__dict__:
            return
        with self._lock:
            if "_on_disk" in self.__dict__:
                fork = self._fork()
                fork.__dict__.pop("_on_disk").load_all(fork)
                self.__dict__ = fork.__dict__

    def _reader(self, task: Hashable = None, tasks: Any = None) -> Self:
        """The model as it is now; of a large file, a model that knows the tasks asked for and predicts alike."""
        view = self._view()
        if "_on_disk" not in view.__dict__:
            return view
        part: Self | None = view._on_disk.reader(view, task, tasks)
        if part is not None:
            return part
        self._load_tasks()
        return self._view()
