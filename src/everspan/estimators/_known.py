"""What the rows of a task say about its weights, by their summary alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..prior import Prior, Summary
from ..tasks import Array

_STRENGTHS: Array = np.logspace(-4.0, 3.0, 29)  # of the draw to zero, as a share of the rows


class Evidence(NamedTuple):
    """How well a summary is explained by weights that are drawn to zero, and how strongly they had best be."""

    value: float
    """Minus twice the log-likelihood of the rows, the weights averaged out; what all bases share is left out."""
    prior: Prior


def evidence(summary: Summary, constant: bool, regression: bool) -> Evidence:
    """Of the strength that explains the rows best, or of the strongest that does so about as well."""
    gram, moment, square, count = summary.parts()
    count = max(count, 1e-300)
    squares = np.diag(gram) / count
    squares = np.where(squares > 0.0, squares, 1.0)
    if constant:
        squares[-1] *= 1e-6  # it is hardly drawn at all
    root = 1.0 / np.sqrt(squares)
    values, vectors = np.linalg.eigh(gram * np.outer(root, root))
    values, along = np.maximum(values, 0.0), np.square(vectors.T.dot(root * moment))
    strengths = count * _STRENGTHS
    explained = np.add.reduce(along / (values + strengths[:, None]), 1)
    left = np.maximum(square - explained, max(1e-9 * square, 1e-300))
    misfit = count * np.log(left / count) if regression else -explained
    found = misfit + np.add.reduce(np.log1p(values / strengths[:, None]), 1)
    best = int(np.flatnonzero(found <= found.min() + 0.1)[-1])
    noise = float(left[best]) / count if regression else 1.0
    return Evidence(float(found[best]), Prior(np.zeros(len(moment)), np.diag(strengths[best] / noise * squares), noise))


def known_signs(summary: Summary, weights: Array, few: bool) -> Prior:
    """What the rows of a halfspace say about its weights, which are these by now, next to nothing else.

    Where they are ``few`` for the weights, what they do not tell stays about as it is: each column's weight may be off
    by log-odds of about one.
    """
    gram, _, _, count = summary.parts()
    if few:
        squares = np.diag(gram) / max(count, 1e-300)
        return Prior(weights, np.diag(np.where(squares > 0.0, squares, 1.0))).after(summary)
    squares = np.diag(gram)
    return Prior(weights, gram + np.diag(np.where(squares > 0.0, 1e-6 * squares, 1e-12)))
