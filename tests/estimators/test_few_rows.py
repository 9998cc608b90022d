"""Few rows, many tasks: the prior in the stream, more rows for a task, drift, and classes that count differently."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss, roc_auc_score

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import DriftWarning
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


# More rows ------------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("kind", [LifelongRegressor, LifelongClassifier])
def test_drift_is_noticed_and_said_and_chance_is_not_taken_for_it(kind):
    stream = shops(60, rows=60, halfspace=kind is LifelongClassifier, seed=3)
    rng = np.random.default_rng(4)
    model = learned(kind, stream)
    false = 0
    for name, _, _, (weights, constant) in stream[:40]:
        X = rng.standard_normal((40, D))
        y = X @ weights + constant + rng.standard_normal(40)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            event = model.learn_task(X, y if kind is LifelongRegressor else (y > 0).astype(int), task=name)
        false += event.drift is not None
        assert (event.drift is None) == (not said)
    assert false <= 1
    for name, _, _, (weights, constant) in stream[40:]:
        X = rng.standard_normal((40, D))
        y = -3.0 * (X @ weights) - constant + rng.standard_normal(40)
        with pytest.warns(DriftWarning, match="seems to have changed"):
            event = model.learn_task(X, y if kind is LifelongRegressor else (y > 0).astype(int), task=name)
        assert event.drift > 0.3
        assert "it seems to have changed" in str(event)


def test_a_task_forgotten_leaves_the_prior_too():
    stream = shops(20)
    outlier = ("odd", stream[0][1], 1e4 + 1e4 * np.random.default_rng(0).standard_normal(10), None)
    model = learned(LifelongRegressor, [*stream[:15], outlier])
    noise = model.prior_.noise
    model.forget("odd")
    assert model.prior_.noise < 1e-4 * noise
    assert abs(model.prior_.mean[-1]) < 5.0


# Classes that are rare, and chances -----------------------------------------------------------------------------------


def rare(tasks=40, rows=150, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(tasks):
        weights = np.array([1.2, -0.8, 0, 0, 0, 0]) + 0.3 * rng.standard_normal(D)
        X = rng.standard_normal((2000 + rows, D))
        y = (rng.random(2000 + rows) < 1.0 / (1.0 + np.exp(3.5 - X @ weights))).astype(int)
        yield i, X[:rows], y[:rows], X[rows:], y[rows:]


def test_chances_of_rare_classes_are_calibrated_and_rank_well():
    model, stream = LifelongClassifier(), list(rare())
    for i, X, y, _, _ in stream:
        model.learn_task(X, y, task=i)
    chances = [model.predict_proba(X, task=i)[:, 1] for i, _, _, X, _ in stream]
    truth = [y for *_, y in stream]
    assert np.mean([roc_auc_score(y, p) for y, p in zip(truth, chances, strict=True)]) > 0.8
    p, y = np.concatenate(chances), np.concatenate(truth)
    base = log_loss(y, np.full(len(y), y.mean()))
    assert log_loss(y, p) < 0.9 * base
    order = np.argsort(p)
    for part in np.array_split(order, 10):
        assert p[part].mean() == pytest.approx(y[part].mean(), abs=0.25 * y[part].mean() + 0.01)


def test_class_weight_moves_the_boundary():
    (_, X, y, more, labels) = next(iter(rare(1, rows=1500)))
    found = {}
    for weight in (None, "balanced", {0: 1.0, 1: 10.0}):
        model = LifelongClassifier(class_weight=weight, learner="logistic").fit(X, y)
        guesses = model.predict(more)
        found[str(weight)] = guesses[labels == 1].mean()
    assert found["None"] < 0.4 < 0.6 < found["balanced"]
    assert found["None"] < found["{0: 1.0, 1: 10.0}"]


@pytest.mark.parametrize(("weight", "message"), [("even", "balanced"), ({0: -1.0}, "not negative")])
def test_bad_class_weights_are_refused(weight, message):
    X = np.eye(4)
    with pytest.raises(ValueError, match=message):
        LifelongClassifier(class_weight=weight).fit(X, [0, 1, 0, 1])


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


# A few rows more ------------------------------------------------------------------------------------------------------


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


def test_two_rows_of_two_classes_prove_nothing():
    rng = np.random.default_rng(0)
    model = LifelongClassifier()
    for i in range(5):
        assert not model.learn_task(rng.standard_normal((2, 4)), [0, 1], task=i).met


def test_rare_classes_of_three_are_as_probable_as_they_are():
    rng = np.random.default_rng(0)

    def draw(n):
        X = rng.standard_normal((n, 4))
        odds = np.exp(np.column_stack([np.full(n, 2.5), X[:, 0], X[:, 1]]))
        shares = (odds / odds.sum(axis=1, keepdims=True)).cumsum(axis=1)
        return X, (shares < rng.random((n, 1))).sum(axis=1)

    X, y = draw(2000)
    test, truth = draw(4000)
    model = LifelongClassifier()
    model.learn_task(X, y, task="a")
    for _ in range(2):
        probabilities = model.predict_proba(test, task="a")
        np.testing.assert_allclose(probabilities.mean(axis=0), np.bincount(truth) / len(truth), atol=0.04)
        assert model.score(test, truth, task="a") >= np.mean(truth == 0) - 0.01
        model.learn_task(*draw(300), task="a")


@pytest.mark.parametrize("name", [float("nan"), np.datetime64("NaT")])
def test_a_name_must_be_itself(name):
    with pytest.raises(ValueError, match="equal to itself"):
        LifelongClassifier().learn_task(np.eye(4), [0, 1, 0, 1], task=name)


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


def test_a_lone_row_that_counts_often_is_not_alone():
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((40, 3)), np.zeros(40, dtype=int), np.ones(40)
    X[0], y[0], weight[0] = X[0] + 4.0, 1, 20.0
    assert LifelongClassifier().learn_task(X, y, sample_weight=weight).error == 0.0
    assert LifelongClassifier().learn_task(X, y).error > 0.0


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


def test_names_that_are_not_themselves_are_refused_among_many():
    X = np.random.default_rng(0).standard_normal((20, 4))
    model = LifelongClassifier()
    model.learn_tasks((i, X, (X[:, 0] > 0.0).astype(int)) for i in range(10))
    with pytest.raises(ValueError, match="equal to itself"):
        model.learn_tasks([("more", X, (X[:, 0] > 0.0).astype(int)), (float("nan"), X, (X[:, 0] > 0.0).astype(int))])
