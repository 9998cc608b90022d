"""Parameters and labels in terms of JSON, and back."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks, learners
from ..functions import ReLU
from ..names import decoded, encoded

_KINDS: tuple[Any, ...] = (
    *(learners.Auto, learners.Averaging, learners.BayesPoint, learners.HardMargin, learners.Logistic, learners.Ridge),
    *(learners.TwoLayer, ReLU),
    *(type(check) for check in checks.CHECKS.values()),
)
_OBJECTS = {kind.__name__: kind for kind in _KINDS}  # parameters may be these, by name


def text_of(name: str, value: Any) -> Any:
    """A parameter in terms of JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple):
        return {"tuple": [text_of(name, part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(key), text_of(name, part)] for key, part in value.items()]}
    if type(value).__name__ in _OBJECTS and type(value) is _OBJECTS[type(value).__name__]:
        parts = {part.name: text_of(name, getattr(value, part.name)) for part in dataclasses.fields(value)}
        return {"object": type(value).__name__, "parts": parts}
    raise TypeError(
        f"{name}={value!r:.60} cannot be saved: parameters in a file are names, numbers and everspan's own objects"
    )


def parameter(text: Any) -> Any:
    if not isinstance(text, dict):
        if text is None or isinstance(text, bool | int | str):
            return text
        raise ValueError("a parameter")
    match text:
        case {"float": str(number)}:
            return float.fromhex(number)
        case {"tuple": list(parts)}:
            return tuple(parameter(part) for part in parts)
        case {"dict": list(pairs)}:
            return {decoded(key): parameter(part) for key, part in pairs}
        case {"object": str(name), "parts": dict(parts)} if name in _OBJECTS:
            made = _OBJECTS[name](**{key: parameter(part) for key, part in parts.items()})
            _check_settings(made)
            return made
    raise ValueError("a parameter")


def _check_settings(made: Any) -> None:
    """Raise ValueError unless the fields of a learner or check hold what their types say, within reason."""
    for field in dataclasses.fields(made):
        name, value = field.name, getattr(made, field.name)
        if field.type == "bool":
            fine = isinstance(value, bool)
        elif field.type == "float":
            fine = isinstance(value, int | float) and 0.0 < value < math.inf
        elif field.type == "tuple[float, ...]":
            fine = isinstance(value, tuple) and 1 <= len(value) <= _MOST_STRENGTHS and all(map(_is_strength, value))
        elif field.type in ("int", "int | None"):
            least, most = _WHOLE.get(name, (0, 2**63))
            absent = value is None and field.type == "int | None"
            fine = absent or (type(value) is int and least <= value <= most)
        else:
            fine = isinstance(value, str)
        if not fine:
            raise ValueError(f"{type(made).__name__}({name}={value!r:.60})")


def _is_strength(value: Any) -> bool:
    return isinstance(value, int | float) and 0.0 <= value < math.inf


_MOST_STRENGTHS = 1000
_WHOLE = {"starts": (1, 1000), "units": (1, 4096), "most": (1, 4096), "folds": (2, 10**6), "every": (2, 10**9)}


def labels_text(labels: NDArray[Any]) -> dict[str, Any]:
    """Labels in terms of JSON; TypeError where they are of a kind that a file does not keep."""
    if labels.dtype.kind not in _LABEL_KINDS:
        raise TypeError(f"labels of type {labels.dtype} cannot be saved: make them text, numbers or truth values")
    return {"dtype": labels.dtype.str, "labels": [encoded(label) for label in labels.tolist()]}


def labels_of(text: Any) -> NDArray[Any]:
    """Labels from JSON; text is as wide as the longest label, whatever the file says."""
    dtype, values = np.dtype(str(text["dtype"])), [decoded(label) for label in text["labels"]]
    if dtype.kind not in _LABEL_KINDS:
        raise ValueError("labels")
    if dtype.kind == "U":
        if not all(isinstance(value, str) for value in values):
            raise ValueError("labels")
        return np.array(values, dtype=str)
    labels = np.empty(len(values), dtype=dtype)
    labels[:] = values
    return labels


_LABEL_KINDS = "biufUO"
