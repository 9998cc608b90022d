"""The theorems where they apply: labels on demand, acceptance by the bound, over twenty seeds."""

from __future__ import annotations

import numpy as np
import pytest

from everspan import LifelongClassifier, LifelongRegressor
from everspan.scenarios import LinearStream
from everspan.theory import most_features

SEEDS = range(20)
KINDS = {"classification": LifelongClassifier, "regression": LifelongRegressor}
EPSILON = {"classification": 0.2, "regression": 0.1}  # benchmarks/theorems.py has 0.1 for both


def learned(kind, k, seed, tasks=20, **parameters):
    """A stream in an order of its own, every task learned from labels on demand."""
    stream = LinearStream(d=100, k=k, tasks=tasks, kind=kind, seed=seed)
    model = KINDS[kind](EPSILON[kind], accept="bound", fit_intercept=False, **parameters)
    for i in np.random.default_rng(seed).permutation(tasks).tolist():
        model.learn_task(stream.source(i), task=i)
    return stream, model


def true_errors(stream, model):
    """The error of every task on fresh data, exactly: an angle over pi, or a squared distance."""
    probe = np.eye(100)
    errors = {}
    for i in model.tasks_:
        target = stream.targets[i]
        if isinstance(model, LifelongRegressor):
            errors[i] = float(np.sum((model.predict(probe, task=i) - target) ** 2))
        else:
            direction = model.decision_function(probe, task=i)
            cosine = direction @ target / np.linalg.norm(direction)
            errors[i] = float(np.arccos(min(cosine, 1.0)) / np.pi)
    return errors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [3, 5, 8])
def test_theorems_3_to_5(kind, k):
    """Every task within epsilon, at most 3k features (the theorem allows `most_features`), k dimensions."""
    promised = []
    for seed in SEEDS:
        stream, model = learned(kind, k, seed, n_features=k)
        promised.append(max(true_errors(stream, model).values()) <= model.epsilon)
        features, dimension = len(model.representation_.features), model.representation_.dimension
        assert k <= features <= 3 * k <= most_features(k, model.epsilon)
        assert dimension == k <= 2 * k - 1, "certified rounding stops at k"
        assert all(event.met for event in model.history_)
        assert all(event.error_bound <= model.epsilon for event in model.history_)
    assert sum(promised) >= 0.95 * len(promised)


@pytest.mark.parametrize("k", [1, 2, 5, 10, 20])
def test_the_number_of_shared_features_is_found_when_features_are_accurate(k):
    found = []
    for seed in SEEDS:
        _, model = learned("regression", k, seed, tasks=max(20, 3 * k))
        found.append(model.representation_.dimension)
    assert sum(dimension == k for dimension in found) >= 18, found


@pytest.mark.parametrize("k", [1, 3])
def test_the_number_of_shared_features_is_found_for_halfspaces(k):
    found = [learned("classification", k, seed)[1].representation_.dimension for seed in SEEDS]
    assert sum(dimension == k for dimension in found) >= 18, found


@pytest.mark.parametrize("rounding", ["paper", "extreme"])
def test_other_roundings_keep_the_promise_within_their_dimensions(rounding):
    for seed in SEEDS[:5]:
        stream, model = learned("regression", 5, seed, n_features=5, rounding=rounding)
        assert max(true_errors(stream, model).values()) <= model.epsilon
        assert 5 <= model.representation_.dimension <= 9


def test_no_task_leaves_epsilon_by_reprojection_and_none_moves_when_frozen():
    moved = 0
    for seed in SEEDS:
        stream = LinearStream(d=40, k=4, tasks=30, kind="regression", seed=seed)
        frozen, moving = (
            LifelongRegressor(0.1, n_features=4, accept="bound", old_tasks=old) for old in ("freeze", "reproject")
        )
        X = np.random.default_rng(seed).standard_normal((20, 40))
        at_first = {}
        for i in range(30):
            frozen.learn_task(stream.source(i), task=i)
            moving.learn_task(stream.source(i), task=i)
            at_first[i] = frozen.predict(X, task=i)
            for j, before in at_first.items():
                assert (frozen.predict(X, task=j) == before).all(), "forgetting is exactly zero"
        for i in range(30):
            direction = moving.predict(np.eye(40), task=i) - moving.predict(np.zeros((1, 40)), task=i)
            assert np.sum((direction - stream.targets[i]) ** 2) <= 0.1
            moved += not np.array_equal(moving.predict(X, task=i), at_first[i])
    assert moved > 0, "some task did move"
