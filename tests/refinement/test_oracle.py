"""The optimum against an independent solver (cvxpy with Clarabel), on the program as the paper states it."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from everspan.refinement import refine, refine_gram

from .instances import KINDS


def oracle(W, k):
    """The full d x d program (2.2), by a general interior point."""
    d = W.shape[1]
    X, t = cp.Variable((d, d), PSD=True), cp.Variable()
    constraints = [np.eye(d) - X >> 0, cp.trace(X) == d - k, cp.sum(cp.multiply(W @ X, W), axis=1) <= t]
    problem = cp.Problem(cp.Minimize(t), constraints)
    problem.solve(solver=cp.CLARABEL)  # at its default tolerances, 1e-8; it cannot go below on these
    return max(float(t.value), 0.0)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize(("n", "d", "k"), [(4, 6, 1), (6, 6, 3), (12, 8, 2), (14, 5, 4), (9, 12, 5)])
def test_the_optimum_agrees_with_a_general_solver(kind, n, d, k):
    W = KINDS[kind](np.random.default_rng(n * d + k), n, d)
    expected, largest = oracle(W, k), float((W**2).sum(axis=1).max())
    refinement = refine(W, k)
    assert refinement.sdp_value**2 == pytest.approx(expected, abs=1e-6 * largest)
    assert refinement.lower_bound**2 <= expected + 1e-7 * largest
    assert refine_gram(W @ W.T, k).sdp_value ** 2 == pytest.approx(expected, abs=1e-6 * largest)


@pytest.mark.parametrize(("r", "k"), [(2, 1), (6, 2), (12, 5), (8, 7)])
def test_orthonormal_features_have_a_known_optimum(r, k):
    """By symmetry Y = (1 - k/r) I: every feature is at squared distance 1 - k/r."""
    refinement = refine(np.eye(r), k, tol=1e-9)
    assert refinement.sdp_value**2 == pytest.approx(1 - k / r, abs=1e-9)
    assert refinement.lower_bound**2 <= 1 - k / r


@pytest.mark.parametrize(("n", "k"), [(3, 1), (5, 2), (9, 4)])
def test_a_simplex_has_a_known_optimum(n, k):
    """N vertices of a centred simplex span r = n - 1 dimensions; by symmetry the optimum is |w|^2 (1 - k/r)."""
    W = KINDS["simplex"](np.random.default_rng(0), n, n)
    expected = float((W**2).sum(axis=1)[0]) * (1 - k / (n - 1))
    refinement = refine(W, k, tol=1e-9)  # of |w|^2, which is at most twice what is expected here
    assert refinement.sdp_value**2 == pytest.approx(expected, rel=1e-8)
    assert refinement.lower_bound**2 <= expected


def test_orthonormal_features_show_what_the_roundings_are_for():
    """With r = 12, k = 5 the paper's 9 dimensions leave 1.309 of the optimum, an extreme point less than all of it."""
    paper, extreme = refine(np.eye(12), 5, rounding="paper"), refine(np.eye(12), 5, rounding="extreme")
    assert paper.dimension == 9
    assert paper.max_distance / paper.sdp_value == pytest.approx(np.sqrt(12 / 7), abs=1e-6)
    assert extreme.dimension <= 8
    assert extreme.max_distance <= extreme.sdp_value * (1 + 1e-6)
    tie = refine(np.eye(10), 5)  # every basis vector left out is at exactly sqrt(2) of the optimum
    assert tie.dimension == 5
    assert tie.max_distance / tie.sdp_value <= np.sqrt(2) * (1 + 1e-8)
