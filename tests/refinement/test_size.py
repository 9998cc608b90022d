"""Sizes that matter in practice: long features, many features. Times are in benchmarks/; here only that it works."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from everspan.refinement import refine

from .instances import low_rank_plus_noise


def test_long_features_never_make_a_d_by_d_matrix():
    """D = 200,000 with 30 features: well under a GB, where one d x d matrix would take 320."""
    W = low_rank_plus_noise(np.random.default_rng(0), 30, 200_000, rank=4, noise=0.05)
    tracemalloc.start()
    refinement = refine(W, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refinement.basis.shape == (200_000, 4)
    assert refinement.gap <= 1e-8
    assert peak < 0.5e9


def test_many_features_in_few_dimensions():
    """N = 5,000 in r = 10: the working set, checked against all features."""
    W = np.random.default_rng(0).standard_normal((5000, 10)) * np.linspace(1, 0.1, 10)
    refinement = refine(W, 3)
    assert refinement.gap <= 1e-8
    outside = W - (W @ refinement.basis) @ refinement.basis.T
    assert refinement.max_distance == pytest.approx(np.linalg.norm(outside, axis=1).max(), rel=1e-12)


def test_many_dimensions_use_the_low_rank_system():
    """R = 60, n = 200: above the size where the n x r^2 matrix is formed."""
    W = np.random.default_rng(0).standard_normal((200, 60))
    refinement = refine(W, 5)
    assert refinement.gap <= 1e-8
    assert refinement.dimension <= 9
