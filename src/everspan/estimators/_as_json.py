"""Parameters and labels in terms of JSON, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import checks, learners
from ..functions import ReLU
from ..names import decoded, encoded

_OBJECTS = {  # parameters may be these, by name
    kind.__name__: kind
    for kind in (
        ReLU,
        *(getattr(learners, name) for name in learners.__all__),
        *(kind for kind in (type(check) for check in checks.CHECKS.values())),
    )
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


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
            return _OBJECTS[name](**{key: parameter(part) for key, part in parts.items()})
    raise ValueError("a parameter")


def labels_text(labels: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": labels.dtype.str, "labels": [encoded(label) for label in labels.tolist()]}


def labels_of(text: Any) -> NDArray[Any]:
    dtype = np.dtype(str(text["dtype"]))
    if dtype.kind not in "biufUO":
        raise ValueError("labels")
    values = [decoded(label) for label in text["labels"]]
    labels = np.empty(len(values), dtype=object) if dtype.kind == "O" else np.array(values, dtype=dtype)
    if dtype.kind == "O":
        labels[:] = values
    return labels
