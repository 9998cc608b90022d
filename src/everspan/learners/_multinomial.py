"""One classifier over several classes at once, alone or together with the directions it stands on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..tasks import Array

Codes = NDArray[np.intp]
_INVERSE_STRENGTHS = (0.1, 1.0, 100.0, 1e4)
_ANCHORS = (1.0, 30.0)
_PENALTY = 0.1


@dataclass(frozen=True, slots=True)
class MultinomialFit:
    """Scores X @ basis @ coef.T + intercept, a column a class, and the error estimated on rows set aside."""

    basis: Array
    coef: Array
    intercept: Array
    error: float


def fit_multinomial(X: Array, codes: Codes, weight: Array, basis: Array, aside: NDArray[np.bool_]) -> MultinomialFit:
    """Multinomial logistic regression over the classes 0, 1, ... of ``codes`` on the directions of ``basis``.

    Two things are chosen by the log-loss on the rows set aside: the strength of the penalty, and whether the directions
    move with the classifier, held near where they were by an anchor, or stay. Directions learned for pairs of classes
    know less than all classes together: moving k of them fits the right model, a matrix of rank k. The answer is fitted
    on all rows.
    """
    count = int(codes.max()) + 1
    if count == 1 or not basis.shape[1]:
        share = np.bincount(codes, weights=weight, minlength=count) / weight.sum()
        return MultinomialFit(basis, np.zeros((count, basis.shape[1])), np.log(share), 1.0 - float(share.max()))
    weight = weight / weight.mean()
    if not aside.any() or len(np.unique(codes[~aside])) < count:  # too few rows to set some aside
        coef, intercept = _classifier(X @ basis, codes, weight, 1.0)
        wrong = _scores(X @ basis, coef, intercept).argmax(axis=1) != codes
        return MultinomialFit(basis, coef, intercept, float(np.average(wrong, weights=weight)))
    seen = X[~aside], codes[~aside], weight[~aside]
    strengths: tuple[float, ...] = _INVERSE_STRENGTHS
    best: tuple[float, float, float, float | None] = (np.inf, 1.0, 1.0, None)
    for anchor in (None, *_ANCHORS):  # the strength is chosen for the directions as they are
        Z = X @ _moved(*seen, basis, anchor)
        for strength in strengths:
            scores = _scores(Z[aside], *_classifier(Z[~aside], *seen[1:], strength))
            loss = -float(np.average(scores[np.arange(len(scores)), codes[aside]], weights=weight[aside]))
            if loss < best[0]:
                wrong = float(np.average(scores.argmax(axis=1) != codes[aside], weights=weight[aside]))
                best = (loss, wrong, strength, anchor)
        strengths = (best[2],)
    _, error, strength, chosen = best
    basis = _moved(X, codes, weight, basis, chosen)
    coef, intercept = _classifier(X @ basis, codes, weight, strength)
    return MultinomialFit(basis, coef, intercept, error)


def _scores(Z: Array, coef: Array, intercept: Array) -> Array:
    """Log-probabilities."""
    scores = Z @ coef.T + intercept
    normalised: Array = scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
    return normalised


def _classifier(Z: Array, codes: Codes, weight: Array, inverse_strength: float) -> tuple[Array, Array]:
    """The classifier on fixed directions, a row of coefficients a class."""
    from sklearn.linear_model import LogisticRegression

    mean = np.average(Z, axis=0, weights=weight)
    scale = float(np.sqrt(np.average(np.square(Z - mean).mean(axis=1), weights=weight))) or 1.0
    model: Any = LogisticRegression(C=inverse_strength, solver="newton-cholesky", tol=1e-6)
    model.fit((Z - mean) / scale, codes, sample_weight=weight)
    coef, intercept = model.coef_ / scale, model.intercept_
    if len(coef) == 1:
        coef, intercept = np.vstack([-coef, coef]) / 2.0, np.array([-1.0, 1.0]) * intercept / 2.0
    return coef, intercept - coef @ mean


def _moved(X: Array, codes: Codes, weight: Array, basis: Array, anchor: float | None) -> Array:
    """Orthonormal directions fitted together with a classifier on them, near the basis by the anchor's strength."""
    if anchor is None:
        return basis
    (n, d), r = X.shape, basis.shape[1]
    coef, intercept = _classifier(X @ basis, codes, weight, 100.0)
    count, rows = len(coef), np.arange(n)

    def loss(flat: Array) -> tuple[float, Array]:
        B, M, b = flat[: d * r].reshape(d, r), flat[d * r : -count].reshape(count, r), flat[-count:]
        Z = X @ B
        scores = _scores(Z, M, b)
        excess = np.exp(scores)
        excess[rows, codes] -= 1.0
        excess *= weight[:, None]
        step = B - basis
        value = -float(weight.dot(scores[rows, codes])) + 0.5 * _PENALTY * float(np.sum(M * M))
        to_B = X.T @ (excess @ M) + anchor * step
        to_M = excess.T @ Z + _PENALTY * M
        gradient = np.concatenate([to_B.ravel(), to_M.ravel(), excess.sum(axis=0)])
        return value + 0.5 * anchor * float(np.sum(step * step)), gradient

    start = np.concatenate([basis.ravel(), coef.ravel(), intercept])
    solution = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    moved: Array = np.linalg.qr(solution[: d * r].reshape(d, r))[0]
    return moved
