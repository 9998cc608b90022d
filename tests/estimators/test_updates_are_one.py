"""However rows come, one model is the result: one at a time, together, or with a file in between."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan import LifelongClassifier, LifelongRegressor

COMMON = {
    "goal": ["absolute", "excess"],
    "n_features": [None, 2],
    "refiner": ["auto", None],
    "refine_above": [None, 4],
    "old_tasks": ["reproject", "freeze"],
    "prior": ["learned", None],
    "fit_intercept": [True, False],
}
OWN = {"loss": ["error", "auc", "log_loss"], "class_weight": [None, "balanced"]}


@st.composite
def streams(draw):
    """A kind of model, its settings, rows of tasks in turn, and where a file comes between."""
    kind = draw(st.sampled_from([LifelongRegressor, LifelongClassifier]))
    choices = COMMON | (OWN if kind is LifelongClassifier else {})
    given_ = {name: draw(st.sampled_from(values)) for name, values in choices.items()}
    d, tasks = draw(st.sampled_from([2, 12, 60])), draw(st.sampled_from([3, 12]))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    weights = rng.standard_normal((tasks, 2)) @ rng.standard_normal((2, d))
    sizes = draw(st.sampled_from([(1, 3), (10,), (5, 40), (120,)]))
    turns = []
    for task in [*range(tasks), *rng.integers(tasks, size=2 * tasks).tolist()]:
        n = int(rng.choice(sizes))
        X = rng.standard_normal((n, d))
        y = X @ weights[task] + draw(st.sampled_from([0.1, 1.0])) * rng.standard_normal(n)
        turns.append((task, X, y if kind is LifelongRegressor else (y > 0).astype(int)))
    return kind, given_, turns, draw(st.integers(1, len(turns) - 1))


def predictions(model, d):
    X = np.random.default_rng(0).standard_normal((5, d))
    scores = model.predict if isinstance(model, LifelongRegressor) else model.decision_function
    return np.array([scores(X, task=task) for task in model.tasks_])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("between")


@settings(max_examples=40, deadline=None)
@given(streams())
def test_one_at_a_time_together_and_with_a_file_in_between(folder, stream):
    kind, given_, turns, cut = stream
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, together = kind(**given_), kind(**given_)
        for task, X, y in turns[:cut]:
            one.learn_task(X, y, task=task)
        one.save(folder / "m.everspan")
        loaded = kind.load(folder / "m.everspan")
        for task, X, y in turns[cut:]:
            one.learn_task(X, y, task=task)
            loaded.learn_task(X, y, task=task)
        together.learn_tasks(turns)
    expected, d = predictions(one, turns[0][1].shape[1]), turns[0][1].shape[1]
    assert np.isfinite(expected).all()
    assert np.array_equal(predictions(loaded, d), expected)
    assert np.array_equal(predictions(together, d), expected)
    features = [one.predictors_.at(index).feature for index in range(len(one.predictors_))]
    assert sorted(f for f in features if f >= 0) == list(range(len(one.representation_.features)))
