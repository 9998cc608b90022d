"""The Bayes point machine: the mean of all halfspaces that explain the labels, by expectation propagation."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.special import log_ndtr

from ..tasks import Array, Rows
from ._base import Design, Fit, best_strength, design

_VARIANCES = (0.01, 0.1, 1.0, 10.0, 100.0, 1e4)
_PROBIT_TO_LOGIT = 1.702  # the logistic function is a normal distribution function of this slope to within 0.01
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_NO_NOISE = 0.3  # log-loss a row, on rows left out
_DAMPING = 0.7  # undamped, the sites of nearly separable rows swing between two states


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

        posterior = best_strength(self.variances, len(self.variances) - 1, solve, noisy)
        slope = _PROBIT_TO_LOGIT / math.sqrt(1.0 + posterior.spread)
        return inputs.fit(slope * posterior.mean, _PROBIT_TO_LOGIT * posterior.unseen * rows.y)


@dataclass(frozen=True, slots=True)
class _Posterior:
    mean: Array
    spread: float  # mean variance of a row's score
    unseen: Array  # margin of every row by the posterior without it, in its own standard deviations
    precision: Array  # of the sites
    shift: Array


def _propagate(margins: Array, inputs: Design, variance: float, start: _Posterior | None) -> _Posterior:
    """Update all sites at once, damped, until they stand still."""
    n, columns = margins.shape
    weight, unit = inputs.weight, inputs.unit
    prior = np.full(columns, 1.0 / variance)
    precision = np.full(n, 0.01 / variance) if start is None else start.precision
    shift = np.zeros(n) if start is None else start.shift
    change = math.inf
    for _ in range(200):
        sites = precision if weight is None else weight * precision
        shifts = shift if weight is None else weight * shift
        scaled = margins * np.sqrt(sites)[:, None]
        total = scaled.T.dot(scaled)
        total[np.diag_indices(columns)] += prior
        factor, _ = lapack.dpotrf(total, lower=1)
        half, _ = lapack.dtrtrs(factor, margins.T, lower=1)
        spread = np.einsum("ij,ij->j", half, half)
        location = half.dot(shifts)
        mean = location.dot(half)
        own = precision if unit is None else unit * precision
        own_shift = shift if unit is None else unit * shift
        left = np.maximum(1.0 - own * spread, 1e-6)
        cavity_variance, cavity_mean = spread / left, (mean - spread * own_shift) / left
        deviation = np.sqrt(1.0 + cavity_variance)
        unseen = cavity_mean / deviation
        if change < 3e-3:
            break
        slope = np.exp(-0.5 * unseen * unseen - _HALF_LOG_TWO_PI - log_ndtr(unseen)) / deviation
        curvature = slope * (unseen / deviation + slope)
        remaining = np.maximum(1.0 - cavity_variance * curvature, 1e-12)
        new_precision = np.maximum(curvature / remaining, 0.0)
        new_shift = (slope + cavity_mean * curvature) / remaining
        change = max(_relative(new_precision, precision, weight), _relative(new_shift, shift, weight))
        precision = precision + _DAMPING * (new_precision - precision)
        shift = shift + _DAMPING * (new_shift - shift)
    solution, _ = lapack.dtrtrs(factor, location, lower=1, trans=1)
    average = float(spread.mean() if weight is None else weight.dot(spread) / weight.sum())
    return _Posterior(solution, average, unseen, precision, shift)


def _relative(new: Array, old: Array, weight: Array | None) -> float:
    """The largest change beside the largest value, of rows that count."""
    if weight is not None:
        new, old = new[weight > 0.0], old[weight > 0.0]
    return float(np.abs(new - old).max() / (np.abs(new).max() or 1.0))
