"""Columns beside the rows: task names and weights, checked."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..names import as_name, dates
from ..tasks import Array


def task_names(tasks: Any, n: int) -> list[Hashable]:
    """The column as a list of names, one a row."""
    if isinstance(tasks, (list, tuple)):
        listed: list[Hashable] = [as_name(task) for task in tasks]  # numpy would make 1 and "a" the same kind
    elif type(tasks).__module__.startswith("polars"):
        listed = tasks.to_list()  # numpy would lose a time's zone
    else:
        names = np.asarray(tasks)
        if names.ndim != 1:
            raise ValueError(f"tasks must be one column, but its shape is {names.shape}")
        listed = dates(names) if names.dtype.kind in "mM" else names.tolist()
    if len(listed) != n:
        raise ValueError(f"tasks must name the task of each of the {n} rows, but it has {len(listed)} names")
    missing = next((row for row, name in enumerate(listed) if is_missing(name)), None)
    if missing is not None:
        raise ValueError(f"every row needs a task, but row {missing} has {listed[missing]!r}")
    return listed


def is_missing(name: Hashable) -> bool:
    """Whether it is no name: None, nan, or pandas' NA and NaT, which are not even themselves."""
    if name is None:
        return True
    same = name == name
    return not same if isinstance(same, (bool, np.bool_)) else type(name).__name__ == "NAType"


def rows_of_tasks(tasks: Any, n: int) -> dict[Hashable, NDArray[np.intp]]:
    """The positions of every task's rows, tasks in order of first appearance."""
    names = task_names(tasks, n)
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    code = np.fromiter((codes[name] for name in names), dtype=np.intp, count=n)
    order = np.argsort(code, kind="stable")
    starts = np.searchsorted(code[order], np.arange(len(codes) + 1))
    return {name: order[starts[i] : starts[i + 1]] for i, name in enumerate(codes)}


def distinct_tasks(tasks: Any, n: int) -> tuple[list[Hashable], NDArray[np.intp]]:
    """The names in a column, each once, and the place of every row's among them."""
    if isinstance(tasks, np.ndarray) and tasks.ndim == 1 and len(tasks) == n and tasks.dtype.kind in "iuSU":
        names, places = np.unique(tasks, return_inverse=True)
        return names.tolist(), places
    groups = rows_of_tasks(tasks, n)
    places = np.empty(n, dtype=np.intp)
    for place, rows in enumerate(groups.values()):
        places[rows] = place
    return list(groups), places


def left_over(
    names: list[Hashable], places: NDArray[np.intp], done: NDArray[np.intp]
) -> list[tuple[Hashable, NDArray[np.intp]]]:
    """The rows that are not done, by task."""
    left = np.ones(len(places), dtype=bool)
    left[done] = False
    rows = np.flatnonzero(left)
    rows = rows[np.argsort(places[rows], kind="stable")]
    codes, starts = np.unique(places[rows], return_index=True)
    return (
        [(names[code], part) for code, part in zip(codes, np.split(rows, starts[1:]), strict=True)] if len(rows) else []
    )


MOST = 1e100  # the largest number that is learned from: its square, times a weight, can still be added up


def check_dtype(what: str, values: Any) -> None:
    """Refuse arrays that hold no real numbers and no names."""
    dtype = getattr(values, "dtype", None)
    if not isinstance(dtype, np.dtype) or dtype.kind not in "mMcV":
        return
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} has the dtype {dtype}, and real numbers were expected")
    if dtype.kind == "V":
        raise ValueError(f"{what} has the structured dtype {dtype}: give one plain array, a column a field")
    raise ValueError(f"{what} has the dtype {dtype}: make its dates or times numbers, or text if they are labels")


def check_size(what: str, values: Array, columns: Any = None) -> None:
    """Refuse numbers whose squares have no room, and say where the first one is."""
    if max(values.max(initial=0.0), -values.min(initial=0.0)) <= MOST:
        return
    too_large = np.argwhere(np.abs(values) > MOST)
    row, *column = too_large[0].tolist()
    where = (
        f"row {row}"
        if not column
        else f"row {row}, column {column[0] if columns is None else repr(columns[column[0]])}"
    )
    raise ValueError(
        f"{what} has {values[tuple(too_large[0])]:.3g} in {where}: numbers to learn from may be as large as {MOST:g}; "
        "scale or clip them"
    )


def checked_classes(y: Any, n: int) -> Any:
    """Labels of n rows, none missing, none a fraction."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    check_dtype("y", y)
    labels = column_or_1d(y, warn=True) if type(y) is not np.ndarray or y.ndim != 1 else y
    if len(labels) != n:
        raise ValueError(f"X has {n} rows but y has {len(labels)} labels")
    check_dtype("y", labels)
    if labels.dtype.kind == "S":
        raise ValueError("the labels are bytes, and text was expected: y.astype(str) decodes them")
    if labels.dtype == np.longdouble:
        labels = labels.astype(np.float64)
    kind = labels.dtype.kind
    if kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity: every row needs a label")
    if kind not in "iubU" and not (kind == "f" and bool((labels == np.floor(labels)).all())):
        check_classification_targets(labels)
        if kind == "O":
            missing = next((row for row, label in enumerate(labels) if label is None or label != label), None)
            if missing is not None:
                raise ValueError(f"every row needs a label, but row {missing} has {labels[missing]!r}")
    return labels


def kind_of(labels: Any) -> str:
    """What labels are: truth values, numbers, or names."""
    return {"b": "truth values"}.get(labels.dtype.kind, "numbers" if labels.dtype.kind in "iuf" else "names")


def checked_weight(sample_weight: Any, n: int) -> Array | None:
    """Weights as numbers; None where all rows count once."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have one number for each of the {n} rows, not the shape {weight.shape}")
    if not np.isfinite(weight).all() or (weight < 0.0).any():
        raise ValueError("sample_weight must be finite and not negative")
    check_size("sample_weight", weight)
    if ((weight > 0.0) & (weight < 1.0 / MOST)).any():
        raise ValueError(f"sample_weight must be 0 or at least {1.0 / MOST:g}: give rows that do not count weight 0")
    return None if (weight == 1.0).all() else weight


def without_weightless(X: Array, y: Any, weight: Array | None) -> tuple[Array, Any, Array | None]:
    """Rows that count at all."""
    if weight is None or weight.all():
        return X, y, weight
    counted = weight > 0.0
    if not counted.any():
        raise ValueError("all rows of the task have weight zero")
    return X[counted], y[counted], weight[counted]


def weighed_by_class(class_weight: Any, y: Any, weight: Array | None) -> Array | None:
    """The rows' weights times those of their classes."""
    if class_weight is None:
        return weight
    classes, codes = np.unique(y, return_inverse=True)
    if isinstance(class_weight, str) and class_weight == "balanced":
        counts = np.bincount(codes, weights=weight, minlength=len(classes))
        factors = np.where(counts > 0.0, counts.sum() / (len(classes) * np.maximum(counts, 1e-300)), 1.0)
    elif isinstance(class_weight, Mapping):
        factors = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
        if not (np.isfinite(factors).all() and (factors >= 0.0).all() and (factors <= MOST).all()):
            raise ValueError(f"class_weight must be finite, not negative and at most {MOST:g}")
    else:
        raise ValueError(f'class_weight must be a dict, "balanced" or None, but it is {class_weight!r}')
    return factors[codes] if weight is None else weight * factors[codes]
