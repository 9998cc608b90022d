"""The contents of a file as an estimator; nothing is believed before it is checked."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..functions import FunctionRepresentation, ReLU
from ..names import decoded, key_of
from ..prior import Prior
from ..representation import LinearRepresentation, Representation
from ..store import PREDICTOR, TASK, Contents, StoreError, reason
from ..tasks import Array, History, TaskEvent
from ._as_json import labels_of, parameter
from ._memory import RowMemory
from ._predictors import UPDATED, Kept, Predictors

_WRONG = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
)


@contextmanager
def damage_said() -> Iterator[None]:
    """Whatever goes wrong with contents is damage."""
    try:
        yield
    except StoreError:
        raise
    except _WRONG as error:
        raise StoreError(f"is damaged: {type(error).__name__} {reason(error)}") from error


@damage_said()
def restore(model: Any, contents: Contents) -> None:
    """Make a fresh estimator what these contents say."""
    _restore(model, contents)


@damage_said()
def parameters_of(contents: Contents) -> tuple[str, dict[str, Any]]:
    """The kind of an estimator, and its parameters."""
    parameters = {str(name): parameter(text) for name, text in contents.about["parameters"].items()}
    return str(contents.about["kind"]), parameters


@damage_said()
def restore_tasks(model: Any, contents: Contents) -> None:
    """Give these tasks, and no others, to an estimator whose shared state is there."""
    _restore_tasks(model, contents)


def _restore(model: Any, contents: Contents) -> None:
    """The shared state; the tasks too, where the contents have them."""
    about, arrays = contents.about, contents.arrays
    _require_finite(arrays)
    _require(type(about["tasks"]) is int, "tasks")
    _require(all(isinstance(about.get(name, ""), str) for name in ("identity", "state")), "identity or state")
    _require(type(about.get("change", 0)) is int and about.get("change", 0) >= 0, "change")
    columns = about["columns"]
    _require(type(columns) is int and columns >= 1, "columns")
    model.n_features_in_ = columns
    if about["column_names"] is not None:
        model.feature_names_in_ = np.array([str(name) for name in about["column_names"]], dtype=object)
        _require(len(model.feature_names_in_) == columns, "column_names")
    model._entropy, model._origin_task = int(about["entropy"]), about.get("origin_task", 0)
    _require(model._origin_task is None or type(model._origin_task) is int, "origin_task")
    model._bases = _bases(arrays, about["versions"])
    basis = model._bases[-1]
    _require(basis is not None, "the newest basis")
    model.representation_ = _representation(about, arrays, basis)
    if hasattr(model, "prior"):
        model.prior_ = _prior(about.get("prior"), arrays, columns + bool(model.fit_intercept))
    if "table" in about:
        _require(isinstance(about["table"], dict), "table")
        model.table_ = about["table"]
    if hasattr(model, "_note_label_sets"):
        model._label_sets = [labels_of(text) for text in about["label_sets"]]
        _require(all(len(set(labels.tolist())) == len(labels) for labels in model._label_sets), "label_sets")
        model._note_label_sets()
    if "memory" in about:
        _restore_memory(model, about, arrays)
    if contents.tasks or not about["tasks"]:
        _restore_tasks(model, contents)
        _require(len(model._places) == about["tasks"], "tasks")
        del model._bases


def _restore_tasks(model: Any, contents: Contents) -> None:
    model.predictors_ = _predictors(contents, model._bases)
    _check_predictors(model.predictors_, model.representation_)
    model.history_ = History([event_of(row) for row in contents.tasks])
    _require(len(set(model._places)) == len(model.history_), "tasks")
    if hasattr(model, "_label_sets"):
        codes = [row[TASK.index("label_set")] for row in contents.tasks]
        _require(all(type(code) is int and 0 <= code < len(model._label_sets) for code in codes), "label_set")
        model._label_set_of = array("q", codes)
    if hasattr(model, "prior"):  # tasks with a predictor each, or one a class
        sizes = [len(model._label_sets[code]) for code in codes] if hasattr(model, "_label_sets") else []
        for position in range(len(model.history_)):
            wanted = sizes[position] if sizes and sizes[position] > 2 else 1
            _require(len(model.predictors_.of_task(position)) == wanted, "as many predictors as a task has")
    model._seen = _blobs(model.history_, contents, "seen")
    model._texts = _blobs(model.history_, contents, "texts")


def _blobs(history: History, contents: Contents, column: str) -> dict[Hashable, bytes]:
    """What tasks have in a column, those that have anything."""
    place = TASK.index(column)
    values = [row[place] for row in contents.tasks]
    for value in values:
        whole = column != "seen" or value is None or len(value) % 4 == 0
        _require((value is None or isinstance(value, bytes)) and whole, column)
    return {event.task: value for event, value in zip(history, values, strict=True) if value is not None}


@damage_said()
def require_sound(
    tasks: list[tuple[Any, ...]], predictors: list[tuple[Any, ...]], arrays: dict[str, NDArray[Any]]
) -> None:
    """Raise ValueError if rows or arrays that are to be written would be refused when they are read."""
    for row in tasks:
        event_of(tuple(None if isinstance(value, float) and math.isnan(value) else value for value in row))
    for row in predictors:
        _kept(dict(zip(PREDICTOR, row, strict=True)))
    _require_finite(arrays)


def _require_finite(arrays: dict[str, NDArray[Any]]) -> None:
    for name, values in arrays.items():
        _require(values.dtype != np.float64 or bool(np.isfinite(values).all()), f"{name} is not finite")


def _require(fine: bool, what: str) -> None:
    if not fine:
        raise ValueError(what)


def _bases(arrays: dict[str, NDArray[Any]], versions: list[int | None]) -> list[Array | None]:
    bases = [arrays.get(f"basis/{version}") for version in range(len(versions))]
    for version, (basis, width) in enumerate(zip(bases, versions, strict=True)):
        _require((basis is None) == (width is None), f"basis {version}")
        _require(basis is None or (basis.ndim == 2 and basis.shape[1] == width), f"basis {version}")
    return bases


def _predictors(contents: Contents, bases: list[Array | None]) -> Predictors:
    predictors = Predictors()
    predictors.bases, predictors._used = list(bases), [0] * len(bases)
    rows = iter(contents.predictors)
    row = next(rows, None)
    for position, task in enumerate(contents.tasks):
        _require(task[0] == position, "the order of tasks")
        place = 0
        while row is not None and row[0] == position:
            values = dict(zip(PREDICTOR, row, strict=True))
            _require(values["place"] == place, "the order of predictors")
            predictors.add(_kept(values))
            place, row = place + 1, next(rows, None)
        mean = task[TASK.index("mean")]
        predictors.end_task(None if mean is None else _floats(mean))
    _require(row is None, "a predictor of no task")
    return predictors


def _kept(values: dict[str, Any]) -> Kept:
    numbers = [values[name] for name in ("intercept", "reference", "plausible")]
    intercept, reference, plausible = (float("nan") if number is None else float(number) for number in numbers)
    _require(math.isfinite(intercept), "a constant")
    _require(0 <= values["doubt"] <= 3, "doubt")
    foreseen = math.nan if values["foreseen"] is None else float(values["foreseen"])
    return Kept(
        int(values["version"]),
        int(values["feature"]),
        _floats(values["coefficients"]),
        intercept,
        (reference, plausible),
        _floats(values["summary"]),
        int(values["doubt"]),
        foreseen,
    )


def _floats(data: bytes) -> Array:
    values = np.frombuffer(data, dtype="<f8").astype(np.float64)
    _require(bool(np.isfinite(values).all()), "a number is not finite")
    return values


def _check_predictors(predictors: Predictors, known: Representation) -> None:
    """Every predictor stands on something that is there, and weighs as many numbers as that has."""
    width = known.basis.shape[0]
    for index in range(len(predictors)):
        own = predictors.at(index)
        _require(-1 <= own.feature < len(known.features), "a predictor's feature")
        if own.version >= 0:
            _require(own.version < len(predictors.bases), "a predictor's version")
            basis = predictors.bases[own.version]
            _require(basis is not None and len(own.coefficients) == basis.shape[1], "a predictor's weights")
        elif own.version == -1:
            _require(own.feature >= 0 and len(own.coefficients) == 1, "a predictor's weights")
        else:
            _require(own.version in (-2, UPDATED) and len(own.coefficients) <= width, "a predictor's weights")
    for basis in predictors.bases:
        _require(basis is None or basis.shape[0] <= width, "a basis")


def _representation(about: dict[str, Any], arrays: dict[str, NDArray[Any]], basis: Array) -> Representation:
    parts: dict[str, Any] = {
        name.removeprefix("representation/"): values
        for name, values in arrays.items()
        if name.startswith("representation/")
    }
    d = about["columns"]
    _require(parts["origin"].shape == (d,), "origin")
    n = len(parts["features"])
    _require(parts["errors"].shape == parts["labels"].shape == (n,), "features")
    if about["representation"] == "linear":
        _require(parts["features"].shape == (n, d) and basis.shape[0] == d, "features")
        return LinearRepresentation(basis=basis, **parts)
    kind = dict(about["relu"])
    centred = bool(kind.pop("centred"))
    for name in ("blocks", "ends", "grown_at"):
        parts[name] = tuple(parts[name].tolist())
    units = len(parts["weights"])
    _require(parts["weights"].shape[1] == d and parts["biases"].shape == (units,), "units")
    _require(parts["features"].shape[1] == basis.shape[0] == units, "features")
    _require(parts["products"].shape == (units, units), "products")
    _require(len(parts["ends"]) == len(parts["grown_at"]) == n and max(parts["ends"], default=0) <= units, "ends")
    _require(not units or (parts["blocks"][-1] == units and list(parts["blocks"]) == sorted(parts["blocks"])), "blocks")
    return FunctionRepresentation(kind=ReLU(**kind), centred=centred, basis=basis, **parts)


def event_of(row: tuple[Any, ...]) -> TaskEvent:
    """The event of a task, checked."""
    values = dict(zip(TASK, row, strict=True))
    for name in ("error", "error_bound", "confidence", "seconds", "drift"):
        number = values[name]
        _require(number is None or (type(number) is float and math.isfinite(number)), name)
    _require(values["action"] in ("reused", "grew", "updated"), "an action")
    for name in ("labels_used", "dimension", "features_learned"):
        _require(type(values[name]) is int and 0 <= values[name] < 2**62, name)
    wanted = values["labels_wanted"]
    _require(wanted is None or (type(wanted) is int and 0 <= wanted < 2**62), "labels_wanted")
    task = decoded(values["name"])
    _require(key_of(task) == values["key"], "a name")
    return TaskEvent(
        task=task,
        action=values["action"],
        met=bool(values["met"]),
        error=math.nan if values["error"] is None else values["error"],
        error_bound=values["error_bound"],
        confidence=values["confidence"],
        labels_used=values["labels_used"],
        labels_wanted=wanted,
        dimension=values["dimension"],
        features_learned=values["features_learned"],
        seconds=values["seconds"] or 0.0,
        drift=values["drift"],
    )


def _prior(about: Any, arrays: dict[str, NDArray[Any]], size: int) -> Prior | None:
    if about is None:
        return None
    mean, precision = arrays["prior/mean"], arrays["prior/precision"]
    _require(mean.shape == (size,) and precision.shape == (size, size), "prior")
    noise = float(about["noise"])
    _require(0.0 < noise < math.inf, "noise")
    factors = int(about.get("factors", 0))  # files of earlier versions do not say
    _require(0 <= factors <= size, "factors")
    return Prior(mean, precision, noise, str(about["kind"]), bool(about["trusted"]), factors)


def _restore_memory(model: Any, about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    memory, rows = about["memory"], arrays["memory/rows"]
    totals = {decoded(label): float.fromhex(total) for label, total in memory["totals"]}
    labels = labels_of(memory["labels"])
    n = len(rows)
    _require(rows.shape == (n, about["columns"]) and len(labels) == n, "memory")
    _require(arrays["memory/counts"].shape == arrays["memory/keys"].shape == (n,), "memory")
    model.memory_ = RowMemory(rows, labels, arrays["memory/counts"], arrays["memory/keys"], totals)
    model.classes_ = labels_of(about["classes"])
    _require(set(model.classes_.tolist()) == set(totals), "classes")
    model._pairs = [(decoded(one), decoded(other)) for one, other in about["pairs"]]
    model.coef_, model.intercept_ = arrays["classifier/coef"], arrays["classifier/intercept"]
    _require(model.coef_.shape[0] == len(model.classes_) == len(model.intercept_), "classifier")
    model.error_ = float.fromhex(about["error"])
