"""The lower bound against fifty digits: it must never be above the truth, however hard the numbers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan.refinement import refine, refine_gram

from .instances import low_rank_plus_noise


def exact_dual_value_of_gram(G, weights, k):
    """The certificate's own claim in 50 digits: all but the k largest eigenvalues of diag(sqrt p) G diag(sqrt p)."""
    with mpmath.workdps(50):
        total = mpmath.fsum(mpmath.mpf(float(w)) for w in weights)
        roots = [mpmath.sqrt(mpmath.mpf(float(w)) / total) for w in weights]
        scaled = mpmath.matrix(
            [[roots[i] * roots[j] * mpmath.mpf(float(G[i, j])) for j in range(len(G))] for i in range(len(G))]
        )
        eigenvalues = sorted(mpmath.eigsy(scaled, eigvals_only=True))
        return mpmath.sqrt(max(mpmath.fsum(eigenvalues[: len(G) - k]), 0))


def exact_dual_value(W, weights, k):
    """The same from the features themselves."""
    with mpmath.workdps(50):
        p = [mpmath.mpf(float(w)) for w in weights]
        rows = mpmath.matrix(
            [[mpmath.sqrt(pi / mpmath.fsum(p)) * mpmath.mpf(float(x)) for x in w] for pi, w in zip(p, W, strict=True)]
        )
        eigenvalues = sorted(mpmath.eigsy(rows * rows.T, eigvals_only=True))
        return mpmath.sqrt(max(mpmath.fsum(eigenvalues[: len(W) - k]), 0))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.sampled_from([1.0, 1e-3, 1e-6, 1e-7, 1e-9, 1e-12, 1e-15]), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_the_lower_bound_is_never_above_the_truth(noise, k, seed):
    W = low_rank_plus_noise(np.random.default_rng(seed), 6, 8, rank=k, noise=noise)
    refinement = refine(W, k)
    assert mpmath.mpf(refinement.lower_bound) <= exact_dual_value(W, refinement.weights, k)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.sampled_from([1.0, 1e-4, 1e-7, 1e-9]), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_the_bound_from_inner_products_is_never_above_the_truth(noise, k, seed):
    W = low_rank_plus_noise(np.random.default_rng(seed), 6, 8, rank=k, noise=noise)
    G = W @ W.T
    G = 0.5 * (G + G.T)
    refinement = refine_gram(G, k)
    assert mpmath.mpf(refinement.lower_bound) <= exact_dual_value_of_gram(G, refinement.weights, k)


def test_squares_would_have_overstated_it():
    """Why singular values: eigenvalues of the product are off by more than the bound is worth at noise 1e-9."""
    W = low_rank_plus_noise(np.random.default_rng(0), 8, 10, rank=2, noise=1e-9)
    refinement = refine(W, 2)
    truth = float(exact_dual_value(W, refinement.weights, 2))
    assert refinement.lower_bound == pytest.approx(truth, rel=1e-3)
    product = np.linalg.eigvalsh((W.T * refinement.weights) @ W)[: W.shape[1] - 2].sum()
    assert abs(product - truth**2) > truth**2
