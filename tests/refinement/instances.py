"""Feature sets with a character of their own, and hypothesis strategies that draw them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st


def gaussian(rng, n, d):
    return rng.standard_normal((n, d))


def unit(rng, n, d):
    W = rng.standard_normal((n, d))
    return W / np.linalg.norm(W, axis=1, keepdims=True)


def low_rank_plus_noise(rng, n, d, rank=2, noise=1e-2):
    return rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal((n, d))


def orthonormal(rng, n, d):
    return np.linalg.qr(rng.standard_normal((max(n, d), min(n, d))))[0].T


def simplex(rng, n, d):
    """The r + 1 vertices of a regular simplex in r dimensions, centred, in a random orientation."""
    r = min(n - 1, d)
    vertices = np.eye(r + 1) - 1.0 / (r + 1)
    coordinates = np.linalg.svd(vertices)[0][:, :r] * np.linalg.svd(vertices)[1][:r]
    return coordinates @ np.linalg.qr(rng.standard_normal((d, r)))[0].T


def rank_deficient(rng, n, d):
    """Duplicated, opposite, zero and scaled rows."""
    W = rng.standard_normal((max(n - 3, 2), d))
    return np.vstack([W, W[0], -W[1], np.zeros(d), 3.0 * W[0]])


def whole_numbers(rng, n, d):
    return rng.integers(-2, 3, (n, d)).astype(float)


KINDS = {
    kind.__name__: kind
    for kind in (gaussian, unit, low_rank_plus_noise, orthonormal, simplex, rank_deficient, whole_numbers)
}


@st.composite
def problems(draw, max_n=14, max_d=10):
    """(W, k) with W of any kind and 1 <= k <= n; k may reach the rank and beyond."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    n, d = draw(st.integers(2, max_n)), draw(st.integers(2, max_d))
    seed = draw(st.integers(0, 2**32 - 1))
    W = KINDS[kind](np.random.default_rng(seed), n, d)
    return W, draw(st.integers(1, max(1, min(W.shape))))
