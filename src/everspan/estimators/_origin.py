"""A new origin, once the task whose rows set the old one is forgotten.

The origin o is the mean of the first task's rows, and all weights, means and summaries are relative to it. When that
task is forgotten, o must go. The new origin is the mean of the rows of the other tasks as far as it is known. Where a
task's mean could not be told from o, a rough value stands in for it: o rounded to multiples of the columns' spread. So
nothing that stays tells more of o than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..prior import Summary
from ..representation import Representation
from ..tasks import Array
from ._predictors import Predictors

_BITS = 8  # that are kept of a number where no spread is known


def rough(origin: Array, spread: Array) -> Array:
    """The nearest multiples of a power of two: of about the spread, or of 2^-8 of the number where that is zero."""
    sizes = np.where(spread > 0.0, spread, np.abs(origin) * 2.0**-_BITS)
    units = np.exp2(np.floor(np.log2(np.where(sizes > 0.0, sizes, 1.0))))
    rounded: Array = np.round(origin / units) * units
    return rounded


def spread_of(summaries: Sequence[Array], columns: int) -> Array:
    """The root mean square of the columns around the origin, by summaries in columns; zero where there are none."""
    squares, count = np.zeros(columns), 0.0
    for packed in summaries:
        gram, _, _, rows = Summary(packed).parts()
        squares, count = squares + np.diag(gram)[:columns], count + rows
    spread: Array = np.sqrt(np.maximum(squares, 0.0) / max(count, 1e-300))
    return spread


def new_origin(predictors: Predictors, origin: Array, near: Array, labels: Sequence[int]) -> Array:
    """The mean of all tasks' rows; tasks whose means were not told from the old origin are near this one."""
    means = [predictors.mean(position) for position in range(predictors.tasks)]
    if all(mean is None for mean in means):
        return near
    own = np.array([near if mean is None else origin + mean for mean in means])
    mean: Array = np.average(own, axis=0, weights=labels)
    return mean


def moved(
    predictors: Predictors,
    known: Representation,
    origin: Array,
    near: Array,
    offset: Callable[[int, Array], Array],
    reads: Callable[[int], Array],
) -> Predictors:
    """The same predictors around another origin.

    Tasks that have no mean of their own get the mean ``near``. Of the predictor at an index, ``offset`` is what the
    shift of the origin subtracts from the coordinates of its summary, and ``reads`` is the direction it is read as now.
    """
    shift, found = origin - known.origin, Predictors()
    found.bases, found._used = list(predictors.bases), [0] * len(predictors.bases)
    for position in range(predictors.tasks):
        mean = predictors.mean(position)
        for index in predictors.of_task(position):
            own, direction = predictors.at(index), predictors.original(index, known)
            intercept = own.intercept + float(direction.dot(shift))
            if mean is None:  # its mean is now another one: what reading makes of that is set off against it
                intercept += float((direction - reads(index)).dot(known.origin - near))
            summary = Summary(own.summary).shifted(offset(index, shift)).packed if len(own.summary) else own.summary
            found.add(own._replace(intercept=intercept, summary=summary))
        away = near - origin if mean is None else mean - shift
        found.end_task(away if away.any() else None)
    return found
