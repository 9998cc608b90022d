"""Angles of subspaces and separated sequences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from everspan.theory import effective_dimension, principal_angles, separated, subspace_angle


@given(st.integers(1, 5), st.integers(1, 5), st.integers(5, 9), st.integers(0, 10_000))
def test_angles_are_those_of_scipy(p, q, d, seed):
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(p, d)), rng.normal(size=(q, d))
    np.testing.assert_allclose(
        principal_angles(U, V), subspace_angles(U.T, V.T), atol=1e-7
    )  # ours is nearer where they are small


@pytest.mark.parametrize("angle", [1e-9, 1e-5, 0.3, 1.2, np.pi / 2])
def test_small_and_large_angles_are_exact(angle):
    tilted = [[1.0, 0.0, 0.0], [0.0, np.cos(angle), np.sin(angle)]]
    found = principal_angles([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]], tilted)
    np.testing.assert_allclose(found, [angle, 0.0], rtol=1e-6, atol=1e-15)


def test_dependent_vectors_span_no_more():
    assert principal_angles([[1.0, 0, 0], [2.0, 0, 0]], [[0.0, 1, 0], [0, 2.0, 0]]).shape == (1,)


def test_the_angle_of_a_subspace_to_a_smaller_one_is_right():
    assert subspace_angle(np.eye(3), np.eye(3)[:2]) == pytest.approx(np.pi / 2)
    assert subspace_angle(np.eye(3)[:2], np.eye(3)) == pytest.approx(0.0, abs=1e-12)


def by_definition(A, gamma):
    """Is every vector at an angle of at least gamma to the span of those before it?"""
    for j in range(1, len(A)):
        basis = np.linalg.qr(A[:j].T)[0]
        rest = A[j] - basis @ (basis.T @ A[j])
        if np.arcsin(min(np.linalg.norm(rest) / np.linalg.norm(A[j]), 1.0)) < gamma:
            return False
    return True


@given(st.integers(1, 6), st.integers(1, 4), st.floats(0.05, 1.2), st.integers(0, 10_000))
def test_the_effective_dimension_is_the_largest_separated_subsequence(n, d, gamma, seed):
    A = np.random.default_rng(seed).normal(size=(n, d))
    largest = max(
        size
        for size in range(1, n + 1)
        for chosen in itertools.combinations(range(n), size)
        if size <= d and by_definition(A[list(chosen)], gamma)
    )
    assert effective_dimension(A, gamma) == largest
    taken = separated(A, gamma)
    assert taken[0] == 0
    assert by_definition(A[taken], gamma - 1e-9)
    assert len(taken) <= largest


def test_at_no_separation_it_is_the_rank():
    A = np.random.default_rng(0).normal(size=(40, 3)) @ np.random.default_rng(1).normal(size=(3, 10))
    assert effective_dimension(A, 0.0) == 3


def test_bad_vectors_are_refused():
    with pytest.raises(ValueError, match="have no angle"):
        principal_angles([[1.0, 0.0]], [[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="must be finite"):
        principal_angles([[1.0, np.nan]], [[1.0, 0.0]])
    with pytest.raises(ValueError, match="an angle from 0"):
        separated([[1.0, 0.0]], 2.0)
