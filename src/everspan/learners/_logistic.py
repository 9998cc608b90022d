"""Logistic regression by Newton steps, its strength chosen by the loss on rows left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.special import expit

from ..tasks import Array, Rows
from ._base import Design, Fit, best_strength, design

_STRENGTHS = (100.0, 3.0, 0.1, 1e-3)
_START = 2
_MANY = 40  # rows a column from which the strength hardly matters, and a quarter of them can choose it
_FLYING_OFF = 30.0**2  # no honest step moves log-odds by so much, in mean square
_BLOCK = 1 << 15  # rows of the Hessian summed at once, so that a million rows need no second copy of themselves


@dataclass(frozen=True)
class Logistic:
    """Logistic regression with a ridge penalty on the direction.

    The rows are centred and scaled to unit mean square first. The strength is the one of ``strengths`` with the least
    log-loss on rows left out, which one more Newton step per row estimates without refitting.

    Parameters
    ----------
    strengths : tuple of float
        Penalties to choose from, strongest first (1 / C in scikit-learn's words).
    fit_intercept : bool
    balanced : bool
        Let both classes count the same.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.learners import Logistic
    >>> from everspan.tasks import Rows
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> fit = Logistic().fit(Rows(X, np.sign(X[:, 0])))
    >>> bool(fit.coef[0] > 20 * abs(fit.coef[1:]).max())
    True
    """

    strengths: tuple[float, ...] = _STRENGTHS
    fit_intercept: bool = True
    balanced: bool = False

    def fit(self, rows: Rows) -> Fit:
        inputs = design(rows, self.fit_intercept, self.balanced)
        best = self._search(inputs.matrix * rows.y[:, None], inputs)
        return inputs.fit(best.solution, best.unseen * rows.y)

    def _search(self, margins: Array, inputs: Design) -> _Solution:
        """The best strength's solution; of many rows, a quarter finds the strength and where to start."""

        def solve(strength: float, nearby: _Solution | None) -> tuple[float, _Solution]:
            solution = newton(margins, inputs, strength, _start(margins, inputs, strength, nearby))
            unseen, weaker = _left_out(margins, inputs, strength, solution)
            losses = np.logaddexp(0.0, -unseen)
            loss = np.add.reduce(losses) if inputs.weight is None else inputs.weight.dot(losses)
            return float(loss), _Solution(strength, solution, unseen, weaker)

        if inputs.count < _MANY * margins.shape[1]:
            start = min(_START, len(self.strengths) - 1)
            return best_strength(self.strengths, start, solve, lambda _, found: 1 if found.weaker else -1)
        rough = self._search(margins[::4], inputs.every(4))
        return solve(0.1 * rough.strength, rough)[1]  # more rows want less of it


@dataclass(frozen=True, slots=True)
class _Solution:
    strength: float
    solution: Array
    unseen: Array
    weaker: bool  # whether a weaker penalty would lower the loss on rows left out


def _start(margins: Array, inputs: Design, strength: float, nearby: _Solution | None) -> Array:
    """Where the first step starts: separable rows want long directions, and Newton lengthens them only slowly."""
    if nearby is None:
        even = np.full(len(margins), 0.5)
        hessian = _hessian(margins, even, inputs.weight, inputs.penalty(strength))
        return 3.0 * _solve(hessian, (even if inputs.weight is None else 0.5 * inputs.weight).dot(margins))
    counted = margins if inputs.weight is None else margins[inputs.weight > 0.0]
    if counted.dot(nearby.solution).min() > 0.0:
        return nearby.solution * (2.5 if strength < nearby.strength else 0.5)
    return nearby.solution


def newton(
    margins: Array, inputs: Design, strength: float, start: Array, tol: float = 0.02, guarded: bool = False
) -> Array:
    """Minimise the penalised loss by Newton steps, until one moves the margins by no more than tol (root mean square).

    The last step was then right to about tol squared, far below what the labels tell. Full steps nearly always
    converge; where one flies off, all is done again with steps that are guarded: halved until they lower the loss.
    """
    weight, penalty = inputs.weight, inputs.penalty(strength)
    solution, scores = start, margins.dot(start)
    missing, work = np.empty(len(scores)), np.empty(len(scores))
    enough = tol * tol * inputs.count
    for _ in range(200 if guarded else 25):
        expit(np.negative(scores, out=work), out=missing)
        pull = missing if weight is None else weight * missing
        gradient = penalty * solution - pull.dot(margins)
        step = _solve(_hessian(margins, missing, weight, penalty, work), gradient)
        moved = margins.dot(step)
        length = moved.dot(moved) if weight is None else moved.dot(weight * moved)
        if guarded:
            value = _objective(scores, solution, weight, penalty)
            while length > enough and not _objective(scores - moved, solution - step, weight, penalty) <= value:
                step, moved, length = 0.5 * step, 0.5 * moved, 0.25 * length
        elif not length < _FLYING_OFF * inputs.count:
            break
        solution, scores = solution - step, scores - moved
        if length <= enough:
            return solution
    return solution if guarded else newton(margins, inputs, strength, np.zeros_like(start), tol, guarded=True)


def _left_out(margins: Array, inputs: Design, strength: float, solution: Array) -> tuple[Array, bool]:
    """The margin of every row after one Newton step without it, and whether a weaker penalty would better them."""
    scores, penalty = margins.dot(solution), inputs.penalty(strength)
    missing = expit(-scores)
    reach = margins.dot(_inverse(_hessian(margins, missing, inputs.weight, penalty)))
    leverage = np.add.reduce(reach * margins, 1)
    if inputs.unit is not None:
        leverage = leverage * inputs.unit
    curvature = np.minimum(missing * (1.0 - missing) * leverage, 0.999)
    unseen: Array = scores - missing * leverage / (1.0 - curvature)
    pull = expit(-unseen) if inputs.weight is None else inputs.weight * expit(-unseen)
    gain = pull.dot(reach.dot(penalty * solution))  # the path moves the solution by H^-1 (penalty solution)
    enough = inputs.count >= 5 * margins.shape[1]  # with fewer, the rows' own pull changes too
    return unseen, enough and bool(gain > 0.0)


def _objective(scores: Array, solution: Array, weight: Array | None, penalty: Array) -> float:
    losses = np.logaddexp(0.0, -scores)
    loss = np.add.reduce(losses) if weight is None else weight.dot(losses)
    return float(loss + 0.5 * (penalty * solution).dot(solution))


def _hessian(margins: Array, missing: Array, weight: Array | None, penalty: Array, work: Array | None = None) -> Array:
    root = np.subtract(1.0, missing, out=work)
    root *= missing
    if weight is not None:
        root *= weight
    np.sqrt(root, out=root)
    rows = margins[:_BLOCK] * root[:_BLOCK, None]
    hessian: Array = rows.T.dot(rows)
    for first in range(_BLOCK, len(margins), _BLOCK):
        rows = margins[first : first + _BLOCK] * root[first : first + _BLOCK, None]
        hessian += rows.T.dot(rows)
    hessian.ravel()[:: len(hessian) + 1] += penalty
    return hessian


def _factor(matrix: Array) -> Array:
    factor, info = lapack.dpotrf(matrix, lower=1)
    if info:  # all rows are certain: the constant has no curvature left
        jitter = 1e-10 * max(float(np.trace(matrix)), 1e-300)
        factor, _ = lapack.dpotrf(matrix + jitter * np.eye(len(matrix)), lower=1)
    cholesky: Array = factor
    return cholesky


def _solve(matrix: Array, vector: Array) -> Array:
    _, solution, info = lapack.dposv(matrix, vector, lower=1)
    if info:
        solution = lapack.dpotrs(_factor(matrix), vector, lower=1)[0]
    found: Array = solution
    return found


def _inverse(matrix: Array) -> Array:
    lower = lapack.dpotri(_factor(matrix), lower=1)[0]  # its upper half is zero: the factor came clean
    inverse: Array = lower + lower.T
    inverse.ravel()[:: len(inverse) + 1] *= 0.5
    return inverse
