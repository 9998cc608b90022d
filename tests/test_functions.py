"""Functions of ReLU units: their inner products, growing, pruning, and refinement without coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad

from everspan.functions import Frugal, ReLU, relu_products
from everspan.learners import NetworkFit, TwoLayer, activations
from everspan.representation import LinearRepresentation, SubspaceRefiner
from everspan.tasks import Rows
from everspan.theory import principal_angles


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.2, np.pi / 2, 2.5, np.pi])
def test_inner_products_of_units_are_those_of_quadrature(angle):
    u, v = np.array([2.0, 0.0]), 0.5 * np.array([np.cos(angle), np.sin(angle)])
    products, means = relu_products(np.array([u, v]))

    def density(r, t):
        x = r * np.array([np.cos(t), np.sin(t)])
        return max(u @ x, 0.0) * max(v @ x, 0.0) * np.exp(-r * r / 2.0) / (2.0 * np.pi) * r

    wanted = dblquad(density, -np.pi, np.pi, 0.0, 12.0, epsabs=1e-9)[0]
    assert products[0, 1] == pytest.approx(wanted, abs=1e-6)
    assert means == pytest.approx([2.0 / np.sqrt(2 * np.pi), 0.5 / np.sqrt(2 * np.pi)])


def linear_fit(direction):
    """relu(w x) - relu(-w x) = w x: a network that is the identity behind w."""
    length = np.linalg.norm(direction)
    weights = np.array([direction, -direction]) / length
    return NetworkFit(weights, np.zeros(2), np.array([length, -length]), 0.0, 0.0, 2)


def grown(kind, directions, rows=None):
    representation = kind.empty(np.zeros(directions.shape[1]), centred=True)
    for i, direction in enumerate(directions):
        fit = linear_fit(direction)
        known = representation.units
        whole = NetworkFit(
            np.vstack([representation.weights, fit.weights]),
            np.append(representation.biases, fit.biases),
            np.concatenate([np.zeros(known), fit.coef]),
            0.0,
            0.0,
            2,
        )
        seen = np.zeros((0, directions.shape[1])) if rows is None else rows
        representation = representation.grown(whole, 0.02 + 0.01 * (i % 2), 100.0, Rows(seen, np.zeros(len(seen))))
    return representation


@given(seed=st.integers(0, 200))
@settings(max_examples=15, deadline=None)
def test_with_the_identity_for_a_unit_refinement_is_that_of_the_linear_engine(seed):
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((3, 8))
    directions = rng.standard_normal((7, 3)) @ truth + 0.05 * rng.standard_normal((7, 8))
    functions = grown(ReLU(biases=False, inner_products="gaussian"), directions)
    linear = LinearRepresentation.empty(np.zeros(8))
    for i, direction in enumerate(directions):
        linear = linear.with_feature(direction, 0.02 + 0.01 * (i % 2), 100.0)
    assert functions.dimension == linear.dimension
    refiner = SubspaceRefiner()
    curved, one = functions.refined(refiner, 3, 0.01)
    straight, other = linear.refined(refiner, 3, 0.01)
    assert curved.dimension == straight.dimension
    assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-3, abs=1e-6)
    assert one.max_distance == pytest.approx(other.max_distance, rel=1e-3, abs=1e-6)
    X = rng.standard_normal((200, 8))
    spans = [z - z.mean(axis=0) for z in (curved.transform(X), straight.transform(X))]
    assert principal_angles(spans[0].T, spans[1].T).max() < 0.05
    own = functions.refined(lambda W, k, radii: np.linalg.svd(W, full_matrices=False)[2][:k].T, 3, 0.01)[0]
    assert own.dimension == 3  # a refiner of one's own sees vectors
    with pytest.raises(ValueError, match="orthonormal columns"):
        functions.refined(lambda W, k, radii: np.full((W.shape[1], 1), np.nan), 3, 0.01)


@given(seed=st.integers(0, 200))
@settings(max_examples=15, deadline=None)
def test_the_basis_is_orthonormal_over_the_reference_rows(seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((300, 5)) * rng.uniform(0.3, 2.0, 5)
    representation = grown(ReLU(), rng.standard_normal((4, 5)), rows)
    Z = representation.transform(representation.reference)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(representation.dimension), atol=1e-8)
    refined, _ = representation.refined(SubspaceRefiner(), 2, 0.01)
    Z = refined.transform(refined.reference)
    np.testing.assert_allclose(np.cov(Z.T, bias=True), np.eye(refined.dimension), atol=1e-8)
    assert refined.length(refined.basis[:, 0]) == pytest.approx(1.0)


def test_units_only_join_and_a_function_less_leaves_the_others():
    rng = np.random.default_rng(0)
    directions, rows = rng.standard_normal((3, 4)), rng.standard_normal((200, 4))
    two, three = grown(ReLU(), directions[:2], rows), grown(ReLU(), directions, rows)
    np.testing.assert_array_equal(three.weights[: two.units], two.weights)
    np.testing.assert_array_equal(three.features[:2, : two.units], two.features)
    less = three.without_feature(1)
    assert less.dimension == len(less.features) == 2
    np.testing.assert_array_equal(less.features, three.features[[0, 2]])
    wanted = np.linalg.matrix_rank(np.column_stack([less.transform(rows), rows @ directions[[0, 2]].T]), tol=1e-6)
    assert wanted == 2


@pytest.mark.parametrize("tolerance", [0.01, 0.1, 0.5])
def test_pruning_keeps_the_function_within_its_tolerance(tolerance):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1500, 6))
    y = np.where(np.abs(X[:, 0]) + 0.3 * X[:, 1] > 0.7, 1.0, -1.0)
    network = TwoLayer(units=8)
    whole = network.fit(Rows(X, y))
    fit = Frugal(network, np.zeros((0, 6)), np.zeros(0), tolerance).fit(Rows(X, y))
    difference = fit.scores(X) - whole.scores(X)
    assert np.std(difference) <= 1.01 * tolerance * np.std(whole.scores(X))
    assert abs(difference.mean()) < 1e-8
    assert fit.new == len(fit.coef) <= len(whole.coef)


def test_a_function_of_known_units_needs_no_new_ones():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2000, 5))
    y = np.where(np.abs(X[:, 0]) > 0.7, 1.0, -1.0)
    first = TwoLayer(units=4).fit(Rows(X, y))
    again = Frugal(TwoLayer(units=4), first.weights, first.biases, 0.05).fit(Rows(X, y))
    assert again.new == 0
    np.testing.assert_array_equal(again.weights, first.weights)
    outputs = activations(X, first.weights, first.biases)
    np.testing.assert_allclose(again.scores(X), outputs @ again.coef + again.intercept)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"units": 0}, "at least 1"),
        ({"units": 2.5}, "whole number"),
        ({"starts": True}, "whole number"),
        ({"most": 0}, "at least 1"),
        ({"inner_products": "other"}, "must be 'sample' or 'gaussian'"),
        ({"inner_products": "gaussian"}, "biases=False"),
    ],
)
def test_bad_settings_are_refused(given_, said):
    with pytest.raises(ValueError, match=said):
        ReLU(**given_)
