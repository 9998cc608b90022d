"""Whether a task has changed: the error of what is known of it on new rows, beside what it was on old ones."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..checks import AreaAbove, LogLoss, clopper_pearson
from ..tasks import Array, Rows, TaskEvent

RISK = 1e-3  # of taking chance for a change
_NORMAL = 3.0902  # what a normal variable exceeds with this risk


def drift_of_share(wrong: NDArray[np.bool_], weight: Array | None, old: TaskEvent) -> float | None:
    """The share of new rows that are wrong, if it is surely larger than it was; else None."""
    share, counted = float(np.average(wrong, weights=weight)), _counted(weight)
    return _if_larger(share, len(wrong) * counted, old.error, old.labels_used * counted)


def drift_of_loss(loss: AreaAbove | LogLoss, rows: Rows, scores: Array, old: TaskEvent) -> float | None:
    """The loss of the scores of new rows, if it is surely larger than it was; else None."""
    new, counted = loss.mean(rows, scores), _counted(rows.weight)
    if isinstance(loss, AreaAbove):
        pairs = min(_independent(rows, side) for side in (rows.y > 0.0, rows.y <= 0.0))  # of the rarer class
        return _if_larger(new, pairs, old.error, old.labels_used / len(rows) * pairs)
    each = np.logaddexp(0.0, -rows.y * scores)
    spread = math.sqrt(float(np.average(np.square(each - new), weights=rows.weight)) / counted)
    doubt = _NORMAL * spread * (1.0 / math.sqrt(len(rows)) + 1.0 / math.sqrt(old.labels_used))
    return new if new - doubt > old.error else None


def _independent(rows: Rows, side: NDArray[np.bool_]) -> float:
    return int(side.sum()) * _counted(None if rows.weight is None or not side.any() else rows.weight[side])


def _counted(weight: Array | None) -> float:
    """The independent rows that a weighted one counts for, in the mean (Kish 1965)."""
    return 1.0 if weight is None else float(weight.sum() ** 2 / (weight**2).sum() / len(weight))


def _if_larger(new: float, n: float, before: float, n_before: float) -> float | None:
    if math.isnan(before):
        return None
    surely, at_most = clopper_pearson(new * n, n, RISK)[0], clopper_pearson(before * n_before, n_before, RISK)[1]
    return new if surely > at_most else None
