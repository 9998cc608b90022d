"""More rows for a task that is known: they come near all rows at once, and a few change little."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import DriftWarning
from everspan.scenarios import LinearStream

from .test_few_rows import D, learned, shops


def halves(model, X, y, task):
    half = len(y) // 2
    first = model.learn_task(X[:half], y[:half], task=task)
    second = model.learn_task(X[half:], y[half:], task=task)
    return first, second


@pytest.mark.parametrize("kind", [LifelongRegressor, LifelongClassifier])
def test_two_halves_come_near_the_whole_where_tasks_share_a_prior(kind):
    stream = shops(60, rows=40, halfspace=kind is LifelongClassifier)
    fresh = np.random.default_rng(7).standard_normal((300, D))
    whole = learned(kind, stream)
    model = learned(kind, stream[:-1])
    name, X, y, _ = stream[-1]
    halves(model, X, y, name)
    only = learned(kind, [*stream[:-1], (name, X[:20], y[:20], None)])
    score = "predict" if kind is LifelongRegressor else "decision_function"
    scores = [getattr(m, score)(fresh, task=name) for m in (whole, model, only)]
    assert np.linalg.norm(scores[1] - scores[0]) < 0.3 * np.linalg.norm(scores[2] - scores[0])
    assert model.history_[-1].labels_used == 40
    assert len(model.history_) == 60


@pytest.mark.parametrize("regression", [True, False])
def test_two_halves_come_near_the_whole_on_features(regression):
    stream = LinearStream(
        d=20,
        k=2,
        tasks=12,
        rows=300,
        seed=3,
        kind="regression" if regression else "classification",
        noise=0.1 if regression else 0.0,
    )
    kind = LifelongRegressor if regression else LifelongClassifier
    model, whole = kind(epsilon=0.05), kind(epsilon=0.05)
    for name, X, y in stream[:-1]:
        model.learn_task(X, y, task=name)
        whole.learn_task(X, y, task=name)
    name, X, y = stream[11]
    whole.learn_task(X[:60], y[:60], task=name)
    first, second = halves(model, X[:60], y[:60], name)
    assert (first.action, second.action, second.labels_used) == ("reused", "updated", 60)
    test = stream.test(11, 4000)
    if regression:
        np.testing.assert_allclose(model.predict(test.X, task=name), whole.predict(test.X, task=name), atol=0.05)
    else:
        agree = np.mean(model.predict(test.X, task=name) == whole.predict(test.X, task=name))
        assert agree > 0.97
    assert str(second).startswith(f"{name}: updated, error")


def test_a_task_that_grew_learns_from_more_rows():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(30)
    X = rng.standard_normal((400, 30))
    y = X @ truth + 0.5 * rng.standard_normal(400)
    model = LifelongRegressor(epsilon=0.05)
    assert model.learn_task(X[:60], y[:60], task="a").action == "grew"
    before = np.linalg.norm(model.linear_predictor(task="a")[0][0] - truth)
    assert model.learn_task(X[60:], y[60:], task="a").action == "updated"
    after = np.linalg.norm(model.linear_predictor(task="a")[0][0] - truth)
    assert after < 0.5 * before


def test_more_columns_than_a_prior_takes_still_learn_from_more_rows():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(120)
    X = rng.standard_normal((900, 120))
    y = 5.0 + X @ truth + rng.standard_normal(900)
    model = LifelongRegressor()
    model.learn_task(X[:300], y[:300], task="a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        event = model.learn_task(X[300:], y[300:] + 2.0, task="a")
    assert event.action == "updated"
    assert np.mean(model.predict(X, task="a") - X @ truth) == pytest.approx(5.0 + 2.0 * 600 / 900, abs=0.4)


def test_several_classes_learn_from_more_rows_and_others_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    y = np.array(["a", "b", "c"])[(X @ np.array([[2.0, -1, -1], [0.0, 2, -2]])).argmax(axis=1)]
    model = LifelongClassifier()
    model.learn_task(X[:60], y[:60], task=1)
    model.learn_task(X[60:300], y[60:300], task=1)
    assert model.score(X[300:], y[300:], task=1) > 0.9
    before = model.decision_function(X, task=1)
    with pytest.raises(ValueError, match="classes a, b, c, and the new rows bring others"):
        model.learn_task(X[:5], np.array(["a", "b", "z", "a", "b"]), task=1)
    assert np.array_equal(model.decision_function(X, task=1), before)


def test_a_second_class_joins_the_first():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    for low in (True, False):
        model = LifelongClassifier()
        y = np.where((X[:, 0] > 0) == low, "yes", "no")
        only = y == ("no" if low else "yes")
        model.learn_task(X[only][:30], y[only][:30], task="t")
        with pytest.warns(DriftWarning):
            model.learn_task(X, y, task="t")
        assert model.score(X, y, task="t") > 0.9


@pytest.mark.parametrize("goal", ["absolute", "excess"])
def test_an_update_tells_the_error_on_all_rows(goal):
    """Of noisy labels no predictor is below epsilon: within epsilon of the best is what "excess" asks for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((460, 4))
    y = (X[:, 0] > 0) ^ (rng.random(460) < 0.25)
    model = LifelongClassifier(goal=goal)
    first = model.learn_task(X[:400], y[:400], task="a")
    assert 0.2 < first.error < 0.35
    event = model.learn_task(X[400:], y[400:], task="a")
    errors = (460 * event.error - 400 * first.error) / 60  # what the new rows alone must have said
    assert 0.0 <= errors <= 0.5
    assert event.error == pytest.approx(first.error, abs=0.05)
    assert event.met == (goal == "excess")
    assert (event.labels_wanted is None) == event.met


