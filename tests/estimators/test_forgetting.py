"""What is forgotten is gone: the mean of the first task's rows, the last task, a basis a time."""

from __future__ import annotations

import copy
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.functions import ReLU
from everspan.prior import Prior, Summary
from everspan.scenarios import ReLUStream

from .crowd import KINDS, learn_all, stream
from .test_together import state

D = 5


def offset_stream(kind, tasks, offset, apart, seed, d=D, rows=40):
    """Tasks around an offset; with ``apart`` each has a mean of its own; a third of them have few noisy rows."""
    rng = np.random.default_rng(seed)
    shared = np.linalg.qr(rng.standard_normal((d, min(2, d))))[0]
    centre = offset * rng.standard_normal(d)
    for task in range(tasks):
        n = rows if task % 3 else 10
        centred = rng.standard_normal((n, d)) + (apart * rng.standard_normal(d) if task % 2 else 0.0)
        y = centred @ shared @ rng.standard_normal(2) + (0.05 if task % 3 else 1.0) * rng.standard_normal(n)
        yield task, centred + centre, y if kind is LifelongRegressor else np.where(y > np.median(y), 1, 0)


def scores(model, X, task):
    return (model.predict if isinstance(model, LifelongRegressor) else model.decision_function)(X, task=task)


def forgotten_without_moving(model, task):
    """A copy that forgot a task but kept the origin."""
    other = copy.deepcopy(model)
    other._origin_task = None
    return other.forget(task)


@settings(max_examples=25)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([3, 12, 20]),
    st.sampled_from([0.0, 1.0, 30.0, 300.0]),
    st.sampled_from([0.0, 1.0, 20.0]),
    st.integers(0, 1000),
    st.sampled_from([2, 5]),
    st.booleans(),
)
def test_without_the_first_task_the_others_predict_the_same_around_another_origin(
    kind, tasks, offset, apart, seed, d, updated
):
    model, X = kind(), np.empty((0, d))
    learn_all(model, offset_stream(kind, tasks, offset, apart, seed, d))
    if updated:
        learn_all(model, [*offset_stream(kind, tasks, offset, apart, seed, d, rows=12)][1:5])
    for _, rows, _ in offset_stream(kind, tasks, offset, apart, seed, d):
        X = np.vstack([X, rows[:4]])
    mean = model.representation_.origin
    expected = forgotten_without_moving(model, 0)
    model.forget(0)
    assert (expected.representation_.origin == mean).all()
    for task in model.tasks_:
        wanted = scores(expected, X, task)
        assert scores(model, X, task) == pytest.approx(wanted, rel=1e-9, abs=1e-9 * (1.0 + np.abs(wanted).max()))
    assert model.history_ == expected.history_
    learn_all(model, [(99, X, X[:, 0] if kind is LifelongRegressor else (X[:, 0] > X[:, 0].mean()).astype(int))])
    assert model.tasks_[-1] == 99


@pytest.mark.parametrize("apart", [0.0, 1.0, 20.0])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_stays_is_the_mean_of_the_first_task_s_rows(kind, apart):
    model = kind()
    given_tasks = [*offset_stream(kind, 15, 10.0, apart, seed=1)]
    learn_all(model, given_tasks)
    mean = given_tasks[0][1].mean(axis=0)
    assert np.allclose(model.representation_.origin, mean)
    model.forget(0)
    origin = model.representation_.origin
    kept = [origin, *(origin + known for known in model.predictors_._means.values())]
    assert min(np.abs(point - mean).max() for point in kept) > 0.05
    spread = np.sqrt(1.0 + apart**2)
    others = np.mean([X.mean(axis=0) for _, X, _ in given_tasks[1:]], axis=0)
    assert (np.abs(origin - others) < 2.0 * spread).all(), "the origin is where the rows are"


def test_of_a_mean_that_no_task_shares_only_a_rough_value_stays():
    """Whatever the first rows are, to within the spread of the columns: the origin afterwards is the same."""
    origins = set()
    for nudge in (0.0, 1e-3, -2e-3):
        tasks = [*offset_stream(LifelongRegressor, 12, 10.0, 0.0, seed=3)]
        tasks[0] = (0, tasks[0][1] + nudge, tasks[0][2])
        model = LifelongRegressor(old_tasks="freeze", prior=None)
        learn_all(model, tasks)
        origins.add(model.forget(0).representation_.origin.tobytes())
        assert not model.predictors_._means
    assert len(origins) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_task_that_is_forgotten_leaves_the_origin_and_so_does_the_next_first_one(kind):
    model = kind()
    learn_all(model, stream(kind, 12))
    first = model.representation_.origin
    assert model.forget(4).representation_.origin is first
    second = model.forget(0).representation_.origin
    assert (second != first).all()
    assert model.forget(1).representation_.origin is second


def test_without_a_constant_the_origin_stays_zero():
    model = LifelongRegressor(fit_intercept=False)
    learn_all(model, stream(LifelongRegressor, 6))
    assert not model.forget(0).representation_.origin.any()


