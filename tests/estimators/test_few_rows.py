"""Few rows, many tasks: the prior in the stream."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from everspan import LifelongClassifier, LifelongRegressor
from everspan.prior import is_mark
from everspan.scenarios import LinearStream

D = 6


def shops(tasks=40, rows=10, seed=0, halfspace=False, spread=0.3, noise=1.0):
    """Tasks around a common direction, each with a constant of its own: (name, X, y, weights)."""
    rng = np.random.default_rng(seed)
    common = np.array([1.5, -1.0, 0.5, 0.0, 0.0, 0.0])
    found = []
    for i in range(tasks):
        weights, constant = common + spread * rng.standard_normal(D), 2.0 * rng.standard_normal()
        X = rng.standard_normal((rows, D))
        y = X @ weights + constant + noise * rng.standard_normal(rows)
        found.append((f"shop {i}", X, (y > 0.0).astype(int) if halfspace else y, (weights, constant)))
    return found


def learned(kind, stream, **parameters):
    model = kind(**parameters)
    for name, X, y, _ in stream:
        model.learn_task(X, y, task=name)
    return model


def error_of(model, stream):
    """Mean squared error of the predictor against the truth, over tasks."""
    fresh = np.random.default_rng(99).standard_normal((200, D))
    return np.mean([np.mean((model.predict(fresh, task=n) - fresh @ w - c) ** 2) for n, _, _, (w, c) in stream])


def test_tasks_of_ten_noisy_rows_are_better_together_than_alone():
    stream = shops()
    together, apart = (error_of(learned(LifelongRegressor, stream, prior=p), stream) for p in ("learned", None))
    fresh = np.random.default_rng(99).standard_normal((200, D))
    alone = np.mean([np.mean((Ridge(1.0).fit(X, y).predict(fresh) - fresh @ w - c) ** 2) for _, X, y, (w, c) in stream])
    assert together < 0.5 * apart
    assert together < 0.5 * alone


def with_directions(kind, tasks, d, k, rows, seed=0):
    """Tasks that have k directions in common, and no mean: (name, X, y, weights)."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.standard_normal((d, k)))[0]
    found = []
    for i in range(tasks):
        weights, X = directions @ rng.standard_normal(k), rng.standard_normal((rows, d))
        y = X @ weights + 0.2 * rng.standard_normal(rows)
        found.append((i, X, y if kind is LifelongRegressor else (y > 0.0).astype(int), weights))
    return directions, found


@pytest.mark.parametrize(("kind", "least"), [(LifelongRegressor, 0.85), (LifelongClassifier, 0.78)])
def test_directions_that_tasks_share_serve_tasks_of_fewer_rows_than_columns(kind, least):
    """Though no mean says anything of them, and no task alone could learn a feature."""
    directions, stream = with_directions(kind, tasks=80, d=16, k=3, rows=12)
    model, fresh = learned(kind, stream), np.random.default_rng(99).standard_normal((400, 16))
    assert model.prior_.trusted
    assert model.prior_.factors == 3
    truths = {name: fresh @ w if kind is LifelongRegressor else (fresh @ w > 0.0).astype(int) for name, *_, w in stream}
    assert np.mean([model.score(fresh, truth, task=name) for name, truth in truths.items()]) > least
    basis = np.linalg.qr(model.representation_.basis)[0]  # the representation has them, too
    assert np.square(basis.T @ directions).sum() > 2.4


@pytest.mark.parametrize("kind", [LifelongRegressor, LifelongClassifier])
def test_tasks_with_nothing_in_common_do_not_lean_on_each_other(kind):
    _, stream = with_directions(kind, tasks=60, d=10, k=10, rows=16)
    prior = learned(kind, stream).prior_
    assert prior is None or not prior.trusted


def test_the_first_tasks_gain_from_the_later_ones():
    stream = shops()
    early = learned(LifelongRegressor, stream[:9])
    late = learned(LifelongRegressor, stream)
    assert error_of(late, stream[:8]) < 0.6 * error_of(early, stream[:8])


def test_the_prior_changes_at_fixed_counts_only():
    model, seen = LifelongRegressor(), []
    for count, (name, X, y, _) in enumerate(shops(35), start=1):
        before = getattr(model, "prior_", None)
        model.learn_task(X, y, task=name)
        if model.prior_ is not before:
            seen.append(count)
    assert seen
    assert all(is_mark(count) for count in seen)


def test_a_table_at_once_is_one_task_after_another():
    stream = shops(20)
    one = learned(LifelongRegressor, stream)
    X, y = (np.concatenate([part[i] for part in stream]) for i in (1, 2))
    tasks = np.repeat([name for name, *_ in stream], 10)
    table = LifelongRegressor().fit(X, y, tasks=tasks)
    assert np.array_equal(one.predict(X, tasks=tasks), table.predict(X, tasks=tasks))
    assert list(one.history_) == list(table.history_)


