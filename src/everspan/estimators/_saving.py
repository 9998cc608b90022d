"""Estimators as the contents of a file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..functions import FunctionRepresentation
from ..names import encoded, key_of
from ..representation import Representation
from ..store import TASK, Contents, StaleError, Writer, put, put_arrays, put_facts, replace_all, write
from ..tasks import Array, TaskEvent
from ._as_json import labels_text, text_of
from ._predictors import Kept
from ._restoring import require_sound


def contents_of(model: Any) -> Contents:
    """All that an estimator knows."""
    tasks, predictors = _rows_of(model, range(len(model.history_)))
    return Contents(_facts_of(model), _shared_arrays(model) | _own_arrays(model), tasks, predictors)


class Journal:
    """A file that follows an estimator: what a task changed is one transaction."""

    def __init__(self, path: str | os.PathLike[str], model: Any) -> None:
        """Of a model that was loaded from this file; another model is written into a new file now."""
        if "_saved" not in model.__dict__:
            model._saved = write(path, model._loadable_contents(), new=True)
        elif not Path(path).exists():
            raise StaleError(f"{path}: was removed after it was loaded")
        self._writer, self._model = Writer(path, model._saved), model
        self._note()

    def open(self) -> None:
        """Say now if the file cannot be written, not after a task was learned."""
        self._writer.open()

    def _note(self) -> None:
        model = self._model
        self._facts, self._known, self._prior = _facts_of(model), model.representation_, getattr(model, "prior_", None)
        self._versions = len(model.predictors_.bases)

    def learned(self, tasks: Iterable[Hashable]) -> None:
        """These tasks are new, or were updated."""
        model = self._model
        facts = _facts_of(model)
        arrays: dict[str, NDArray[Any]] = {}
        if model.representation_ is not self._known:
            arrays = {name: values for name, values in _shared_arrays(model).items() if not self._has(name)}
        if getattr(model, "prior_", None) is not self._prior or hasattr(model, "memory_"):
            arrays |= _own_arrays(model)
        gone = [f"basis/{v}" for v, width in enumerate(facts["versions"]) if width is None]
        rows, predictors = _rows_of(model, sorted(model._position(task) for task in tasks))
        require_sound(rows, predictors, arrays)
        with self._writer.transaction() as connection:
            put_facts(connection, {key: fact for key, fact in facts.items() if self._facts.get(key) != fact})
            put_arrays(connection, arrays)
            connection.executemany("DELETE FROM arrays WHERE name = ?", [(name,) for name in gone])
            put(connection, "tasks", rows)
            put(connection, "predictors", predictors)
        self._note()

    def _has(self, name: str) -> bool:
        """Whether the file has an array that never changes."""
        kind, _, version = name.partition("/")
        return kind == "basis" and int(version) < self._versions

    def rewrite(self) -> None:
        """All of the model anew, in one transaction: a task was forgotten."""
        contents = self._model._loadable_contents()
        with self._writer.transaction() as connection:
            replace_all(connection, contents)
        self._note()

    def close(self) -> None:
        self._writer.close()


def _facts_of(model: Any) -> dict[str, Any]:
    known = model.representation_
    relu = isinstance(known, FunctionRepresentation)
    about: dict[str, Any] = {
        "library": f"everspan {__version__}",
        "kind": type(model).__name__,
        "parameters": {name: text_of(name, value) for name, value in model.get_params(deep=False).items()},
        "columns": model.n_features_in_,
        "column_names": [str(name) for name in getattr(model, "feature_names_in_", ())] or None,
        "entropy": model._entropy,
        "origin_task": model._origin_task,
        "tasks": len(model.history_),
        "representation": "relu" if relu else "linear",
        "versions": [None if basis is None else basis.shape[1] for basis in model.predictors_.bases],
    }
    if relu:
        about["relu"] = dataclasses.asdict(known.kind) | {"centred": known.centred}
    prior = getattr(model, "prior_", None)
    if prior is not None:
        facts = ("noise", "kind", "trusted", "factors")
        about["prior"] = {name: getattr(prior, name) for name in facts}
    if hasattr(model, "table_"):
        about["table"] = model.table_
    if hasattr(model, "_label_sets"):
        about["label_sets"] = [labels_text(labels) for labels in model._label_sets]
    return about | _memory_about(model) if hasattr(model, "memory_") else about


def _shared_arrays(model: Any) -> dict[str, NDArray[Any]]:
    """The representation, and all versions of its basis that a predictor stands on."""
    bases = enumerate(model.predictors_.bases)
    return dict(_arrays_of(model.representation_)) | {f"basis/{v}": basis for v, basis in bases if basis is not None}


def _own_arrays(model: Any) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    prior = getattr(model, "prior_", None)
    if prior is not None:
        arrays |= {"prior/mean": prior.mean, "prior/precision": prior.precision}
    if hasattr(model, "memory_"):
        arrays |= {"memory/rows": model.memory_.rows, "memory/counts": model.memory_.counts}
        arrays |= {"memory/keys": model.memory_.keys, "classifier/coef": model.coef_}
        arrays |= {"classifier/intercept": model.intercept_}
    return arrays


def _rows_of(model: Any, positions: Iterable[int]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of tasks and of their predictors."""
    codes, means = getattr(model, "_label_set_of", None), model.predictors_._means
    seen, texts = getattr(model, "_seen", {}), getattr(model, "_texts", {})
    tasks, predictors = [], []
    for position in positions:
        own = model.predictors_.of_task(position)
        mean = means.get(own.start) if len(own) else None
        event, code = model.history_[position], None if codes is None else codes[position]
        tasks.append(_task_row(position, event, code, mean, seen.get(event.task), texts.get(event.task)))
        predictors += [_predictor_row(position, place, model.predictors_.at(i)) for place, i in enumerate(own)]
    return tasks, predictors