@pytest.mark.parametrize("forgotten", [[0], [0, 5], range(12)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_forgot_is_saved_and_loaded_to_the_bit(kind, forgotten, tmp_path):
    model = kind()
    learn_all(model, offset_stream(kind, 12, 5.0, 1.0, seed=6))
    for task in forgotten:
        model.forget(task)
    model.save(tmp_path / "model.everspan")
    loaded = kind.load(tmp_path / "model.everspan")
    assert state(loaded) == state(model)
    assert loaded.representation_.origin.tobytes() == model.representation_.origin.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_forgot_all_learns_like_a_new_one(kind):
    model = kind()
    learn_all(model, offset_stream(kind, 9, 5.0, 1.0, seed=4))
    for task in reversed(model.tasks_):
        model.forget(task)
    assert not model.representation_.origin.any()
    assert (len(model.history_), model.tasks_, model.prior_) == (0, [], None)
    fresh = kind()
    for one in (model, fresh):
        learn_all(one, stream(kind, 12))
    assert state(model) == state(fresh)
    assert (model.representation_.origin == fresh.representation_.origin).all()


def test_rows_without_a_task_s_name_are_learned_around_their_own_mean():
    (_, X, y), (_, other, labels) = offset_stream(LifelongClassifier, 2, 5.0, 5.0, seed=5)
    model = LifelongClassifier().partial_fit(other, labels).partial_fit(X, y)
    assert model.decision_function(X).tobytes() == LifelongClassifier().fit(X, y).decision_function(X).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_learning_and_forgetting_for_ever_leaves_no_bases_behind(kind):
    model = kind()
    learn_all(model, stream(kind, 10))
    counts = set()
    for cycle in range(12):
        learn_all(model, [(("new", cycle), *rows) for _, *rows in stream(kind, 1, seed=cycle % 3)])
        model.forget(("new", cycle))
        counts.add(len(model.predictors_.bases))
    assert max(counts) <= 10 + 1
    assert sum(model.predictors_._used) <= len(model.predictors_)
    used = {model.predictors_.at(index).version for index in range(len(model.predictors_))}
    assert len(model.predictors_.bases) <= len(used) + 1


@pytest.mark.parametrize("biases", [True, False])
def test_functions_stay_the_same_around_another_origin(biases):
    tasks = [*ReLUStream(d=4, k=2, tasks=4, rows=300, seed=1)]
    model = LifelongRegressor(representation=ReLU(most=3, starts=1, biases=biases))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X, y in tasks:
            model.learn_task(X + 3.0, y, task=name)
    first = model.representation_.origin
    expected = forgotten_without_moving(model, tasks[0][0])
    model.forget(tasks[0][0])
    probe = tasks[1][1] + 3.0
    assert (model.representation_.origin is first) == (not biases)
    for task in model.tasks_:
        np.testing.assert_allclose(
            model.predict(probe, task=task), expected.predict(probe, task=task), rtol=1e-9, atol=1e-9
        )
    np.testing.assert_allclose(model.transform(probe), expected.transform(probe), rtol=1e-9, atol=1e-9)


def test_a_forgotten_first_class_takes_the_origin_with_it():
    rng, model = np.random.default_rng(0), ClassIncrementalClassifier()
    rows = {label: 5.0 * np.eye(D)[label] + rng.standard_normal((40, D)) for label in range(4)}
    for label, X in rows.items():
        model.learn_task(X, [label] * 40)
    assert np.allclose(model.representation_.origin, rows[0].mean(axis=0))
    model.forget(0)
    assert np.allclose(model.representation_.origin, np.mean([rows[label].mean(axis=0) for label in (1, 2, 3)], axis=0))
    for label in (0, 4):
        model.learn_task(rows[label % 4] - 10.0 * (label == 4), [label] * 40)
    assert model.score(np.vstack([*rows.values()]), np.repeat(range(4), 40)) > 0.9


def test_a_forgotten_task_s_fingerprints_of_rows_are_gone():
    model = LifelongRegressor()
    learn_all(model, stream(LifelongRegressor, 3))
    model._seen = dict.fromkeys(model.tasks_, b"abcd")
    assert model.forget(1)._seen == {0: b"abcd", 2: b"abcd"}


def test_priors_and_summaries_follow_the_origin():
    """Means, weights and posteriors are those of the same rows in other coordinates."""
    rng = np.random.default_rng(0)
    X, y, shift = rng.standard_normal((9, 3)), rng.standard_normal(9), rng.standard_normal(3)
    root = rng.standard_normal((4, 4))
    prior = Prior(rng.standard_normal(4), root @ root.T + np.eye(4), 0.3)
    of = partial(_summary, y=y)
    np.testing.assert_allclose(of(X).shifted(shift).packed, of(X - shift).packed, atol=1e-12)
    weights, moved = prior.posterior(of(X)), prior.shifted(shift).posterior(of(X - shift))
    np.testing.assert_allclose((X - shift) @ moved[:-1] + moved[-1], X @ weights[:-1] + weights[-1], atol=1e-12)


def _summary(X, y):
    Z = np.column_stack([X, np.ones(len(X))])
    return Summary.of(Z.T @ Z, Z.T @ y, float(y @ y), float(len(y)))


def test_an_origin_is_known_to_a_model_as_a_plain_number():
    """What a file keeps of it: 0 (the first task set it), None (none did), -1 (the next one will)."""
    model = LifelongRegressor()
    learn_all(model, stream(LifelongRegressor, 3))
    seen = [
        model._origin_task,
        model.forget(0)._origin_task,
        model.forget(1)._origin_task,
        model.forget(2)._origin_task,
    ]
    assert seen == [0, None, None, -1]