def test_one_wrong_row_does_not_overthrow_two_hundred():
    rng = np.random.default_rng(0)
    truth, test = rng.standard_normal(5), rng.standard_normal((3000, 5))
    model = LifelongClassifier()
    for name in ("first", "second"):
        X = rng.standard_normal((200, 5))
        model.learn_task(X, X @ truth > 0.0, task=name)
    model.learn_task(test[:1], test[:1] @ truth <= 0.0, task="second")
    assert model.score(test, test @ truth > 0.0, task="second") > 0.98


@pytest.mark.parametrize("batch", [1, 2, 5, 10])
@pytest.mark.parametrize("regression", [True, False])
def test_a_task_that_comes_in_drops_is_learned(regression, batch):
    rng = np.random.default_rng(1)
    truth, X, test = rng.standard_normal(5), rng.standard_normal((400, 5)), rng.standard_normal((3000, 5))
    target = (lambda X: X @ truth) if regression else (lambda X: X @ truth > 0.0)
    model = LifelongRegressor() if regression else LifelongClassifier()
    for start in range(0, 400, batch):
        rows = X[start : start + batch]
        noise = 0.1 * rng.standard_normal(len(rows)) if regression else False
        event = model.learn_task(rows, target(rows) + noise, task="drops")
    assert event.labels_used == 400
    assert model.score(test, target(test), task="drops") > (0.99 if regression else 0.93)
    assert event.error < 0.15  # of the variance of all rows, not of two


def test_a_task_that_grew_is_still_moved_after_a_few_more_rows():
    stream = LinearStream(d=60, k=3, tasks=30, rows=120, seed=0)
    model = LifelongClassifier(prior=None)
    for name, X, y in stream:
        model.learn_task(X, y, task=name)
    grown = [i for i, event in enumerate(model.history_) if event.action == "grew"]

    def accuracy():
        return np.mean([model.score(*stream.test(i, 1000)[1:], task=f"task {i}") for i in grown])

    before = accuracy()
    for i in grown:
        _, X, y = stream.test(i, 2000)
        model.learn_task(X[-5:], y[-5:], task=f"task {i}")
    assert len(grown) > 5
    assert accuracy() > before - 0.01


