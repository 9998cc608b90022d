"""The Bayes point machine: the mean of all halfspaces that explain the labels, by expectation propagation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import log_ndtr

from ..tasks import Array, Rows
from ._base import Design, Fit, best_strength, design

_VARIANCES = (0.01, 0.1, 1.0, 10.0, 100.0, 1e4)
_PROBIT_TO_LOGIT = 1.702  # the logistic function is a normal distribution function of this slope to within 0.01
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_NO_NOISE = 0.3  # log-loss a row, on rows left out
_PRECISION = 3e-3  # of the log-loss, where the sites have come to stand still
_DAMPING = 0.7  # for sites that swing between two states, as those of nearly separable rows may


@dataclass(frozen=True)
class BayesPoint:
    """The Bayes point machine (Herbrich, Graepel and Campbell 2001) by expectation propagation (Minka 2001).

    The rows are centred and scaled to unit mean square. The prior variance is the one of ``variances`` with the
    least log-loss on rows left out, which expectation propagation knows by construction; the largest variance is the
    machine without label noise.

    Parameters
    ----------
    variances : tuple of float
        Prior variances to choose from, ascending.
    fit_intercept, balanced : bool
        As for `Logistic`.
    """

    variances: tuple[float, ...] = _VARIANCES
    fit_intercept: bool = True
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        inputs = design(rows, self.fit_intercept, self.balanced)
        margins = inputs.matrix * rows.y[:, None]

        def solve(variance: float, start: _Posterior | None) -> tuple[float, _Posterior]:
            posterior = _propagate(margins, inputs, variance, start)
            losses = -log_ndtr(posterior.unseen)
            loss = np.add.reduce(losses) if inputs.weight is None else inputs.weight.dot(losses)
            return float(loss), posterior

        def noisy(loss: float, posterior: _Posterior) -> int:
            return -1 if loss > _NO_NOISE * inputs.count else 0  # rows left out are explained: no noise to look for

        posterior = best_strength(self.variances, len(self.variances) - 1, solve, noisy, _PRECISION)
        slope = _PROBIT_TO_LOGIT / math.sqrt(1.0 + posterior.spread)
        return inputs.fit(slope * posterior.mean, _PROBIT_TO_LOGIT * posterior.unseen * rows.y)


@dataclass(frozen=True, slots=True)
class _Posterior:
    variance: float  # of the prior
    mean: Array
    spread: float  # mean variance of a row's score
    unseen: Array  # margin of every row by the posterior without it, in its own standard deviations
    precision: Array  # of the sites
    shift: Array


def _propagate(margins: Array, inputs: Design, variance: float, start: _Posterior | None) -> _Posterior:
    """Update all sites at once until they stand still; damped from when they first come no nearer to that."""
    n, columns = margins.shape
    weight, unit = inputs.weight, inputs.unit
    precision, shift = np.full(n, 0.02 / variance), np.full(n, 0.2 / math.sqrt(variance))
    if start is not None:  # where the rows are explained, sites scale with the prior
        ratio = start.variance / variance
        precision, shift = ratio * start.precision, math.sqrt(ratio) * start.shift
    change, step = math.inf, 1.0
    for _ in range(200):
        sites = precision if weight is None else weight * precision
        shifts = shift if weight is None else weight * shift
        scaled = margins * np.sqrt(sites)[:, None]
        total = scaled.T.dot(scaled)
        total.flat[:: columns + 1] += 1.0 / variance
        factor, _ = lapack.dpotrf(total, lower=1)
        inverse, _ = lapack.dtrtri(factor, lower=1)
        half = blas.dtrmm(1.0, inverse, margins.T, lower=1)  # faster than to solve
        spread = np.einsum("ij,ij->j", half, half)
        location = half.dot(shifts)
        mean = location.dot(half)
        own = precision if unit is None else unit * precision
        own_shift = shift if unit is None else unit * shift
        left = np.maximum(1.0 - own * spread, 1e-6)
        cavity_variance, cavity_mean = spread / left, (mean - spread * own_shift) / left
        deviation = np.sqrt(1.0 + cavity_variance)
        unseen = cavity_mean / deviation
        if change < 1e-2:
            break
        slope = np.exp(-0.5 * unseen * unseen - _HALF_LOG_TWO_PI - log_ndtr(unseen)) / deviation
        curvature = slope * (unseen / deviation + slope)
        remaining = np.maximum(1.0 - cavity_variance * curvature, 1e-12)
        new_precision = np.maximum(curvature / remaining, 0.0)
        new_shift = (slope + cavity_mean * curvature) / remaining
        before = change
        change = max(_relative(new_precision, precision, weight), _relative(new_shift, shift, weight))
        if change > before:
            step = _DAMPING
        precision = precision + step * (new_precision - precision)
        shift = shift + step * (new_shift - shift)
    solution = blas.dtrmv(inverse, location, lower=1, trans=1)
    average = float(spread.mean() if weight is None else weight.dot(spread) / weight.sum())
    return _Posterior(variance, solution, average, unseen, precision, shift)


def _relative(new: Array, old: Array, weight: Array | None) -> float:
    """The largest change beside the largest value, of rows that count."""
    if weight is not None:
        new, old = new[weight > 0.0], old[weight > 0.0]
    return float(np.abs(new - old).max() / (np.abs(new).max() or 1.0))
