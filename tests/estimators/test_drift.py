"""Whether a task has changed is judged in the terms of its loss, by rows that count as their weights say."""

import copy
import warnings

import numpy as np
import pytest

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import DriftWarning

from .test_few_rows import D, learned, shops


@pytest.mark.parametrize("loss", ["error", "auc", "log_loss"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_drift_is_judged_in_the_terms_of_the_loss(loss, class_weight):
    rng, model = np.random.default_rng(1), LifelongClassifier(loss=loss, class_weight=class_weight, epsilon=0.3)
    tasks = {i: np.array([2.0, -1.5, 0, 0, 0, 0]) + 0.5 * rng.standard_normal(D) for i in range(24)}

    def drawn(weights, rows=200):
        X = rng.standard_normal((rows, D))
        return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(1.5 - X @ weights))).astype(int)

    for name, weights in tasks.items():
        model.learn_task(*drawn(weights), task=name)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        for name, weights in tasks.items():
            model.learn_task(*drawn(weights), task=name)
    for name, weights in tasks.items():
        before = model.history_[name].error
        with pytest.warns(DriftWarning, match="seems to have changed"):
            event = model.learn_task(*drawn(-weights, rows=600), task=name)
        assert event.drift > before
        assert loss != "auc" or event.drift > 0.6  # most pairs are the wrong way round


def test_rows_of_one_class_are_no_drift_where_classes_are_weighed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = (X[:, 0] + 1.5 * rng.standard_normal(600) > 1.5).astype(int)
    model = LifelongClassifier(class_weight="balanced")
    model.learn_task(X, y, task="t")
    wrong = (model.predict(X, task="t") != y) & (y == 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        event = model.learn_task(X[wrong], y[wrong], task="t")
    assert event.drift is None
    assert event.labels_used == 600 + wrong.sum()


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


def test_a_prediction_changes_nothing_of_what_the_next_update_reports():
    """A task of one class gets a second one: its predictor is mirrored, and nothing computed before counts."""
    rng = np.random.default_rng(1)
    shared, model = np.array([2.0, -1.0, 0.5, 0.0]), LifelongClassifier()
    for task in range(30):
        X = rng.standard_normal((12, 4))
        scores = X @ (shared + 0.2 * rng.standard_normal(4)) + 1.0 + rng.logistic(size=12)
        model.learn_task(X, (scores > 0.0).astype(int), task=task)
    model.learn_task(rng.standard_normal((30, 4)), [5] * 30, task="one class")
    X = rng.standard_normal((60, 4))
    y = np.where(X @ shared > 0.0, 5, 7)
    asked = copy.deepcopy(model)
    asked.predict(X, task="one class")
    with pytest.warns(DriftWarning):
        events = [one.learn_task(X, y, task="one class") for one in (model, asked)]
    assert events[0].drift is not None
    assert events[0] == events[1]


WAYS = {
    "learn_task": lambda model, X, y: model.learn_task(X, y, task="a"),
    "partial_fit": lambda model, X, y: model.partial_fit(X, y, task="a"),
    "partial_fit, a table": lambda model, X, y: model.partial_fit(X, y, tasks=["a"] * len(y)),
    "learn_tasks": lambda model, X, y: model.learn_tasks([("a", X, y)]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [LifelongRegressor, LifelongClassifier])
def test_a_warning_names_the_line_that_called_everspan(kind, way):
    X = np.random.default_rng(0).standard_normal((200, 3))
    y = X[:, 0] if kind is LifelongRegressor else (X[:, 0] > 0.0).astype(int)
    model = kind().partial_fit(X, y, task="a")
    with pytest.warns(DriftWarning) as caught:
        WAYS[way](model, X, -y if kind is LifelongRegressor else 1 - y)
    assert [warning.filename for warning in caught] == [__file__]
