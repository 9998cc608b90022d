"""The rivals of Table 1 on regression streams, where they are defined: how many labels they need for every task.

They see all tasks at once, with equally many labels each. Labels are found by search: the fewest with which no task's
error is above epsilon. Nobody tells a learner when to stop in life, so this is to the rivals' advantage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..scenarios import LinearStream
from ..tasks import Array
from ..threads import one_thread

STEP = 1.03  # the search ends where the fewest labels are known to within this factor
MOST = 10_000_000


@one_thread
def all_at_once(X: Array, y: Array, k: int, steps: int = 500) -> Array:
    """Least squares of m tasks on k shared directions, fitted together (Du et al. 2020).

    The smallest sum of squares of y_t - X_t B c_t over B (d, k) and c_t, by L-BFGS from the main directions of the
    means of y x; then every task once more on the span of B.

    Parameters
    ----------
    X : array of shape (m, n, d)
        Every task's rows.
    y : array of shape (m, n)
        Their numbers.
    k : int
        Shared directions.
    steps : int
        Limit on L-BFGS steps.

    Returns
    -------
    array of shape (m, d)
        Every task's direction.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.experiments.rivals import all_at_once
    >>> from everspan.scenarios import LinearStream
    >>> stream = LinearStream(d=20, k=2, tasks=30, rows=8, kind="regression", seed=0)
    >>> X, y = np.array([task.X for task in stream]), np.array([task.y for task in stream])
    >>> bool(np.abs(all_at_once(X, y, k=2) - stream.targets).max() < 1e-3)  # 8 rows a task, 20 columns
    True
    """
    m, n, d = X.shape
    means = np.einsum("mn,mnd->md", y, X) / n
    _, _, right = np.linalg.svd(means, full_matrices=False)
    start = np.linalg.qr(np.column_stack([right[:k].T, np.eye(d)[:, : max(k - m, 0)]]))[0][:, :k]

    def loss(flat: Array) -> tuple[float, Array]:
        B, C = flat[: d * k].reshape(d, k), flat[d * k :].reshape(m, k)
        rest = np.matmul(X, (C @ B.T)[:, :, None])[:, :, 0] - y
        pulled = np.matmul(rest[:, None, :], X)[:, 0] / n
        slopes = np.concatenate([(pulled.T @ C).ravel(), (pulled @ B).ravel()])
        return 0.5 * float(np.vdot(rest, rest)) / n, slopes

    first = np.concatenate([start.ravel(), (means @ start).ravel()])
    options: dict[str, Any] = {"maxiter": steps, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
    basis = np.linalg.qr(found[: d * k].reshape(d, k))[0]
    return np.array(
        [basis @ np.linalg.lstsq(rows @ basis, labels, rcond=None)[0] for rows, labels in zip(X, y, strict=True)]
    )


def method_of_moments(X: Array, y: Array, k: int) -> Array:
    """Every task on the k main directions of the mean of y^2 x x' (Tripuraneni et al. 2020).

    For Gaussian x and y = a . x it is E[y^2 x x'] = |a|^2 I + 2 a a', so that the main directions span the a's. Labels
    of two signs have y^2 = 1, and nothing of them can be seen.

    Parameters and result as for `all_at_once`.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.experiments.rivals import method_of_moments
    >>> from everspan.scenarios import LinearStream
    >>> stream = LinearStream(d=20, k=2, tasks=30, rows=1000, kind="regression", seed=0)
    >>> X, y = np.array([task.X for task in stream]), np.array([task.y for task in stream])
    >>> bool(np.square(method_of_moments(X, y, k=2) - stream.targets).sum(axis=1).max() < 0.1)
    True
    """
    return _on_moments([_Moments.of(rows, labels) for rows, labels in zip(X, y, strict=True)], k)


class _Moments:
    """What least squares and the method of moments need of a task's rows: small, however many rows there are."""

    def __init__(self, squares: Array, products: Array, weighted: Array) -> None:
        self.squares, self.products, self.weighted = squares, products, weighted

    @classmethod
    def of(cls, X: Array, y: Array) -> _Moments:
        scaled = X * y[:, None]
        return cls(X.T @ X, X.T @ y, scaled.T @ scaled)


def _on_moments(tasks: list[_Moments], k: int) -> Array:
    total = np.sum([task.weighted for task in tasks], axis=0)
    basis = np.linalg.eigh(total)[1][:, -k:]
    fits = [np.linalg.lstsq(basis.T @ task.squares @ basis, basis.T @ task.products, rcond=None)[0] for task in tasks]
    return np.asarray(np.array(fits) @ basis.T)


def _moments(stream: LinearStream, n: int) -> list[_Moments]:
    return [_Moments.of(*stream.source(i).draw(n)) for i in range(len(stream))]


def _rows(stream: LinearStream, n: int) -> tuple[Array, Array]:
    drawn = [stream.source(i).draw(n) for i in range(len(stream))]
    return np.array([X for X, _ in drawn]), np.array([y for _, y in drawn])


def _alone(stream: LinearStream, n: int) -> Array:
    return np.array([np.linalg.lstsq(*stream.source(i).draw(n), rcond=None)[0] for i in range(len(stream))])


RIVALS: dict[str, Callable[[LinearStream, int, int], Array]] = {
    "all at once (Du et al.)": lambda stream, n, k: all_at_once(*_rows(stream, n), k),
    "moments (Tripuraneni et al.)": lambda stream, n, k: _on_moments(_moments(stream, n), k),
    "every task by itself": lambda stream, n, k: _alone(stream, n),
}


@one_thread
def labels_needed(name: str, stream: LinearStream, k: int, epsilon: float) -> int | None:
    """The fewest labels in all, equally many a task, with which this rival has every task within epsilon.

    None where ten million are too few.
    """

    def enough(n: int) -> bool:
        return bool(np.square(RIVALS[name](stream, n, k) - stream.targets).sum(axis=1).max() <= epsilon)

    too_few, n = 1, max(k, 2)
    while not enough(n):
        too_few, n = n, 2 * n
        if n * len(stream) > MOST:
            return None
    while n > too_few + 1 and n > STEP * too_few:
        middle = round((n * too_few) ** 0.5)
        middle = min(max(middle, too_few + 1), n - 1)
        too_few, n = (too_few, middle) if enough(middle) else (middle, n)
    return n * len(stream)