def _arrays_of(known: Representation) -> Iterator[tuple[str, NDArray[Any]]]:
    for part in dataclasses.fields(known):  # type: ignore[arg-type]
        value = getattr(known, part.name)
        if isinstance(value, tuple):
            value = np.array(value, dtype=np.int64)
        if isinstance(value, np.ndarray) and part.name != "basis":
            yield f"representation/{part.name}", value.astype(np.int64) if value.dtype.kind == "i" else value


def _task_row(
    position: int, event: TaskEvent, code: int | None, mean: Array | None, seen: bytes | None, texts: bytes | None
) -> tuple[Any, ...]:
    values = {name: getattr(event, name, None) for name in TASK}
    values |= {"position": position, "key": key_of(event.task), "name": encoded(event.task), "met": int(event.met)}
    values |= {"label_set": code, "mean": None if mean is None else mean.tobytes()}
    values |= {"seen": seen, "texts": texts}
    return tuple(values[name] for name in TASK)


def _predictor_row(task: int, place: int, kept: Kept) -> tuple[Any, ...]:
    reference, plausible = kept.errors
    coefficients, summary = kept.coefficients.tobytes(), kept.summary.tobytes()
    return (
        *(task, place, kept.version, kept.feature, coefficients, float(kept.intercept) + 0.0),  # SQLite has no -0.0
        *(float(reference) + 0.0, float(plausible) + 0.0, summary, int(kept.doubt), float(kept.foreseen) + 0.0),
    )


def _memory_about(model: Any) -> dict[str, Any]:
    totals = [[encoded(label), total.hex()] for label, total in model.memory_.totals.items()]
    return {
        "classes": labels_text(model.classes_),
        "memory": {"labels": labels_text(np.asarray(model.memory_.labels)), "totals": totals},
        "pairs": [[encoded(one), encoded(other)] for one, other in model._pairs],
        "error": float(model.error_).hex(),
    }
