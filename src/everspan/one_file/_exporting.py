"""A file's tasks for others: one as plain coefficients or ONNX, all as a Parquet table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators import LifelongRegressor
from ..names import plain, shown
from ..store import StoreError
from ..tables import FORGOTTEN, Preparation
from ._learning import preparation_of
from ._opening import named, open_model
from ._writing import whole

_ROWS = 4096  # of a Parquet table that are written at once


def export(path: str | Path, out: Path, task: str | None = None) -> int:
    """Write one task as .json or .onnx, or all as .parquet; returns how many predictors there were."""
    model = open_model(path)
    if not hasattr(model, "linear_predictor"):
        raise StoreError(f"{path}: holds a {type(model).__name__}, whose tasks have no predictors of their own")
    if not model._places:
        raise StoreError(f"{path}: has no task to export")
    if out.suffix == ".parquet":
        if task is not None:
            raise StoreError(f"{out}: one task is exported as .json or .onnx; .parquet is for all of them")
        return _parquet(model, out, path, _names(model, Path(path)))
    if out.suffix not in (".json", ".onnx"):
        raise StoreError(f"{out}: exports are .json, .onnx (one task) or .parquet (all)")
    if task is None:
        raise StoreError(f"which task? --task NAME; all of them are exported as .parquet, not {out.suffix}")
    name = named(model._places, task)
    weights, intercepts = model.linear_predictor(task=name)
    known = preparation_of(model, Path(path)) if hasattr(model, "table_") else None
    classes = None if isinstance(model, LifelongRegressor) else model.classes_of(name)
    with whole(out, path) as part:
        if out.suffix == ".json":
            found = _plain(model, name, weights, intercepts, classes, known, _names(model, Path(path)))
            part.write_text(json.dumps(found, indent=1) + "\n")
        else:
            if known is None:
                raise StoreError(f"{path}: was not made from a table: its columns have no names for ONNX")
            part.write_bytes(_onnx(known, weights, intercepts, classes))
    return len(weights)


def _names(model: Any, path: Path) -> list[str]:
    """What the numbers of a row mean."""
    if hasattr(model, "table_"):
        return preparation_of(model, path).names
    return [str(n) for n in getattr(model, "feature_names_in_", [f"x{i}" for i in range(model.n_features_in_)])]


def _plain(
    model: Any, task: Any, weights: Any, intercepts: Any, classes: Any, known: Preparation | None, names: list[str]
) -> dict[str, Any]:
    event = model.history_[model._places[task]]
    kind = "regression" if classes is None else "classification"
    said = {
        "regression": "prediction = intercept + sum of weight * number",
        "classification": "score = intercept + sum of weight * number; of two classes the second where it is positive, "
        "with probability 1 / (1 + exp(-score)); of more the class with the largest score",
    }
    numbers = "a column minus its mean, over its scale, 0 where it is missing; 1 where a text is the one named, else 0"
    predictors = []
    for place, (row, intercept) in enumerate(zip(weights, intercepts, strict=True)):
        own = {"intercept": float(intercept), "weights": dict(zip(names, row.tolist(), strict=True))}
        predictors.append(own | ({"class": classes[place]} if len(weights) > 1 else {}))
    return {
        "task": plain(task),
        "kind": kind,
        "how": said[kind] + ("" if known is None else f"; a number is {numbers}"),
        "classes": classes,
        "columns": None
        if known is None
        else [
            {"name": c.name, "kind": c.kind, "mean": c.mean, "scale": c.scale, "missing": c.missing, "values": c.values}
            for c in known.columns
        ],
        "predictors": predictors,
        "error": None if np.isnan(event.error) else event.error,
        "labels": event.labels_used,
    }


def _parquet(model: Any, out: Path, path: str | Path, names: list[str]) -> int:
    """A row for every predictor: its task, class, event and weights."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise StoreError(f"Parquet needs pyarrow ({error}): pip install 'everspan[tables]'") from error

    written = 0
    weight_names = [f"weight of {name}" for name in names]
    regression = isinstance(model, LifelongRegressor)
    with whole(out, path) as part:
        writer: Any = None
        tasks = model.tasks_
        for first in range(0, len(tasks), _ROWS):
            about: dict[str, list[Any]] = {}
            rows = []
            for task in tasks[first : first + _ROWS]:
                event = model.history_[model._places[task]]
                weights, intercepts = model.linear_predictor(task=task)
                classes = None if regression else model.classes_of(task)
                for place, (row, intercept) in enumerate(zip(weights, intercepts, strict=True)):
                    facts = {
                        "task": shown(task),
                        "class": None if classes is None else str(classes[place if len(weights) > 1 else -1]),
                        "action": event.action,
                        "error": event.error,
                        "error_bound": event.error_bound,
                        "labels": event.labels_used,
                        "labels_wanted": event.labels_wanted,
                        "intercept": float(intercept),
                    }
                    for key, value in facts.items():
                        about.setdefault(key, []).append(value)
                    rows.append(row)
            matrix = np.array(rows)
            columns = {key: pa.array(values, _ARROW[key]()) for key, values in about.items()}
            columns |= {name: pa.array(matrix[:, place]) for place, name in enumerate(weight_names)}
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(part, table.schema)
            writer.write_table(table)
            written += len(rows)
        if writer is not None:
            writer.close()
    return written


