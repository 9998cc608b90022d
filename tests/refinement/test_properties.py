"""Promises of the engine that hold for every input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from everspan.refinement import RefinementWarning, _interior, _working_set, refine, refine_gram, smallest_dimension
from everspan.refinement._reduction import reduce_rows

from .instances import KINDS, gaussian, low_rank_plus_noise, problems

settings.register_profile("everspan", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("everspan")

TOL = 1e-8


def size(W):
    """The largest feature norm: what distances are compared with."""
    return float(np.linalg.norm(W, axis=1).max())


def span_distance(W, basis):
    return np.linalg.norm(W - (W @ basis) @ basis.T, axis=1)


@given(problems())
def test_primal_and_dual_are_feasible(problem):
    W, k = problem
    C = reduce_rows(W).C if W.any() else np.zeros((len(W), 0))
    assume(k < C.shape[1])
    point = _working_set.solve(C, k, tol=TOL, max_iterations=100)
    eigenvalues = np.linalg.eigvalsh(point.Y)
    assert eigenvalues.min() >= -1e-12
    assert eigenvalues.max() <= 1 + 1e-12
    assert np.trace(point.Y) == pytest.approx(C.shape[1] - k, abs=1e-10)
    assert point.weights.min() >= 0
    assert point.weights.sum() == pytest.approx(1, abs=1e-12)


@given(problems())
def test_the_bound_is_below_the_value_and_the_gap_is_reached(problem):
    W, k = problem
    refinement = refine(W, k)
    assert 0 <= refinement.lower_bound <= refinement.sdp_value
    assert 0 <= refinement.gap <= TOL
    recomputed = (refinement.sdp_value**2 - refinement.lower_bound**2) / max(size(W) ** 2, 1e-300)
    assert refinement.gap == pytest.approx(recomputed, abs=1e-12)


@given(problems())
def test_the_basis_is_orthonormal_and_the_distances_are_true(problem):
    W, k = problem
    for rounding in ("certified", "extreme", "paper"):
        refinement = refine(W, k, rounding=rounding)
        assert refinement.basis.shape == (W.shape[1], refinement.dimension)
        assert np.abs(refinement.basis.T @ refinement.basis - np.eye(refinement.dimension)).max(initial=0) <= 1e-12
        np.testing.assert_allclose(refinement.distances, span_distance(W, refinement.basis), atol=1e-13 * (1 + size(W)))
        assert refinement.max_distance == refinement.distances.max()


@given(problems())
def test_anyone_can_check_the_certificate(problem):
    W, k = problem
    refinement = refine(W, k)
    singular = np.linalg.svd(np.sqrt(refinement.weights)[:, None] * W, compute_uv=False)
    bound = np.sqrt((singular[k:] ** 2).sum())
    assert refinement.lower_bound <= bound * (1 + 1e-12) + 1e-14 * size(W)
    assert refinement.lower_bound == pytest.approx(bound, rel=1e-6, abs=1e-11 * size(W) + 1e-300)


@given(problems(), st.integers(0, 2**32 - 1))
def test_no_subspace_of_dimension_k_beats_the_bound(problem, seed):
    W, k = problem
    bound = refine(W, k).lower_bound
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(len(W)))
    for step in range(40):  # weighted SVDs that learn which features are far away: a search of its own
        basis = np.linalg.svd(np.sqrt(p)[:, None] * W)[2][:k].T
        distances = span_distance(W, basis)
        assert distances.max() >= bound * (1 - 1e-12)
        p = p * np.exp(2.0 / (1 + step) ** 0.5 * (distances / max(distances.max(), 1e-300)) ** 2)
        p /= p.sum()


@given(problems())
def test_certified_is_within_sqrt2_of_the_bound_in_fewer_than_2k_dimensions(problem):
    W, k = problem
    refinement = refine(W, k)
    assert refinement.max_distance <= np.sqrt(2) * refinement.sdp_value * (1 + 1e-8) + 1e-14 * size(W)
    assert refinement.max_distance**2 <= 2 * refinement.lower_bound**2 + 2.1 * TOL * size(W) ** 2
    assert refinement.dimension <= 2 * k - 1
    assert refinement.dimension <= np.linalg.matrix_rank(W)


@given(problems())
def test_extreme_loses_nothing_in_few_dimensions(problem):
    W, k = problem
    refinement = refine(W, k, rounding="extreme")
    assert refinement.max_distance <= refinement.sdp_value * (1 + 1e-6) + 1e-12 * size(W)
    assert refinement.dimension <= k + np.floor(np.sqrt(2 * len(W) + 0.25) - 1.5)


@given(st.integers(1, 5), st.sampled_from([1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12]), st.integers(0, 2**32 - 1))
def test_extreme_loses_nothing_when_there_is_little_to_lose(k, noise, seed):
    """A subspace of 3 dimensions plus noise, refined to fewer, as many and more."""
    W = low_rank_plus_noise(np.random.default_rng(seed), 12, 9, rank=3, noise=noise)
    refinement = refine(W, k, rounding="extreme")
    assert refinement.max_distance <= refinement.sdp_value * (1 + 1e-6) + 1e-12 * size(W)
    assert refinement.dimension <= k + 3


@given(problems(), st.integers(0, 6))
def test_paper_rounding_keeps_theorem_5_for_every_dimension(problem, more):
    W, k = problem
    q = k + more
    refinement = refine(W, k, rounding="paper", dimension=q)
    factor = np.sqrt((q + 1) / (q - k + 1))
    assert refinement.dimension == min(q, np.linalg.matrix_rank(W))
    assert refinement.max_distance <= factor * refinement.sdp_value * (1 + 1e-9) + 1e-13 * size(W)


@given(problems())
def test_paper_rounding_takes_2k_minus_1_dimensions(problem):
    W, k = problem
    rank = np.linalg.matrix_rank(W)
    assert refine(W, k, rounding="paper").dimension == (min(2 * k - 1, rank) if k < rank else rank)


@given(problems(), st.integers(0, 2**32 - 1))
def test_the_optimum_does_not_depend_on_rotation_order_or_sign(problem, seed):
    W, k = problem
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((W.shape[1], W.shape[1])))[0]
    changed = (W * rng.choice([-1.0, 1.0], len(W))[:, None])[rng.permutation(len(W))] @ rotation
    assert refine(changed, k).sdp_value ** 2 == pytest.approx(refine(W, k).sdp_value ** 2, abs=2.1 * TOL * size(W) ** 2)


@given(problems(), st.sampled_from([1e-150, 1e-9, 0.5, 3.0, 1e12, 1e150]))
def test_the_optimum_is_linear_in_scale(problem, scale):
    W, k = problem
    here, there = refine(W, k), refine(scale * W, k)
    assert (there.sdp_value / scale) ** 2 == pytest.approx(here.sdp_value**2, abs=2.1 * TOL * size(W) ** 2)
    assert there.gap <= TOL


@given(problems())
def test_the_optimum_falls_with_k(problem):
    W, _ = problem
    values = [refine(W, k) for k in range(1, min(W.shape) + 1)]
    for smaller, larger in pairwise(values):
        assert larger.lower_bound <= smaller.sdp_value * (1 + 1e-12)


@given(problems(), st.integers(0, 2**32 - 1))
def test_another_feature_never_lowers_the_optimum(problem, seed):
    W, k = problem
    more = np.vstack([W, np.random.default_rng(seed).standard_normal(W.shape[1])])
    assert refine(W, k).lower_bound <= refine(more, k).sdp_value * (1 + 1e-12)


@given(problems())
def test_inner_products_are_enough(problem):
    W, k = problem
    direct, gram = refine(W, k, rounding="extreme"), refine_gram(W @ W.T, k, rounding="extreme")
    assert gram.sdp_value**2 == pytest.approx(direct.sdp_value**2, abs=3 * TOL * size(W) ** 2)
    assert gram.lower_bound <= direct.sdp_value * (1 + 1e-9)
    basis = W.T @ gram.combination
    assert np.abs(basis.T @ basis - np.eye(gram.dimension)).max(initial=0) <= 1e-8
    np.testing.assert_allclose(gram.distances, span_distance(W, np.linalg.qr(basis)[0]), atol=1e-6 * size(W))


@given(problems())
def test_svd_is_the_top_singular_subspace_with_an_honest_certificate(problem):
    W, k = problem
    plain = refine(W, k, method="svd")
    top = np.linalg.svd(W)[2][: plain.dimension].T
    rank = np.linalg.matrix_rank(W)
    assert plain.dimension == min(k, rank)
    singular = np.linalg.svd(W, compute_uv=False)
    if k >= rank or singular[k - 1] - singular[k] > 1e-6 * singular[0]:  # otherwise the subspace is not unique
        np.testing.assert_allclose(plain.distances, span_distance(W, top), atol=1e-7 * (1 + size(W)))
    assert plain.lower_bound <= refine(W, k).sdp_value * (1 + 1e-12)
    assert plain.sdp_value == plain.max_distance


@given(problems(), st.integers(0, 2**32 - 1))
def test_radii_are_a_change_of_units_of_each_feature(problem, seed):
    W, k = problem
    radii = 10.0 ** np.random.default_rng(seed).uniform(-1, 1, len(W))
    given_radii, scaled = refine(W, k, radii=radii), refine(W / radii[:, None], k)
    assert given_radii.lower_bound == pytest.approx(scaled.lower_bound, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(
        given_radii.distances, span_distance(W, given_radii.basis) / radii, atol=1e-11 * (1 + size(W / radii[:, None]))
    )


@given(st.integers(1, 4), st.sampled_from([1e-6, 1e-7, 1e-8, 1e-9]), st.integers(0, 2**32 - 1))
def test_near_zero_optima_keep_their_relative_accuracy(k, noise, seed):
    """A subspace plus tiny noise: the answer is about the noise, not about rounding errors."""
    rng = np.random.default_rng(seed)
    W = low_rank_plus_noise(rng, 12, 30, rank=k, noise=noise)
    refinement = refine(W, k)
    assert refinement.dimension == k
    assert 0.3 * noise < refinement.lower_bound <= refinement.sdp_value
    assert refinement.sdp_value <= refinement.lower_bound * (1 + 1e-3)
    assert refinement.max_distance <= np.sqrt(2) * refinement.lower_bound * (1 + 1e-3)


@given(problems(), st.sampled_from([0.0, 1e-17]))
def test_an_optimum_of_zero_is_found(problem, noise):
    """Features that span k dimensions, exactly or up to rounding."""
    W, k = problem
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((len(W), k)) @ rng.standard_normal((k, W.shape[1] + k))
    refinement = refine(flat + noise * rng.standard_normal(flat.shape), k)
    assert refinement.dimension == np.linalg.matrix_rank(flat)
    assert refinement.lower_bound == 0
    assert refinement.max_distance <= 1e-12 * size(flat)


@given(problems(), st.floats(0.05, 1.5))
def test_the_smallest_dimension_is_bounded_from_both_sides(problem, fraction):
    W, _ = problem
    assume(W.any())
    radius = fraction * size(W)
    bounds = smallest_dimension(W, radius)
    assert 0 <= bounds.lower <= bounds.upper <= np.linalg.matrix_rank(W)
    assert bounds.basis.shape == (W.shape[1], bounds.upper)
    assert bounds.max_distance <= radius * (1 + 1e-12)
    np.testing.assert_allclose(bounds.max_distance, span_distance(W, bounds.basis).max(), atol=1e-12 * size(W))
    if bounds.lower > 1:  # one dimension less is proved to be too few
        assert refine(W, bounds.lower - 1).sdp_value > radius * (1 - 1e-9)


@given(problems(), st.floats(0.01, 1.0))
def test_a_radius_that_is_good_enough_saves_dimensions(problem, fraction):
    W, k = problem
    plain, relaxed = refine(W, k), refine(W, k, radius=fraction * size(W) + 1e-12)
    assert relaxed.dimension <= plain.dimension
    limit = np.sqrt(2) * max(relaxed.sdp_value, fraction * size(W) + 1e-12)
    assert relaxed.max_distance <= limit * (1 + 1e-8)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_working_set_gives_the_optimum_over_all_features(kind):
    rng = np.random.default_rng(3)
    few = KINDS[kind](rng, 40, 6)
    W = np.vstack([few, 0.3 * gaussian(rng, 900, few.shape[1])])
    C = reduce_rows(W).C
    k = 2
    part = _working_set.solve(C, k, tol=TOL, max_iterations=100)
    whole = _interior.solve(C, k, tol=TOL, max_iterations=100)
    value = [float(np.einsum("ij,ij->i", C @ Y, C).max()) for Y in (part.Y, whole.Y)]
    assert value[0] == pytest.approx(value[1], abs=2.1 * TOL * size(W) ** 2)


def test_stopping_early_still_gives_a_valid_certificate():
    W = gaussian(np.random.default_rng(0), 12, 9)
    best = refine(W, 3)
    with pytest.warns(RefinementWarning, match="its certificate is valid"):
        early = refine(W, 3, max_iterations=2)
    assert early.gap > TOL
    assert refine(W, 3, method="svd").lower_bound <= early.lower_bound <= best.sdp_value
    assert early.sdp_value >= best.lower_bound
    assert early.max_distance <= np.sqrt(2) * early.sdp_value * (1 + 1e-9)


@pytest.mark.parametrize("good", [0, 3])
def test_a_failing_factorisation_still_gives_a_valid_certificate(good, monkeypatch):
    """What happens when double precision runs out, at once or on the way."""
    W = gaussian(np.random.default_rng(0), 12, 9)
    best, calls, factor = refine(W, 3), [], _interior._cholesky

    def fail_after_some(H):
        calls.append(1)
        if len(calls) > good:
            raise _interior.NumericalTrouble
        return factor(H)

    monkeypatch.setattr(_interior, "_cholesky", fail_after_some)
    with pytest.warns(RefinementWarning):
        stopped = refine(W, 3)
    assert stopped.iterations == good
    assert 0 < stopped.lower_bound <= best.sdp_value
    assert stopped.sdp_value >= best.lower_bound
    assert stopped.gap == pytest.approx((stopped.sdp_value**2 - stopped.lower_bound**2) / size(W) ** 2)


def test_the_same_input_gives_the_same_bits():
    W = gaussian(np.random.default_rng(1), 20, 15)
    first, second = refine(W, 4), refine(W.copy(), 4)
    assert first.basis.tobytes() == second.basis.tobytes()
    assert first.weights.tobytes() == second.weights.tobytes()
