"""Class after class: near a fit on all rows at once, within the memory allowed."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from everspan import ClassIncrementalClassifier
from everspan.estimators._memory import RowMemory


def classes_of_scores(seed, rows, d=100, k=5, count=10):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((count, k)) @ rng.standard_normal((k, d))
    X = rng.standard_normal((rows, d))
    return X, (X @ scores.T).argmax(axis=1)


def test_class_after_class_is_near_a_fit_on_all_rows():
    gaps = []
    for seed in range(61000, 61003):
        X, y = classes_of_scores(seed, 7000)
        model = ClassIncrementalClassifier().fit(X[:2000], y[:2000])
        reference = max(
            LogisticRegression(C=C, max_iter=5000).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) for C in (1, 100)
        )
        accuracy = model.score(X[2000:], y[2000:])
        gaps.append(reference - accuracy)
        assert model.error_ > 1 - accuracy - 0.03, "the estimate does not flatter"
    assert np.mean(gaps) <= 0.02


def test_digits_one_class_at_a_time():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    model = ClassIncrementalClassifier(memory=400)
    for digit in range(10):
        rows = y[:1200] == digit
        event = model.learn_task(X[:1200][rows], y[:1200][rows])
        assert event.task == digit
        assert len(model.memory_.rows) <= 400
    assert model.score(X[1200:], y[1200:]) > 0.86
    assert model.representation_.dimension < 20
    assert [event.task for event in model.history_] == list(range(10))


def test_several_classes_at_once_and_more_rows_of_old_ones():
    X, y = classes_of_scores(0, 1500, d=20, k=2, count=4)
    model = ClassIncrementalClassifier()
    first = y < 2
    assert model.learn_task(X[first], y[first]).task == (0, 1)
    assert model.learn_task(X[~first], y[~first]).task == (2, 3)
    before = model.score(X, y)
    again = model.learn_task(X[:200], y[:200])
    assert again.action == "reused"
    assert model.score(X, y) > before - 0.02
    assert model.memory_.totals[0] == np.sum(y == 0) + np.sum(y[:200] == 0)


def test_a_forgotten_class_is_never_predicted_again():
    X, y = classes_of_scores(1, 1200, d=20, k=3, count=4)
    model = ClassIncrementalClassifier().fit(X, y)
    gone = model.tasks_[2]
    model.forget(gone)
    assert gone not in model.classes_
    assert gone not in model.predict(X)
    assert gone not in model.memory_.labels
    others = y != gone
    assert model.score(X[others], y[others]) > 0.7
    while len(model.classes_) > 1:
        model.forget(model.tasks_[-1])
    with pytest.raises(ValueError, match="all there is"):
        model.forget(model.tasks_[-1])


def test_memory_is_a_uniform_sample_of_bounded_size_that_knows_what_it_stands_for():
    memory = RowMemory(np.zeros((0, 1)), np.zeros(0), np.zeros(0), np.zeros(0), {})
    for batch in range(30):
        X = np.arange(100.0)[:, None] + 100 * batch
        y = np.repeat(["often", "rare"], [95, 5])
        memory = memory.joined(X, y, np.ones(100), seed=batch).trimmed(200)
        assert len(memory.rows) <= 200
    labels, counts = np.unique(memory.labels, return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == {"often": 100, "rare": 100}
    weights = memory.weights()
    assert weights[memory.labels == "often"].sum() == pytest.approx(2850)
    assert weights[memory.labels == "rare"].sum() == pytest.approx(150)
    ages = memory.rows[memory.labels == "often", 0]
    assert 1100 < ages.mean() < 1900, "rows of all batches are alike to the memory"