def test_another_order_of_tasks_changes_little():
    stream = shops(40)
    there, back = learned(LifelongRegressor, stream), learned(LifelongRegressor, stream[::-1])
    fresh = np.random.default_rng(5).standard_normal((50, D))
    differences = [there.predict(fresh, task=n) - back.predict(fresh, task=n) for n, *_ in stream]
    truths = [fresh @ w + c for *_, (w, c) in stream]
    assert np.sqrt(np.mean(np.square(differences))) < 0.1 * np.std(truths)


def test_streams_that_features_serve_learn_no_prior():
    model = LifelongClassifier()
    for name, X, y in LinearStream(d=20, k=2, tasks=30, rows=400, seed=1):
        model.learn_task(X, y, task=name)
    assert model.prior_ is None


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("halfspace", [False, True])
def test_a_task_of_a_row_or_two_leans_on_the_others(rows, halfspace):
    stream = shops(40, halfspace=halfspace)
    model = learned(LifelongClassifier if halfspace else LifelongRegressor, stream)
    fresh = np.random.default_rng(1).standard_normal((300, D))
    common = fresh @ [1.5, -1.0, 0.5, 0.0, 0.0, 0.0]
    X = np.zeros((rows, D))
    event = model.learn_task(X, np.array([0, 1][:rows]) if halfspace else np.full(rows, 1.0), task="new")
    assert event.action == "reused"
    scores = model.decision_function(fresh, task="new") if halfspace else model.predict(fresh, task="new")
    assert np.corrcoef(scores, common)[0, 1] > 0.9


def test_a_task_of_one_class_is_one_of_the_others_two():
    stream = shops(40, rows=20, halfspace=True)
    model = learned(LifelongClassifier, stream)
    X = np.random.default_rng(2).standard_normal((6, D))
    model.learn_task(X, np.zeros(6, dtype=int), task="closed")
    chances = model.predict_proba(np.vstack([[3.0, -3.0, 1.0, 0, 0, 0], [-3.0, 3.0, -1.0, 0, 0, 0]]), task="closed")
    assert chances.shape == (2, 2)
    assert chances[0, 1] > chances[1, 1]
    assert (model.predict(X, task="closed") == 0).mean() >= 0.5


def test_unseen_tasks_are_predicted_from_the_prior_where_asked():
    model = learned(LifelongRegressor, shops(), unseen_tasks="prior")
    fresh = np.eye(D)
    np.testing.assert_allclose(
        model.predict(fresh, task="never seen") - model.predict(np.zeros((1, D)), task="never seen"),
        [1.5, -1.0, 0.5, 0.0, 0.0, 0.0],
        atol=0.25,
    )
    with pytest.raises(ValueError, match="not been learned"):
        model.set_params(unseen_tasks="error").predict(fresh, task="never seen")


def test_a_task_forgotten_leaves_the_prior_too():
    stream = shops(20)
    outlier = ("odd", stream[0][1], 1e4 + 1e4 * np.random.default_rng(0).standard_normal(10), None)
    model = learned(LifelongRegressor, [*stream[:15], outlier])
    noise = model.prior_.noise
    model.forget("odd")
    assert model.prior_.noise < 1e-4 * noise
    assert abs(model.prior_.mean[-1]) < 5.0


@pytest.mark.parametrize("kind", [LifelongClassifier, LifelongRegressor])
def test_frozen_tasks_stay_as_they_were_though_a_prior_is_learned(kind):
    rng = np.random.default_rng(0)
    mean, test = rng.standard_normal(5), rng.standard_normal((200, 5))
    model = kind(old_tasks="freeze")
    first = {}
    for i in range(40):
        X = rng.standard_normal((15, 5))
        scores = X @ (mean + 0.5 * rng.standard_normal(5)) + rng.standard_normal(15)
        model.learn_task(X, scores if kind is LifelongRegressor else scores > 0.0, task=i)
        first[i] = model.predict(test, task=i)
    assert model.prior_ is not None
    for i, before in first.items():
        np.testing.assert_array_equal(model.predict(test, task=i), before)


@pytest.mark.parametrize("name", [float("nan"), np.datetime64("NaT")])
def test_a_name_must_be_itself(name):
    with pytest.raises(ValueError, match="equal to itself"):
        LifelongClassifier().learn_task(np.eye(4), [0, 1, 0, 1], task=name)


def test_names_that_are_not_themselves_are_refused_among_many():
    X = np.random.default_rng(0).standard_normal((20, 4))
    model = LifelongClassifier()
    model.learn_tasks((i, X, (X[:, 0] > 0.0).astype(int)) for i in range(10))
    with pytest.raises(ValueError, match="equal to itself"):
        model.learn_tasks([("more", X, (X[:, 0] > 0.0).astype(int)), (float("nan"), X, (X[:, 0] > 0.0).astype(int))])
