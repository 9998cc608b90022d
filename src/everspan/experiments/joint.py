"""Joint training: all tasks at once, offline, one shared representation of rank k (the paper's ceiling)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from ..threads import one_thread

Array = NDArray[np.float64]
_PENALTY = 0.1


@one_thread()
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
    rows, k = X.reshape(m * n, d), min(k, d)
    means = np.einsum("mn,mnd->md", y, X) / n
    basis = start
    if basis is None:
        _, _, right = np.linalg.svd(means, full_matrices=False)
        basis = right[:k].T
        if basis.shape[1] < k:  # fewer tasks than directions: any others will do, the penalty keeps them at zero
            basis = np.linalg.qr(np.column_stack([basis, np.eye(d)[:, : k - basis.shape[1]]]))[0]

    def loss(flat: Array) -> tuple[float, Array]:
        B, C = flat[: d * k].reshape(d, k), flat[d * k :].reshape(m, k)
        Z = (rows @ B).reshape(m, n, k)
        margins = np.einsum("mnk,mk->mn", Z, C) * y
        pull = -y * expit(-margins)
        to_C = np.einsum("mn,mnk->mk", pull, Z) + _PENALTY * C
        to_B = rows.T @ (pull[:, :, None] * C[:, None, :]).reshape(m * n, k) + _PENALTY * B
        value = np.logaddexp(0.0, -margins).sum() + 0.5 * _PENALTY * (np.sum(B * B) + np.sum(C * C))
        return float(value), np.concatenate([to_B.ravel(), to_C.ravel()])

    first = np.concatenate([basis.ravel(), (2.0 * means @ basis).ravel()])
    options: dict[str, Any] = {"maxiter": steps, "maxcor": 20}
    found = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
    B, C = found[: d * k].reshape(d, k), found[d * k :].reshape(m, k)
    return np.linalg.qr(B)[0], C @ B.T
