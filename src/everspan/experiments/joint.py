"""Joint training: all tasks at once, offline, one shared representation of rank k (the paper's ceiling)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..threads import one_thread

Array = NDArray[np.float64]
_PENALTY = 0.1


@one_thread
def joint_training(X: Array, y: Array, k: int, start: Array | None = None, steps: int = 60) -> tuple[Array, Array]:
    """Logistic regression of m tasks on k shared directions, all fitted together by L-BFGS.

    Parameters
    ----------
    X : array of shape (m, n, d)
        The rows of every task.
    y : array of shape (m, n)
        Their labels, -1 or 1.
    k : int
        The number of shared directions.
    start : array of shape (d, k), optional
        Directions to start from, those of fewer tasks for example. None: the main directions of the means of y x.
    steps : int
        Limit on L-BFGS steps.

    Returns
    -------
    basis : array of shape (d, k)
        Orthonormal columns that span the shared directions.
    targets : array of shape (m, d)
        Every task's direction.
    """
    m, n, d = X.shape
    k = min(k, d)
    rows, signs = X.astype(np.float32), y.astype(np.float32)  # to read the rows is most of the work
    means = _summed(signs, rows) / n
    basis = start
    if basis is None:
        _, _, right = np.linalg.svd(means, full_matrices=False)
        basis = right[:k].T
        if basis.shape[1] < k:  # fewer tasks than directions: any others will do, the penalty keeps them at zero
            basis = np.linalg.qr(np.column_stack([basis, np.eye(d)[:, : k - basis.shape[1]]]))[0]

    def loss(flat: Array) -> tuple[float, Array]:
        B, C = flat[: d * k].reshape(d, k), flat[d * k :].reshape(m, k)
        margins = (rows @ (C @ B.T)[:, :, None].astype(np.float32))[:, :, 0] * signs
        far = np.exp(-np.abs(margins))
        pulled = _summed(-signs * np.where(margins > 0.0, far, 1.0) / (1.0 + far), rows)  # slopes in the directions
        to_B, to_C = pulled.T @ C + _PENALTY * B, pulled @ B + _PENALTY * C
        losses = np.sum(np.log1p(far) - np.minimum(margins, 0.0), dtype=np.float64)
        value = losses + 0.5 * _PENALTY * flat.dot(flat)
        return float(value), np.concatenate([to_B.ravel(), to_C.ravel()])

    first = np.concatenate([basis.ravel(), (2.0 * means @ basis).ravel()])
    options: dict[str, Any] = {"maxiter": steps, "maxcor": 20}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
    B, C = found[: d * k].reshape(d, k), found[d * k :].reshape(m, k)
    return np.linalg.qr(B)[0], C @ B.T


def _summed(weights: NDArray[np.float32], rows: NDArray[np.float32]) -> Array:
    """Every task's weighted sum of its rows."""
    sums: Array = (weights[:, None, :] @ rows)[:, 0].astype(np.float64)
    return sums