@pytest.mark.parametrize("mean", [0.0, 1000.0])
def test_one_row_more_of_few_hardly_changes_a_regression(mean):
    rng = np.random.default_rng(0)
    truth, X = rng.standard_normal(10), rng.standard_normal((521, 10))
    y = mean + X @ truth + 0.1 * rng.standard_normal(521)
    model = LifelongRegressor(goal="excess")
    model.learn_task(X[:20], y[:20], task="a")
    before = model.score(X[21:], y[21:], task="a")
    model.learn_task(X[20:21], y[20:21], task="a")
    assert model.score(X[21:], y[21:], task="a") > before - 0.01


def test_a_task_that_grew_from_few_rows_is_not_held_back_by_them():
    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth, X = rng.standard_normal(20), rng.standard_normal((2120, 20))
        model = LifelongClassifier()
        for part in (slice(0, 20), slice(20, 120)):
            model.learn_task(X[part], X[part] @ truth > 0.0, task="a")
        scores.append(model.score(X[120:], X[120:] @ truth > 0.0, task="a"))
    assert np.mean(scores) > 0.89


def test_a_proved_task_is_not_moved_after_an_update():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 6))
    labels = [X @ rng.standard_normal(6) > 0.0 for _ in range(4)]
    model = LifelongClassifier(accept="bound", epsilon=0.1, n_features=2, prior=None)
    model.learn_task(X[:1500], labels[0][:1500], task=0)
    model.learn_task(X[1500:1600], labels[0][1500:1600], task=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in (1, 2, 3):
            model.learn_task(X[:1500], labels[task][:1500], task=task)
    assert model.score(X[4000:], labels[0][4000:], task=0) > 0.98


def test_single_rows_say_nothing_of_an_area():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 5))
    y = X @ rng.standard_normal(5) + rng.standard_normal(150) > 0.0
    model = LifelongClassifier(loss="auc")
    first = model.learn_task(X[:100], y[:100], task=0)
    for i in range(100, 150):
        event = model.learn_task(X[i : i + 1], y[i : i + 1], task=0)
    assert event.error == first.error


def test_a_task_learned_anew_from_rows_held_out_or_on_features_that_go():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    model = LifelongClassifier()
    model.learn_task(X[:300], X[:300, 0] > 0.0, task=0)
    model.learn_task(X[:30], rng.random(30) > 0.5, task=1)
    model.learn_task(X[:2000], X[:2000, 1] > 0.0, task=1)
    assert model.score(X[2000:], X[2000:, 1] > 0.0, task=1) > 0.98

    rng = np.random.default_rng(5)
    model, truth = LifelongClassifier(loss="log_loss", prior=None), rng.standard_normal(20)
    X = rng.standard_normal((400, 20))
    model.learn_task(X, X @ truth > 0.0, task=0)
    model.learn_task(rng.standard_normal((3, 20)), np.array([0, 1, 1]), task="x")
    X = rng.standard_normal((100, 20))
    model.learn_task(X, X @ rng.standard_normal(20) > 0.0, task=1)
    n = int(rng.choice([10, 20, 30]))
    X = rng.standard_normal((n, 20))
    model.learn_task(X, (X @ truth + 2.0 * rng.standard_normal(n) > 0.0).astype(int), task="x")
    assert np.isfinite(model.decision_function(X, task="x")).all()


def test_zero_has_no_sign_in_a_file(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 3))
    model = LifelongClassifier(learner="averaging")
    model.learn_task(X, X[:, 0] > 0.0, task=0)
    model.learn_task(np.ones((4, 3)), np.array([0, 1, 1, 1]), task=1)
    model.save(tmp_path / "a.everspan")
    np.testing.assert_array_equal(
        LifelongClassifier.load(tmp_path / "a.everspan").predict(X, task=1), model.predict(X, task=1)
    )