def _arrow(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import pyarrow as pa

        return getattr(pa, name)()

    return make


_ARROW = dict.fromkeys(("task", "class", "action"), _arrow("string"))
_ARROW |= dict.fromkeys(("error", "error_bound", "intercept"), _arrow("float64"))
_ARROW |= dict.fromkeys(("labels", "labels_wanted"), _arrow("int64"))


_OUTPUTS = ("label", "probabilities", "prediction")


# ONNX -----------------------------------------------------------------------------------------------------------------


def _onnx(known: Preparation, weights: Any, intercepts: Any, classes: list[Any] | None) -> bytes:
    """A graph from columns, one input each, to the label and its probabilities, or the number."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise StoreError(f"ONNX needs the package onnx ({error}): pip install 'everspan[onnx]'") from error

    nodes: list[Any] = []
    constants: list[Any] = []

    prefix = "everspan/"
    while any(column.name.startswith(prefix) or column.name in _OUTPUTS for column in known.columns):
        if any(column.name in _OUTPUTS for column in known.columns):
            raise StoreError(f"a column has the name of an output of ONNX: {', '.join(_OUTPUTS)}")
        prefix += "/"

    def constant(value: Any, name: str) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), prefix + name))
        return prefix + name

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        name = output if output in _OUTPUTS else prefix + output
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    weights = np.array(weights)
    for index, place, position in known.text_positions:
        if known.columns[index].values[place] is None:  # its number is always 0
            weights[:, position] = 0.0
    inputs, parts = [], []
    for i, column in enumerate(known.columns):
        text = column.kind == "text"
        inputs.append(
            helper.make_tensor_value_info(column.name, TensorProto.STRING if text else TensorProto.DOUBLE, ["rows", 1])
        )
        if text:
            values = [*_without_none(column.values), *([""] if column.missing else [])]
            hot = node("OneHotEncoder", [column.name], f"hot{i}", cats_strings=values, zeros=1, domain="ai.onnx.ml")
            shape = constant(np.array([-1, len(values)], dtype=np.int64), f"shape{i}")
            flat = node("Reshape", [hot, shape], f"flat{i}")
            parts.append(node("Cast", [flat], f"part{i}", to=TensorProto.DOUBLE))
        else:
            nothing, endless = node("IsNaN", [column.name], f"nothing{i}"), node("IsInf", [column.name], f"endless{i}")
            absent = node("Or", [nothing, endless], f"absent{i}")
            mean, scale = constant(np.float64(column.mean), f"mean{i}"), constant(np.float64(column.scale), f"scale{i}")
            there = node("Where", [absent, mean, column.name], f"there{i}")
            parts.append(node("Div", [node("Sub", [there, mean], f"shifted{i}"), scale], f"part{i}"))
            if column.missing:
                parts.append(node("Cast", [absent], f"missing{i}", to=TensorProto.DOUBLE))
    rows = node("Concat", parts, "numbers", axis=1)
    product = node("MatMul", [rows, constant(np.ascontiguousarray(weights.T), "weights")], "product")
    scores = node("Add", [product, constant(np.asarray(intercepts), "intercepts")], "scores")
    if classes is None:
        node("Identity", [scores], "prediction")
        outputs = [helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, ["rows", 1])]
    else:
        outputs = _class_outputs(node, constant, scores, classes, len(weights))
    graph = helper.make_graph(nodes, "everspan", inputs, outputs, constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=versions, producer_name="everspan", ir_version=8)
    checker.check_model(made)
    content: bytes = made.SerializeToString()
    return content


def _without_none(values: Sequence[str | None]) -> list[str]:
    """Values for ONNX, which has no None: in its place a text that no other value has."""
    found = [value for value in values if value is not None]
    free = (f"{FORGOTTEN} {i}" for i in range(2 * len(values)) if f"{FORGOTTEN} {i}" not in found)
    return [next(free) if value is None else value for value in values]


def _class_outputs(node: Any, constant: Any, scores: str, classes: list[Any], predictors: int) -> list[Any]:
    from onnx import TensorProto, helper

    each = node("Sigmoid", [scores], "each")
    if predictors == 1 and len(classes) == 2:
        one = constant(np.float64(1.0), "one")
        probabilities = node("Concat", [node("Sub", [one, each], "first"), each], "probabilities", axis=1)
        least = constant(np.float64(0.0), "zero")
        second = node("GreaterOrEqual", [scores, least], "positive")
        column = node("Cast", [second], "place2", to=TensorProto.INT64)
        place = node("Squeeze", [column, constant(np.array([1], dtype=np.int64), "axes")], "place")
    elif predictors == 1:
        probabilities = node(
            "Add",
            [node("Mul", [each, constant(np.float64(0.0), "zero")], "nothing"), constant(np.float64(1.0), "one")],
            "probabilities",
        )
        place = node("ArgMax", [probabilities], "place", axis=1, keepdims=0)
    else:
        axes = constant(np.array([1], dtype=np.int64), "axes")
        total = node("ReduceSum", [each, axes], "total", keepdims=1)
        probabilities = node("Div", [each, total], "probabilities")
        place = node("ArgMax", [scores], "place", axis=1, keepdims=0)
    labels = np.array(classes)
    kinds = {"U": TensorProto.STRING, "b": TensorProto.BOOL, "f": TensorProto.DOUBLE}
    listed = constant(labels.astype(object) if labels.dtype.kind == "U" else labels, "classes")
    node("Gather", [listed, place], "label", axis=0)
    return [
        helper.make_tensor_value_info("label", kinds.get(labels.dtype.kind, TensorProto.INT64), ["rows"]),
        helper.make_tensor_value_info(probabilities, TensorProto.DOUBLE, ["rows", len(classes)]),
    ]
