"""Classes that are rare, or count differently: chances that are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from everspan import LifelongClassifier

from .test_few_rows import D


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


def test_a_lone_row_that_counts_often_is_not_alone():
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((40, 3)), np.zeros(40, dtype=int), np.ones(40)
    X[0], y[0], weight[0] = X[0] + 4.0, 1, 20.0
    assert LifelongClassifier().learn_task(X, y, sample_weight=weight).error == 0.0
    assert LifelongClassifier().learn_task(X, y).error > 0.0


def test_two_rows_of_two_classes_prove_nothing():
    rng = np.random.default_rng(0)
    model = LifelongClassifier()
    for i in range(5):
        assert not model.learn_task(rng.standard_normal((2, 4)), [0, 1], task=i).met
