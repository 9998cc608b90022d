"""One classifier over several classes at once, its strength chosen on rows set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tasks import Array

_INVERSE_STRENGTHS = (0.1, 1.0, 100.0, 1e4)


@dataclass(frozen=True, slots=True)
class MultinomialFit:
    """Scores X @ coef.T + intercept, a column a class, and the error estimated on rows set aside."""

    coef: Array
    intercept: Array
    error: float


def fit_multinomial(X: Array, codes: NDArray[np.intp], weight: Array, seed: int) -> MultinomialFit:
    """Multinomial logistic regression (scikit-learn's) over the classes 0, 1, ... of ``codes``, all of them present.

    Every fifth row of a class is set aside to choose the strength by its log-loss; the answer is fitted on all.
    """
    count = int(codes.max()) + 1
    if count == 1 or not X.shape[1]:
        share = np.bincount(codes, weights=weight, minlength=count) / weight.sum()
        return MultinomialFit(np.zeros((count, X.shape[1])), np.log(share), 1.0 - float(share.max()))
    mean = np.average(X, axis=0, weights=weight)
    scale = float(np.sqrt(np.average(np.square(X - mean).mean(axis=1), weights=weight))) or 1.0
    Z = (X - mean) / scale
    aside = _every_fifth(codes, seed)
    best_loss, best, error = np.inf, 1.0, 1.0
    for strength in _INVERSE_STRENGTHS if aside.any() else ():
        coef, intercept = _solve(Z[~aside], codes[~aside], weight[~aside], strength)
        scores = Z[aside] @ coef.T + intercept
        scores -= np.logaddexp.reduce(scores, axis=1, keepdims=True)
        loss = -float(np.average(scores[np.arange(len(scores)), codes[aside]], weights=weight[aside]))
        if loss < best_loss:
            wrong = scores.argmax(axis=1) != codes[aside]
            best_loss, best, error = loss, strength, float(np.average(wrong, weights=weight[aside]))
    coef, intercept = _solve(Z, codes, weight, best)
    coef = coef / scale
    return MultinomialFit(coef, intercept - coef @ mean, error)


def _every_fifth(codes: NDArray[np.intp], seed: int) -> NDArray[np.bool_]:
    order = np.random.default_rng(seed).permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    starts = np.searchsorted(codes[order], codes[order])
    aside = np.zeros(len(codes), dtype=bool)
    aside[order[(np.arange(len(codes)) - starts) % 5 == 4]] = True
    return aside


def _solve(Z: Array, codes: NDArray[np.intp], weight: Array, inverse_strength: float) -> tuple[Array, Array]:
    from sklearn.linear_model import LogisticRegression

    model: Any = LogisticRegression(C=inverse_strength, solver="newton-cholesky", tol=1e-6)
    model.fit(Z, codes, sample_weight=weight)
    if len(model.coef_) > 1:
        return model.coef_, model.intercept_
    return np.vstack([-model.coef_, model.coef_]) / 2.0, np.array([-1.0, 1.0]) * model.intercept_ / 2.0
