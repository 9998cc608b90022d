"""Many tasks at once: the same as one at a time, to the bit, and in one pass when predicting."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import DriftWarning
from everspan.scenarios import LinearStream


def state(model):
    """All that a model has learned, to the bit."""
    predictors = model.predictors_
    kept = [
        (k.version, k.feature, k.coefficients.tobytes(), k.intercept, k.errors, k.summary.tobytes(), k.doubt)
        for k in (predictors.at(i) for i in range(len(predictors)))
    ]
    prior = model.prior_
    return (
        kept,
        list(model.history_),
        model.tasks_,
        model.representation_.features.tobytes(),
        model.representation_.basis.tobytes(),
        {index: mean.tobytes() for index, mean in predictors._means.items()},
        getattr(model, "classes_", np.zeros(0)).tolist(),
        list(getattr(model, "_label_set_of", ())),
        None if prior is None else (prior.mean.tobytes(), prior.precision.tobytes(), prior.trusted),
    )


def mixed_stream(seed, regression, tasks=60):
    """Tasks of several sizes: easy and noisy ones, of one class, off the origin, with names that come again."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 12))
    shared = np.linalg.qr(rng.standard_normal((d, min(2, d))))[0]
    for i in range(tasks):
        n = int(rng.choice([1, 3, 20, 20, 20, 60, 60, 400]))
        X = rng.standard_normal((n, d)) + (3.0 * rng.standard_normal(d) if rng.random() < 0.1 else 0.0)
        score = X @ (shared @ rng.standard_normal(shared.shape[1]))
        if rng.random() < 0.15:
            score = X @ rng.standard_normal(d)
        score = score + (rng.choice([0.0, 0.0, 1.0]) * rng.standard_normal(n)) + rng.choice([0.0, 5.0], p=[0.95, 0.05])
        y = score if regression else rng.choice([1, 1, 2]) * np.where(score > 0.0, 1, 0)
        X = [X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]][rng.integers(3)]  # however rows lie in memory
        yield (f"task {i}" if rng.random() < 0.95 or not i else f"task {i - 1}"), X, y


@pytest.mark.parametrize("regression", [True, False])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=12, deadline=None)
def test_together_is_one_at_a_time(regression, seed):
    kind = LifelongRegressor if regression else LifelongClassifier
    rng = np.random.default_rng(seed)
    options = {
        "epsilon": float(rng.choice([0.05, 0.2])),
        "goal": str(rng.choice(["absolute", "excess"])),
        "refiner": [None, "sdp"][int(rng.integers(2))],
        "fit_intercept": bool(rng.integers(2)),
    }
    if not regression:
        options["learner"] = str(rng.choice(["auto", "logistic"]))
    together, alone = kind(**options), kind(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        try:
            events = together.learn_tasks(mixed_stream(seed, regression))
            wrong = None
        except ValueError as error:  # a task that comes again with another class
            events, wrong = None, str(error)
        expected, complaint = [], None
        for name, X, y in mixed_stream(seed, regression):
            try:
                expected.append(alone.learn_task(X, y, task=name))
            except ValueError as error:
                complaint = str(error)
                break
    assert wrong == complaint
    assert state(together) == state(alone)
    if wrong is None:
        assert events == expected


def test_reused_tasks_are_really_fitted_together(monkeypatch):
    stream = list(LinearStream(d=20, k=2, tasks=300, rows=300, seed=1))
    model = LifelongClassifier(learner="logistic")
    calls = []
    original = LifelongClassifier._learn_rows
    monkeypatch.setattr(LifelongClassifier, "_learn_rows", lambda *a, **b: calls.append(1) or original(*a, **b))
    events = model.learn_tasks(stream)
    assert len(events) == 300
    assert len(calls) < 120  # the first, those that grew, and those with doubts among the first 64


def test_a_stream_that_breaks_keeps_what_came_before():
    stream = list(LinearStream(d=6, k=2, tasks=20, rows=50, seed=1))

    def broken():
        yield from stream[:17]
        raise OSError("the line went dead")

    model = LifelongClassifier()
    with pytest.raises(OSError, match="went dead"):
        model.learn_tasks(broken())
    assert len(model.tasks_) == 17
    with pytest.raises(ValueError, match=r"\(task, X, y\) for every task, but place 1"):
        model.learn_tasks([("more", *stream[18][1:]), ("bad", 1)])
    assert model.tasks_[-1] == "more"
    with pytest.raises(ValueError, match="NaN"):
        model.learn_tasks([("last", *stream[19][1:]), ("nan", np.full((3, 6), np.nan), np.ones(3))])
    assert model.tasks_[-1] == "last"
    assert model.learn_tasks([]) == []


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_rows_that_cannot_be_learned_are_said_after_those_before_them(bad, fit_intercept):
    stream = list(LinearStream(d=6, k=2, tasks=60, rows=50, seed=1))
    name, X, y = stream[45]
    stream[45] = (name, np.where(np.arange(X.size).reshape(X.shape) == 7, bad, X), y)
    outcomes = []
    for together in (True, False):
        model = LifelongClassifier(fit_intercept=fit_intercept)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if bad == 1e200 else "error")  # of so large rows anyone is warned
                if together:
                    model.learn_tasks(stream)
                else:
                    for name, X, y in stream:
                        model.learn_task(X, y, task=name)
            said = None
        except ValueError as error:
            said = str(error)
        outcomes.append((said, state(model)))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][1][2]) == 45


@pytest.mark.parametrize("kind", [LifelongClassifier, LifelongRegressor])
def test_predictions_in_one_pass_are_those_of_every_task(kind):
    regression = kind is LifelongRegressor
    stream = LinearStream(d=8, k=2, tasks=40, rows=80, seed=4, kind="regression" if regression else "classification")
    model = kind().fit(
        np.concatenate([X for _, X, _ in stream]),
        np.concatenate([y for *_, y in stream]),
        tasks=[name for name, X, _ in stream for _ in X],
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 8))
    which = rng.integers(40, size=500)
    names = np.array([name for name, *_ in stream])[which]
    score = model.predict if regression else model.decision_function
    one = np.array([score(x[None], task=name)[0] for x, name in zip(X, names, strict=True)])
    for column in (names, names.tolist(), names.astype(object)):
        np.testing.assert_allclose(score(X, tasks=column), one, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="'nobody' has not been learned"):
        model.predict(X[:2], tasks=np.array([names[0], "nobody"]))
    for name in list(itertools.islice(model.tasks_, 39)):
        model.forget(name)
    assert len(score(X[:3], tasks=[model.tasks_[0]] * 3)) == 3


def test_learning_stops_as_soon_as_it_is_told_to():
    told, stream = [], list(LinearStream(d=6, k=2, tasks=60, rows=40, seed=1))

    def until():
        told.append(len(told))
        return len(told) == 3  # only once

    events = LifelongClassifier().learn_tasks(stream, until=until)
    assert 3 <= len(events) < 30
    assert [event.task for event in events] == [name for name, _, _ in stream[: len(events)]]
