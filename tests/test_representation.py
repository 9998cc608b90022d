"""The representation grows, shrinks and counts as it should, and never changes under one's hands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan.representation import LinearRepresentation, SubspaceRefiner


def grown(features, errors=None, labels=None):
    representation = LinearRepresentation.empty(np.zeros(features.shape[1]))
    for i, feature in enumerate(features):
        representation = representation.with_feature(
            feature, 0.1 if errors is None else errors[i], 100.0 if labels is None else labels[i]
        )
    return representation


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), d=st.integers(2, 12), rank=st.integers(1, 8))
def test_the_basis_is_orthonormal_spans_the_features_and_keeps_its_first_columns(seed, n, d, rank):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d))
    before = grown(features[:-1])
    after = before.with_feature(features[-1], 0.1, 10.0)
    np.testing.assert_allclose(after.basis.T @ after.basis, np.eye(after.dimension), atol=1e-10)
    inside = after.features @ after.basis @ after.basis.T
    np.testing.assert_allclose(inside, after.features, atol=1e-8)
    assert (after.basis[:, : before.dimension] == before.basis).all()
    assert after.dimension <= min(n, d, rank)
    assert len(before.features) == n - 1, "nothing changed under our hands"


def test_a_feature_that_leaves_takes_its_direction_along():
    representation = grown(np.eye(4)[:3]).without_feature(1)
    np.testing.assert_allclose(representation.features, np.eye(4)[[0, 2]])
    np.testing.assert_allclose(np.abs(representation.basis), np.eye(4)[:, [0, 2]])


@pytest.mark.parametrize("k", [1, 2, 5, 10])
@pytest.mark.parametrize("error", [1e-6, 0.02, 0.3])
def test_the_apparent_dimension_is_that_of_planted_features(k, error):
    right = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n, d = 8 * k, 100
        shared = rng.standard_normal((n, k)) @ np.linalg.qr(rng.standard_normal((d, k)))[0].T
        noise = rng.standard_normal((n, d))
        features = shared / np.linalg.norm(shared, axis=1, keepdims=True)
        features = features + error * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        right += grown(features, np.full(n, error)).apparent_dimension() == k
    assert right >= 9


def test_a_feature_from_few_labels_does_not_draw_accurate_ones_away():
    """Five accurate features of five dimensions, then one that is mostly noise."""
    rng = np.random.default_rng(0)
    accurate = np.linalg.qr(rng.standard_normal((60, 5)))[0].T
    noise = rng.standard_normal(60)
    bad = accurate[0] + noise / np.linalg.norm(noise)
    W = np.vstack([accurate, bad])

    def lost(refined):
        outside = accurate - accurate @ refined.basis @ refined.basis.T
        return np.linalg.norm(outside, axis=1).max()

    aware = grown(W, [0.02] * 5 + [0.7], [5000.0] * 5 + [50.0])
    unaware = grown(W, [0.1] * 6)
    assert lost(aware.refined(SubspaceRefiner(), 5, 0.01)[0]) < 0.03
    assert lost(unaware.refined(SubspaceRefiner(), 5, 0.01)[0]) > 0.2


def test_accuracies_are_shared_by_features_of_about_as_many_labels():
    representation = grown(np.eye(6), [0.2, 0.3, 0.01, 0.03, 0.02, 0.5], [100.0, 150.0, 5000.0, 6000.0, 5000.0, 6000.0])
    np.testing.assert_allclose(representation.accuracies(), [0.25, 0.25, 0.025, 0.025, 0.025, 0.5])
    assert representation.outclasses(1.0)
    assert not representation.outclasses(0.9)
    assert not LinearRepresentation.empty(np.zeros(3)).outclasses(1.0)
