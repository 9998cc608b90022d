"""The geometry of the lower bound (Section 4): features whose errors all point along one hidden coordinate.

The truth is U = span(e_1, ..., e_k); feature i was learned as (e_i, epsilon_i), its whole error along e_{k+1}. V, the
span of these, is a hyperplane of R^{k+1} with the normal (-epsilon_1, ..., -epsilon_k, 1), and so both angles below are
exact.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..learners import BayesPoint, Fit, Learner
from ..tasks import Array, Rows


def hidden_features(errors: Array) -> Array:
    """The features (e_i, epsilon_i) as rows, each of length one.

    Examples
    --------
    >>> from everspan.theory import hidden_features
    >>> hidden_features([0.0, 0.75])
    array([[1. , 0. , 0. ],
           [0. , 0.8, 0.6]])
    """
    given = _errors(errors)
    rows = np.column_stack([np.eye(len(given)), given])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def hidden_angle(errors: Array) -> float:
    """The angle of the true to the learned subspace (Lemma 7): the arc tangent of sqrt(sum epsilon_i^2).

    Examples
    --------
    >>> from everspan.theory import hidden_angle
    >>> hidden_angle([0.3, 0.4])
    0.4636476090008061
    """
    return math.atan(float(np.linalg.norm(_errors(errors))))


def hidden_task_angle(errors: Array, task: Array) -> float:
    """The angle of a task of the true subspace to the learned one (Lemma 8).

    Its sine is |sum epsilon_i x_i| / (|x| sqrt(1 + sum epsilon_i^2)).

    Examples
    --------
    >>> from everspan.theory import hidden_task_angle
    >>> round(hidden_task_angle([0.1, 0.1, 0.1, 0.1], [1, 1, 1, 1]), 4)  # all errors add up
    0.1974
    >>> hidden_task_angle([0.1, 0.1], [1, -1])  # and here they cancel: why not combinations of +1 and -1
    0.0
    """
    given, x = _errors(errors), np.asarray(task, dtype=float)
    if x.shape != given.shape or not np.linalg.norm(x) > 0.0:
        raise ValueError(f"a task must be {len(given)} numbers that are not all zero")
    sine = abs(float(given @ x)) / (np.linalg.norm(x) * math.sqrt(1.0 + float(given @ given)))
    return math.asin(min(float(sine), 1.0))


def trimmed(errors: Array, p: float = 1.0 / 3.0, C: float = math.sqrt(2.0)) -> NDArray[np.int64]:
    """Positions of a set without outliers (Lemma 9): what is above gamma times the root mean square goes, repeatedly.

    Where every error is at least the root mean square over C, at least a share 1 - p stays, and every error that stays
    is at most gamma = sqrt(log(C^2 / (1 - p)) / p) times the root mean square of those that do.

    Examples
    --------
    >>> from everspan.theory import trimmed
    >>> trimmed([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 9.0])
    array([0, 1, 2, 3, 4, 5, 6, 7])
    """
    given = _errors(errors)
    if not 0.0 < p < 1.0 or not C > 1.0:
        raise ValueError(f"p must lie between 0 and 1 and C be above 1, but they are {p} and {C}")
    gamma = math.sqrt(math.log(C * C / (1.0 - p)) / p)
    kept = np.arange(len(given), dtype=np.int64)
    while True:
        stays = given[kept] <= gamma * math.sqrt(float(np.mean(given[kept] ** 2))) * (1.0 + 1e-12)
        if stays.all():
            return kept
        kept = kept[stays]


def _errors(errors: Array) -> Array:
    given = np.asarray(errors, dtype=float)
    if given.ndim != 1 or not len(given) or not np.isfinite(given).all() or (given < 0.0).any():
        raise ValueError("errors must be one or more numbers that are zero or more")
    return given


class HiddenCoordinate:
    """A learner that is as accurate as it must be, and puts its whole error on one hidden coordinate (Section 4).

    In the unmodified loop it stands for the worst black box that the theorem allows: it is told the truth of the task
    at hand, and answers a task sum x_i e_i on the inputs with (x, sum epsilon_i x_i). Rows in the coordinates of a
    representation, where there is no hidden coordinate, it leaves to an honest learner.

    Parameters
    ----------
    errors : array of shape (k,)
        The tangents epsilon_i of the angles at which e_1, ..., e_k are missed.
    honest : Learner, optional
        Who fits tasks on features; a Bayes point machine if not given.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.tasks import Rows
    >>> from everspan.theory import HiddenCoordinate
    >>> learner = HiddenCoordinate([0.75, 0.0])
    >>> learner.truth = np.array([1.0, 0.0, 0.0])
    >>> learner.fit(Rows(np.eye(3), np.array([1.0, -1.0, -1.0]))).coef
    array([0.8, 0. , 0.6])
    """

    def __init__(self, errors: Array, honest: Learner | None = None) -> None:
        self.errors, self.honest = _errors(errors), honest or BayesPoint()
        self.truth: Array = np.zeros(0)
        self.answers = 0

    def fit(self, rows: Rows) -> Fit:
        if rows.X.shape[1] != len(self.truth):
            return self.honest.fit(rows)
        self.answers += 1
        k = len(self.errors)
        answer = self.truth.astype(float)
        answer[k] += float(self.errors @ answer[:k])
        return Fit(answer / np.linalg.norm(answer), 0.0)
