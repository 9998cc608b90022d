"""A task taken out of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..estimators._saving import Journal
from ..store import StaleError, StoreError
from ._opening import named, open_model


def forget(path: str | Path, tasks: list[str]) -> Any:
    """Take tasks out of a file with all that was learned from their rows alone; returns the model that is left.

    All of them are gone afterwards, or none is.
    """
    while True:
        model = open_model(path)
        names = [named(model._places, task) for task in dict.fromkeys(tasks)]
        unknown = [name for name in names if name not in model._places]
        if unknown:
            raise StoreError(f"{path}: task {unknown[0]!r} has not been learned; it has {len(model._places):,} others")
        for name in names:
            model.forget(name)
        journal = Journal(path, model)
        try:
            journal.rewrite()
            return model
        except StaleError:
            continue
        finally:
            journal.close()
