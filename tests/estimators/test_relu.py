"""Streams of tasks on ReLU features, through the same estimators, events and promises as linear ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.checks import HoldOut
from everspan.functions import ReLU
from everspan.scenarios import ReLUStream

pytestmark = pytest.mark.filterwarnings("ignore::everspan.estimators.RepresentationWarning")


@pytest.fixture(scope="module")
def stream():
    return ReLUStream(d=8, k=2, tasks=10, rows=400, seed=1)


@pytest.fixture(scope="module")
def model(stream):
    return LifelongClassifier(0.1, representation="relu", n_features=2).fit(
        np.vstack([task.X for task in stream]),
        np.concatenate([task.y for task in stream]),
        tasks=np.repeat(np.arange(10), 400),
    )


def accuracies(model, stream):
    return [model.score(*stream.test(i)[1:], task=i) for i in range(len(stream))]


def test_after_the_first_tasks_nearly_all_reuse(model, stream):
    actions = [event.action for event in model.history_]
    assert actions[0] == "grew"
    assert actions.count("grew") <= 4
    assert actions[-5:].count("reused") >= 4
    assert model.representation_.dimension <= 3
    assert np.mean(accuracies(model, stream)) > 0.92
    linear = LifelongClassifier(0.1)
    for name, X, y in stream:
        linear.learn_task(X, y, task=name)
    straight = [linear.score(*stream.test(i)[1:], task=f"task {i}") for i in range(10)]
    assert np.mean(accuracies(model, stream)) > np.mean(straight) + 0.02


def test_the_same_stream_gives_the_same_model(model, stream):
    again = clone(model)
    for i, (_, X, y) in enumerate(stream):
        again.learn_task(X, y, task=i)
    X = stream.test(0, 50).X
    for i in range(10):
        np.testing.assert_array_equal(again.decision_function(X, task=i), model.decision_function(X, task=i))


def test_frozen_tasks_predict_the_same_to_the_bit_whatever_comes(stream):
    model = LifelongClassifier(0.015, representation="relu", old_tasks="freeze")
    X, said = stream.test(0, 100).X, {}
    for i in range(6):
        model.learn_task(*stream[i][1:], task=i)
        for j, scores in said.items():
            np.testing.assert_array_equal(model.decision_function(X, task=j), scores)
        said[i] = model.decision_function(X, task=i)
    assert len(model.representation_.features) > 2  # it did grow in between


def test_old_tasks_that_move_stay_good(stream):
    model, first = LifelongClassifier(0.05, representation="relu", n_features=2), {}
    for i, (_, X, y) in enumerate(stream):
        model.learn_task(X, y, task=i)
        first[i] = model.score(*stream.test(i)[1:], task=i)
    assert min(now - first[i] for i, now in enumerate(accuracies(model, stream))) > -0.06


def test_a_task_forgotten_leaves_the_others(model, stream):
    import copy

    fewer = copy.deepcopy(model)
    grew = next(event.task for event in model.history_ if event.action == "grew")
    fewer.forget(grew)
    assert grew not in fewer.tasks_
    assert len(fewer.representation_.features) == len(model.representation_.features) - 1
    assert np.mean([fewer.score(*stream.test(i)[1:], task=i) for i in fewer.tasks_]) > 0.85


def test_labels_on_demand_prove_every_task():
    stream = ReLUStream(d=4, k=1, tasks=3, seed=2)
    model = LifelongClassifier(0.2, representation="relu", accept="bound", n_features=1)
    events = [model.learn_task(stream.source(i), task=i) for i in range(3)]
    assert all(event.met and event.error_bound <= 0.2 for event in events)
    assert events[0].action == "grew"
    assert events[-1].action == "reused"
    assert events[-1].labels_used < events[0].labels_used


def test_regression(stream):
    stream = ReLUStream(d=6, k=2, tasks=8, rows=300, kind="regression", noise=0.05, seed=3)
    model = LifelongRegressor(0.1, representation="relu")
    actions = [model.learn_task(X, y, task=name).action for name, X, y in stream]
    assert actions.count("grew") <= 4
    explained = [model.score(*stream.test(i)[1:], task=f"task {i}") for i in range(8)]
    assert min(explained) > 0.85


def test_classes_that_no_halfspace_tells_apart():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3))
    y = np.digitize(np.linalg.norm(X[:, :2], axis=1), [0.8, 1.5])  # rings
    model = ClassIncrementalClassifier(representation="relu").fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.9
    assert ClassIncrementalClassifier().fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) < 0.7
    assert model.transform(X[:5]).shape == (5, model.representation_.dimension)
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1.0)


def test_where_all_units_are_inactive_the_sign_of_nothing_is_the_second_label():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = np.where(np.maximum(X[:, 0], 0.0) >= np.maximum(X[:, 1], 0.0), "yes", "no")
    plain = ReLU(biases=False, inner_products="gaussian")
    model = LifelongClassifier(representation=plain, fit_intercept=False)
    model.learn_task(X, y, task="max")
    silent = np.zeros((1, 4))
    assert model.decision_function(silent, task="max")[0] == 0.0
    assert model.predict(silent, task="max")[0] == "yes"
    assert model.score(X, y, task="max") > 0.9


def test_what_is_linear_only_says_so(model):
    with pytest.raises(ValueError, match="not linear in the columns"):
        model.linear_predictor(task=0)


@pytest.mark.parametrize("representation", ["tanh", None, 3])
def test_unknown_representations_are_refused(representation):
    with pytest.raises(ValueError, match="representation must be one of 'linear', 'relu'"):
        LifelongClassifier(representation=representation).fit(np.eye(4), [0, 1, 0, 1])


def test_a_call_that_fails_changes_nothing(stream):
    model = LifelongClassifier(0.1, representation="relu")
    model.learn_task(*stream[0][1:], task=0)
    before = model.representation_
    with pytest.raises(ValueError, match="NaN"):
        model.learn_task(np.full((5, 8), np.nan), np.arange(5) % 2, task=1)
    assert model.representation_ is before
    assert model.tasks_ == [0]


def test_tasks_with_one_label_or_two_rows():
    model = LifelongClassifier(0.1, representation="relu")
    rng = np.random.default_rng(0)
    assert model.learn_task(rng.standard_normal((20, 3)), np.ones(20), task="one").action == "reused"
    model.learn_task(rng.standard_normal((2, 3)), [0, 1], task="two")
    assert model.predict(rng.standard_normal((4, 3)), task="two").shape == (4,)


def test_the_order_of_rows_is_of_no_consequence():
    X = np.random.default_rng(0).standard_normal((6000, 3))
    X = X[np.argsort(X[:, 0])]
    model = LifelongRegressor(0.1, representation="relu")
    model.learn_task(X, np.abs(X[:, 0]), task=0)
    assert model.score(X, np.abs(X[:, 0]), task=0) > 0.99


def test_what_an_event_says_of_the_error_is_true_of_the_predictions():
    stream = ReLUStream(d=6, k=4, tasks=9, rows=500, seed=0)
    model = LifelongClassifier(0.2, representation="relu")
    for i in range(9):
        event = model.learn_task(*stream[i][1:], task=i)
        _, X, y = stream.test(i, 3000)
        assert 1.0 - model.score(X, y, task=i) < event.error + 0.04


def test_rows_that_lie_elsewhere_are_learned_as_well():
    rng = np.random.default_rng(3)

    def task(slope, offset):
        Z = rng.standard_normal((600, 4))
        return Z + offset, np.abs(Z[:, 0]) + slope * np.maximum(Z[:, 1], 0.0)

    model = LifelongRegressor(0.05, representation="relu")
    model.learn_task(*task(0.0, 0.0), task="here")
    model.learn_task(*task(0.3, 100.0), task="there")
    assert model.score(*task(0.3, 100.0), task="there") > 0.95
    assert model.score(*task(0.0, 0.0), task="here") > 0.95


def test_classes_forgotten_and_learned_again_are_told_apart_again():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 4))
    y = (np.abs(X[:, 0]) > 0.7) * 1 + (np.abs(X[:, 1]) > 0.7) * 2
    model = ClassIncrementalClassifier(representation="relu")
    for label in range(4):
        model.learn_task(X[y == label], y[y == label])
    before = model.score(X, y)
    model.forget(1)
    assert model.score(X[y != 1], y[y != 1]) > before - 0.05
    model.learn_task(X[y == 1], y[y == 1])
    assert model.score(X, y) > before - 0.05


def test_a_check_of_ones_own_is_used():
    asked = []

    class Mine(HoldOut):
        def measure(self, fit, rows, loss, risk, seed):
            asked.append(len(rows))
            return super().measure(fit, rows, loss, risk, seed)

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    LifelongClassifier(representation="relu", check=Mine()).learn_task(X, np.abs(X[:, 0]) > 0.7, task=0)
    assert asked == [200]


def test_forgetting_takes_a_tasks_rows_with_it(stream):
    model = LifelongClassifier(0.02, representation="relu")
    for i in range(3):
        model.learn_task(*stream[i][1:], task=i)
    known = model.representation_
    model.forget(0)
    left = model.representation_.reference
    rows = {tuple(row) for row in (stream[0].X - known.origin).tolist()}
    assert not any(tuple(row) in rows for row in left.tolist())
    assert len(left)


def test_a_representation_set_anew_needs_a_new_beginning(stream):
    model = LifelongClassifier()
    model.learn_task(*stream[0][1:], task=0)
    with pytest.raises(ValueError, match="fit forgets them first"):
        model.set_params(representation="relu").learn_task(*stream[1][1:], task=1)
    assert model.fit(*stream[1][1:]).representation_.units > 0
