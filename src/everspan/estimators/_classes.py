"""Labels of classes: encoded and joined, and what scores say about them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..tasks import Array
from ._tables import kind_of


def places_of(scores: Array, classes: Any) -> NDArray[np.intp]:
    """The place among the classes that scores speak for."""
    return scores.argmax(axis=1) if scores.shape[1] > 1 else np.where(scores[:, 0] >= 0.0, len(classes) - 1, 0)


def labels_by(scores: Array, classes: Any) -> Any:
    return classes[places_of(scores, classes)]


def probabilities_by(scores: Array, classes: Any) -> Array:
    if len(classes) == 1:
        return np.ones((len(scores), 1))
    if scores.shape[1] == 1:
        second = expit(scores[:, 0])
        return np.column_stack([1.0 - second, second])
    each = np.maximum(expit(scores), 1e-300)
    probabilities: Array = each / each.sum(axis=1, keepdims=True)
    return probabilities


def assembled(parts: list[tuple[Any, Any]]) -> Any:
    """One array of the rows' values in the rows' order."""
    if len(parts) == 1 and isinstance(parts[0][0], slice):
        return parts[0][1]
    kinds = {values.dtype.kind in "SU" for _, values in parts}
    dtype = np.result_type(*(values.dtype for _, values in parts)) if len(kinds) == 1 else np.dtype(object)
    n = sum(len(values) for _, values in parts)
    whole = np.empty((n, *parts[0][1].shape[1:]), dtype=dtype)
    for rows, values in parts:
        whole[rows] = values
    return whole


def encoded(y: Any) -> tuple[Any, NDArray[np.intp]]:
    """Sorted labels and the place of each row's: `numpy.unique`, but faster for two numbers."""
    if y.dtype.kind in "iuf":
        low, high = y.min(), y.max()
        upper = y == high
        if low != high and bool((upper | (y == low)).all()):
            return np.array([low, high], dtype=y.dtype), upper.view(np.int8).astype(np.intp)
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes


def same_classes(one: Any, other: Any) -> bool:
    return kind_of(one) == kind_of(other) and len(one) == len(other) and bool((one == other).all())


def union_of(label_sets: list[Any]) -> Any:
    if len({labels.dtype.kind in "SU" for labels in label_sets}) == 1:
        return np.unique(np.concatenate(label_sets))
    seen = dict.fromkeys(label for labels in label_sets for label in labels.tolist())
    union = np.empty(len(seen), dtype=object)
    union[:] = list(seen)
    return union
