"""More rows for a task that is known: where its predictor stands, and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..checks import Assessment
from ..prior import Prior, Summary
from ..tasks import Array
from ._predictors import Kept


@dataclass(frozen=True)
class Standing:
    """What a predictor may weigh, and what its rows so far say about the weights.

    Its ``directions`` are features, all columns (None), or its own alone.
    """

    directions: Array | None
    known: Prior
    summary: Summary

    def coordinates(self, lifted: Array) -> Array:
        """What the weights weigh, of lifted rows."""
        if self.directions is None:
            return lifted
        Z: Array = lifted[:, : len(self.directions)].dot(self.directions)
        return Z


class Updated(NamedTuple):
    """A predictor after more rows, its error on them left out, and the scores it gave them before."""

    kept: Kept
    assessment: Assessment
    before: Array


def known_of(summary: Summary, weights: Array, regression: bool) -> Prior:
    """What a task's own rows say about its weights, next to nothing else."""
    gram, moment, square, count = summary.parts()
    noise = 1.0
    if regression:
        left = max(square - 2.0 * weights.dot(moment) + weights.dot(gram).dot(weights), 1e-9 * square, 1e-300)
        noise = left / max(count - len(weights), 1.0)
    precision = gram / noise
    floor = 1e-6 * float(np.trace(precision)) / max(len(gram), 1) + 1e-12
    return Prior(weights, precision + floor * np.eye(len(gram)), noise)


def weakly_known(summary: Summary, weights: Array, regression: bool) -> Prior:
    """The same where rows are few for the weights: what they do not tell stays about as it is.

    Each column's weight may be off by log-odds of about one, or in a regression by what a tenth of a row cannot tell.
    """
    gram, moment, square, count = summary.parts()
    squares = np.diag(gram) / max(count, 1e-300)
    weak = np.diag(np.where(squares > 0.0, 0.1 * squares if regression else squares, 1.0))
    noise = 1.0
    if regression:
        inverse = np.linalg.inv(gram + weak)
        solution = inverse.dot(moment + weak.dot(weights))
        left = max(square - 2.0 * solution.dot(moment) + solution.dot(gram).dot(solution), 1e-12 * square, 1e-300)
        noise = left / max(count - float(np.vdot(inverse, gram)), 1e-3 * count, 1e-300)
    return Prior(weights, weak / noise, noise).after(summary)
