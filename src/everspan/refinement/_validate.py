"""What goes in: checked before any work is done, with one clear error that names what was seen."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import Array

Method = Literal["sdp", "svd"]
Rounding = Literal["certified", "extreme", "paper"]


@dataclass(frozen=True)
class Options:
    """The checked options of `refine` and `refine_gram`."""

    k: int
    method: Method
    rounding: Rounding
    tol: float
    dimension: int | None
    radius: float | None
    max_iterations: int


def checked_options(
    k: int,
    method: Method,
    rounding: Rounding,
    tol: float,
    dimension: int | None,
    radius: float | None,
    max_iterations: int,
) -> Options:
    k = checked_count(k, "k")
    checked_choice(method, "method", ("sdp", "svd"))
    checked_choice(rounding, "rounding", ("certified", "extreme", "paper"))
    if dimension is not None:
        dimension = checked_count(dimension, "dimension")
        if rounding != "paper" or method != "sdp":
            raise ValueError('dimension goes with method="sdp" and rounding="paper"')
        if dimension < k:
            raise ValueError(f"dimension must be at least k = {k}, but it is {dimension}")
    if radius is not None:
        radius = checked_positive(radius, "radius")
        if rounding != "certified" or method != "sdp":
            raise ValueError('radius goes with method="sdp" and rounding="certified"')
    iterations = checked_count(max_iterations, "max_iterations")
    return Options(k, method, rounding, checked_positive(tol, "tol"), dimension, radius, iterations)


def checked_matrix(value: ArrayLike, name: str) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise ValueError(f"{name} must have no missing entries, but it is a masked array")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must be a matrix with one feature a row, but its rows differ in length") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, but its dtype is {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix with one feature a row, but its shape is {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one row and one column, but its shape is {array.shape}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is named below
        matrix = np.ascontiguousarray(array, dtype=np.float64)
    if not np.isfinite(matrix).all():
        i, j = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"{name} must be finite, but {name}[{i}, {j}] is {matrix[i, j]}")
    return matrix


def checked_radii(radii: ArrayLike | None, n: int) -> Array | None:
    if radii is None:
        return None
    array = np.asarray(radii)
    if array.dtype.kind not in "fiu" or array.shape != (n,):
        raise ValueError(f"radii must be {n} numbers, but it has dtype {array.dtype} and shape {array.shape}")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError(f"radii must be positive and finite, but it goes from {array.min()} to {array.max()}")
    return array.astype(np.float64)


def checked_count(value: int, name: str) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, but it is {value!r}") from None
    if isinstance(value, bool) or count < 1:
        raise ValueError(f"{name} must be at least 1, but it is {value!r}")
    return count


def checked_positive(value: float, name: str) -> float:
    try:
        number = float(value) if isinstance(value, int | float | np.integer | np.floating) else math.nan
    except OverflowError:
        number = math.inf
    if isinstance(value, bool) or not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a positive number, but it is {value!r}")
    return number


def checked_choice(value: str, name: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, but it is {value!r}")


def normalised(features: Array, radii: Array | None) -> tuple[float, Array]:
    """The features with their largest entry at one (so that no square overflows), and the unit that was taken out."""
    unit = float(np.abs(features).max()) or 1.0
    rows = features / unit
    if radii is not None:
        finest = float(radii.min())
        rows = rows / (radii / finest)[:, None]
        peak = float(np.abs(rows).max()) or 1.0
        unit, rows = checked_unit(unit * peak, finest), rows / peak
    return unit, rows


def checked_unit(size: float, radius: float) -> float:
    unit = size / radius
    if not 0.0 < unit < math.inf:
        raise ValueError(f"features of size {size:.3g} cannot be measured in radii of {radius:.3g} in double precision")
    return unit
