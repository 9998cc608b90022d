"""Where a task's rows lie: means that are told from zero."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..tasks import Array


def distinct_mean(X: Array, weight: Array | None = None) -> Array | None:
    """The mean of centred rows, or None where it is zero as far as one can tell."""
    if weight is None:
        n, sums, squares = float(len(X)), np.ones(len(X)).dot(X), X.ravel().dot(X.ravel())
    else:
        n, sums, squares = float(np.add.reduce(weight)), weight.dot(X), weight.dot(np.einsum("ij,ij->i", X, X))
    means, distinct = distinct_means(sums[None], np.array([squares]), n)
    return means[0] if distinct[0] else None


def distinct_means(sums: Array, squares: Array, n: float) -> tuple[Array, NDArray[np.bool_]]:
    """The means of centred rows of tasks of one size, from sums and sums of squares, and which are not zero."""
    means = sums / n
    lengths = np.matmul(means[:, None, :], means[:, :, None])[:, 0, 0]
    variances = squares / n - lengths
    # Of rows around zero n |mean|^2 / variance is about one, up to sqrt(2 / d); with the origin's noise about two.
    return means, lengths * n > 2.0 * variances * (1.0 + 5.0 * math.sqrt(2.0 / sums.shape[1]))
