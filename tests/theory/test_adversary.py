"""The lemmas of the lower bound against measured angles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan.theory import hidden_angle, hidden_features, hidden_task_angle, subspace_angle, trimmed

errors = st.lists(st.floats(0.0, 0.5), min_size=1, max_size=12)


@given(errors)
def test_lemma_7_is_the_angle_of_the_subspaces(values):
    k = len(values)
    U, V = np.eye(k, k + 1), hidden_features(values)
    assert hidden_angle(values) == pytest.approx(subspace_angle(U, V), abs=1e-6)


@given(errors, st.integers(0, 10_000))
def test_lemma_8_is_the_angle_of_a_task(values, seed):
    task = np.random.default_rng(seed).normal(size=len(values))
    V = hidden_features(values)
    assert hidden_task_angle(values, task) == pytest.approx(subspace_angle([[*task, 0.0]], V), abs=1e-6)
    assert hidden_task_angle(values, task) <= hidden_angle(values) + 1e-12


def test_a_task_along_the_errors_is_the_worst():
    values = [0.1, 0.05, 0.2]
    assert hidden_task_angle(values, values) == pytest.approx(hidden_angle(values))


@pytest.mark.parametrize("k", [16, 64, 256])
def test_lemma_8_holds_with_high_probability_for_zeros_and_ones_and_not_for_signs(k):
    """At equal errors, tasks of 0 and 1 are at an angle of the order sqrt k epsilon; tasks of +1 and -1 are not."""
    rng, values = np.random.default_rng(0), np.full(k, 0.5 / math.sqrt(k))
    least = np.linalg.norm(values) / 16.0
    bits = rng.integers(0, 2, (300, k))
    bits[bits.sum(axis=1) == 0, 0] = 1
    far = np.mean([hidden_task_angle(values, task) >= least for task in bits])
    assert far >= 1.0 - math.exp(-k / 128.0)
    signs = [hidden_task_angle(values, task) for task in rng.choice([-1.0, 1.0], (300, k))]
    assert np.median(signs) < 0.35 * np.median([hidden_task_angle(values, task) for task in bits])


def test_learning_such_a_task_does_not_help():
    """What the adversary answers for a new task is in the span of what it has answered before."""
    values, task = np.array([0.1, 0.2, 0.15]), np.array([1.0, 0.0, 1.0])
    answer = np.append(task, values @ task)
    assert subspace_angle([answer], hidden_features(values)) == pytest.approx(0.0, abs=1e-7)


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=40))
def test_lemma_9_trims_to_a_set_without_outliers(values):
    given_errors = np.array(values)
    C = max(1.01, math.sqrt(np.mean(given_errors**2)) / given_errors.min())
    kept = trimmed(given_errors, p=1.0 / 3.0, C=C)
    gamma = math.sqrt(3.0 * math.log(1.5 * C * C))
    assert len(kept) >= len(values) * (2.0 / 3.0) - 1e-9
    assert given_errors[kept].max() <= gamma * math.sqrt(np.mean(given_errors[kept] ** 2)) * (1 + 1e-9)


def test_bad_errors_are_refused():
    for bad in ([], [-0.1], [math.nan], [[0.1]]):
        with pytest.raises(ValueError, match="errors must be"):
            hidden_angle(bad)
    with pytest.raises(ValueError, match="a task must be 2 numbers"):
        hidden_task_angle([0.1, 0.1], [0.0, 0.0])
    with pytest.raises(ValueError, match="p must lie"):
        trimmed([0.1], p=1.0)
