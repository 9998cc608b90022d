"""Estimators in files: saved whole, loaded whole or, where they are large, task by task."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..store import Contents, StoreError, as_stored, read, write
from ._on_disk import OnDisk
from ._restoring import damage_said, parameters_of, restore
from ._saving import contents_of

EAGER = 2000  # tasks up to which a file is read at once


class Filed(BaseEstimator):  # type: ignore[misc]
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
        self._saved = write(path, self._loadable_contents(), self.__dict__.get("_saved"))

    def _loadable_contents(self) -> Contents:
        """All that is to be saved; ValueError if `load` would refuse it."""
        contents = contents_of(self)
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
        if (
            name in ("history_", "predictors_", "_places", "_label_set_of", "_seen", "_texts")
            and "_on_disk" in self.__dict__
        ):
            self._load_tasks()
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __getstate__(self) -> Any:
        self._load_tasks()
        return super().__getstate__()

    def _load_tasks(self) -> None:
        """Read all tasks that are still on disk."""
        on_disk = self.__dict__.pop("_on_disk", None)
        if on_disk is None:
            return
        try:
            on_disk.load_all(self)
        except BaseException:
            self._on_disk = on_disk
            raise

    def _reader(self, task: Hashable, tasks: Any = None) -> Self:
        """A model that knows the tasks asked for, and predicts as this one does."""
        if "_on_disk" not in self.__dict__:
            return self
        found: Self | None = self._on_disk.reader(self, task, tasks)
        if found is None:
            self._load_tasks()
            return self
        return found
