"""Bad input and edges: a clear word, and a call that fails changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.estimators import DriftWarning
from everspan.scenarios import LinearStream

STREAM = LinearStream(d=8, k=2, tasks=5, rows=60, seed=2)


def taught(kind=LifelongClassifier, **parameters):
    model = kind(**parameters)
    for name, X, y in STREAM[:4]:
        model.learn_task(X, X @ STREAM.targets[0] if kind is LifelongRegressor else y, task=name)
    return model


def state(model):
    """Everything one can observe of a model."""
    X = STREAM.test(0, 50).X
    return (
        model.predict(X, tasks=np.resize(np.array(model.tasks_), 50)).tolist(),
        model.transform(X).tobytes(),
        list(model.history_),
        model.tasks_,
        model.representation_.features.tobytes(),
        len(model.predictors_),
        len(model.predictors_.bases),
        getattr(model, "classes_", np.zeros(0)).tolist(),
    )


class Bursting:
    """A source of labels that breaks after the first draws."""

    def __init__(self, good):
        self.good = good

    def draw(self, n):
        if self.good == 0:
            raise OSError("the label service is down")
        self.good -= 1
        return STREAM.source(4).draw(n)


_, GOOD, LABELS = STREAM[4]
MISSING, INFINITE = GOOD.copy(), GOOD.copy()
MISSING[3, 2], INFINITE[3, 2] = np.nan, np.inf
BAD_CALLS = {
    "NaN in X": ({"X": MISSING, "y": LABELS, "task": "new"}, "NaN"),
    "infinity in X": ({"X": INFINITE, "y": LABELS, "task": "new"}, "infinity"),
    "too few columns": ({"X": GOOD[:, :5], "y": LABELS, "task": "new"}, "5 features"),
    "one dimension": ({"X": GOOD[0], "y": LABELS, "task": "new"}, "1D array"),
    "no rows": ({"X": GOOD[:0], "y": LABELS[:0], "task": "new"}, "0 sample"),
    "labels missing": ({"X": GOOD, "y": None, "task": "new"}, "requires y"),
    "fewer labels than rows": ({"X": GOOD, "y": LABELS[:-1], "task": "new"}, "60"),
    "NaN in y": ({"X": GOOD, "y": np.where(np.arange(60) == 2, np.nan, LABELS), "task": "new"}, "NaN"),
    "a source for a task that is known": ({"X": Bursting(1), "task": "task 1"}, "'task 1' is already learned"),
    "bad rows for a task that is known": ({"X": GOOD, "y": LABELS[:-1], "task": "task 1"}, "60"),
    "weights of another length": ({"X": GOOD, "y": LABELS, "task": "new", "sample_weight": [1.0]}, "sample_weight"),
    "negative weights": ({"X": GOOD, "y": LABELS, "task": "new", "sample_weight": -np.ones(60)}, "not negative"),
    "weights of zero": ({"X": GOOD, "y": LABELS, "task": "new", "sample_weight": np.zeros(60)}, "weight zero"),
    "text in X": ({"X": GOOD.astype(str).astype(object) + "x", "y": LABELS, "task": "new"}, "convert"),
    "a source that breaks at once": ({"X": Bursting(0), "task": "new"}, "label service"),
    "a source that breaks later": ({"X": Bursting(1), "task": "new"}, "label service"),
    "a source with weights": ({"X": Bursting(1), "task": "new", "sample_weight": [1.0]}, "not with labels on demand"),
}


@pytest.mark.parametrize("kind", [LifelongClassifier, LifelongRegressor])
@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_call_that_fails_changes_nothing(kind, case):
    arguments, message = BAD_CALLS[case]
    arguments = {
        name: (Bursting(value.good) if isinstance(value, Bursting) else value) for name, value in arguments.items()
    }
    model = taught(kind)
    before = state(model)
    with pytest.raises((ValueError, OSError), match=message):
        model.learn_task(**arguments)
    assert state(model) == before
    model.learn_task(GOOD, LABELS, task="new")  # and the model still learns
    assert model.tasks_[-1] == "new"


def test_a_table_that_fails_at_its_last_task_changes_nothing():
    model = taught()
    before = state(model)
    X, y = np.vstack([GOOD, GOOD]), np.concatenate([LABELS, LABELS])
    with pytest.raises(DriftWarning):  # an error here: after the update of a task that is known
        model.partial_fit(X, y, tasks=np.repeat(["fresh", "task 0"], 60))
    assert state(model) == before
    with pytest.raises(ValueError, match="row 119"):
        model.partial_fit(X, y, tasks=np.array(["fresh"] * 119 + [None], dtype=object))
    assert state(model) == before


def test_a_fit_that_fails_keeps_the_old_model():
    model = taught()
    before = state(model)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(MISSING, LABELS)
    assert state(model) == before


def test_a_learner_that_breaks_midway_leaves_no_trace():
    class Broken:
        balanced = False
        fits = 0

        def fit(self, rows):
            from everspan.learners import Logistic

            self.fits += 1
            if self.fits > 2:
                raise RuntimeError("broken")
            return Logistic().fit(rows)

    model = taught()
    before = state(model)
    model.set_params(learner=Broken(), epsilon=1e-9)
    three = np.arange(60) % 3
    with pytest.raises((RuntimeError, TypeError), match=r"broken|dataclass"):
        model.learn_task(GOOD, three, task="three classes")
    model.set_params(learner="auto", epsilon=0.1)
    assert state(model) == before


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), ("no", "yes"), (True, False), (3.0, 7.0), (10, 2)])
def test_any_two_labels(labels):
    y = np.where(LABELS > 0, *labels)
    model = LifelongClassifier().fit(GOOD, y)
    assert sorted(model.classes_.tolist()) == sorted(labels)
    assert model.score(GOOD, y) > 0.9
    assert set(model.predict(GOOD).tolist()) == set(labels)
    assert model.predict_proba(GOOD).shape == (60, 2)


def test_tasks_with_labels_of_different_kinds():
    model = LifelongClassifier()
    model.learn_task(GOOD, LABELS, task="numbers")
    model.learn_task(GOOD, np.where(LABELS > 0, "up", "down"), task="words")
    mixed = model.predict(GOOD, tasks=["numbers"] * 30 + ["words"] * 30)
    assert set(mixed[:30]) <= {-1.0, 1.0}
    assert set(mixed[30:]) <= {"up", "down"}
    with pytest.raises(ValueError, match="different classes"):
        model.predict_proba(GOOD, tasks=["numbers"] * 30 + ["words"] * 30)


@pytest.mark.parametrize("first", [True, False])
def test_a_task_of_one_class_predicts_it_and_learns_no_feature(first):
    model = LifelongClassifier() if first else taught()
    learned = 0 if first else len(model.representation_.features)
    event = model.learn_task(GOOD, np.full(60, "spam"), task="one")
    assert (event.action, event.features_learned) == ("reused", learned)
    assert set(model.predict(GOOD, task="one")) == {"spam"}
    assert (model.predict_proba(GOOD, task="one") == 1.0).all()
    model.learn_task(GOOD, LABELS, task="two")
    assert model.score(GOOD, LABELS, task="two") > 0.9


def test_a_constant_target_is_predicted():
    model = LifelongRegressor()
    model.learn_task(GOOD, np.full(60, 5.0), task="flat")
    np.testing.assert_allclose(model.predict(GOOD, task="flat"), 5.0)


def test_constant_columns_and_fewer_rows_than_columns():
    X = np.column_stack([GOOD, np.full(60, 3.0), np.zeros(60)])
    assert LifelongClassifier().fit(X, LABELS).score(X, LABELS) > 0.9
    stream = LinearStream(d=50, k=1, tasks=3, rows=400, seed=0)
    model = LifelongClassifier()
    for name, rows, y in stream[:2]:
        model.learn_task(rows, y, task=name)
    _, rows, y = stream[2]
    event = model.learn_task(rows[:10], y[:10], task="ten rows")
    assert event.action == "reused"
    assert model.score(*stream.test(2)[1:], task="ten rows") > 0.85


def test_columns_without_information_are_no_feature():
    model = LifelongClassifier()
    event = model.learn_task(np.ones((20, 3)), np.array([0, 1] * 10), task="blind")
    assert (event.action, event.met, event.dimension) == ("reused", False, 0)
    assert model.transform(np.ones((2, 3))).shape == (2, 0)


def test_predicting_for_an_unknown_task_names_the_known_ones():
    model = taught()
    with pytest.raises(ValueError, match=r"'acme' has not been learned; known are 'task 0', 'task 1'"):
        model.predict(GOOD, task="acme")
    with pytest.raises(ValueError, match="name the task"):
        model.predict(GOOD)
    with pytest.raises(ValueError, match="either task"):
        model.predict(GOOD, task="task 0", tasks=["task 0"] * 60)
    with pytest.raises(NotFittedError):
        LifelongClassifier().predict(GOOD, task="acme")


@pytest.mark.parametrize("kind", [LifelongClassifier, LifelongRegressor])
def test_an_unknown_task_predicts_like_the_average_one_if_asked(kind):
    model = kind(unseen_tasks="average")
    rng = np.random.default_rng(0)
    common = rng.standard_normal(8)
    X = rng.standard_normal((400, 8))
    for i in range(6):
        target = X @ (common + 0.3 * rng.standard_normal(8))
        model.learn_task(X, target if kind is LifelongRegressor else np.sign(target), task=i)
    truth = X @ common
    assert model.score(X, truth if kind is LifelongRegressor else np.sign(truth), task="new") > 0.9


def test_bounds_need_unseen_rows_and_plain_ones():
    with pytest.raises(ValueError, match="has not seen"):
        LifelongClassifier(accept="bound", check="loo").fit(GOOD, LABELS)
    with pytest.raises(ValueError, match="no bound for loss"):
        LifelongClassifier(accept="bound", loss="auc").fit(GOOD, LABELS)
    with pytest.raises(ValueError, match="count once"):
        LifelongClassifier(accept="bound").fit(GOOD, LABELS, sample_weight=np.arange(60.0))
    with pytest.raises(ValueError, match="need a loss with a bound"):
        LifelongClassifier(loss="log_loss").learn_task(STREAM.source(0), task=0)


def test_no_probabilities_without_a_meaning():
    model = LifelongClassifier(learner="averaging").fit(GOOD, LABELS)
    assert not hasattr(model, "predict_proba")
    assert model.decision_function(GOOD).shape == (60,)


def test_class_incremental_edges():
    model = ClassIncrementalClassifier(memory=20)
    with pytest.raises(ValueError, match="NaN"):
        model.learn_task(MISSING, LABELS)
    model.learn_task(GOOD, np.zeros(60, dtype=int))
    assert set(model.predict(GOOD)) == {0}
    model.learn_task(GOOD + 3.0, np.ones(60, dtype=int))
    before = model.predict_proba(GOOD).tobytes(), len(model.memory_.rows), model.tasks_
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(INFINITE, LABELS)
    assert (model.predict_proba(GOOD).tobytes(), len(model.memory_.rows), model.tasks_) == before
    assert len(model.memory_.rows) == 20
    with pytest.raises(ValueError, match="memory"):
        ClassIncrementalClassifier(memory=0).fit(GOOD, LABELS)
