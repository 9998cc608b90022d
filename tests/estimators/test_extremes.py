"""Numbers without room and labels that no file can hold are refused when they are learned, and change nothing."""

from __future__ import annotations

import warnings
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.learners import Logistic
from everspan.tasks import Rows

from .crowd import D, learn_all, stream
from .interrupting import digest
from .test_together import state

KINDS = [LifelongClassifier, LifelongRegressor, ClassIncrementalClassifier]
_, X, Y = next(stream(LifelongRegressor, 1))
SIGNS = np.where(Y > 0.0, 1, 0)


def in_use(kind):
    model = kind()
    if kind is ClassIncrementalClassifier:
        return model.fit(X, SIGNS)
    learn_all(model, stream(kind, 10))
    return model


def labels_of(kind):
    return Y if kind is LifelongRegressor else SIGNS


def changed(values, place, value):
    values = np.array(values, dtype=np.float64)
    values[place] = value
    return values


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_whose_squares_have_no_room_are_refused_with_their_place(kind):
    model = in_use(kind)
    before = digest(model)
    with pytest.raises(ValueError, match=r"X has 1e\+200 in row 3, column 2: .*as large as 1e\+100"):
        model.learn_task(changed(X, (3, 2), 1e200), labels_of(kind))
    with pytest.raises(ValueError, match=r"sample_weight has 1e\+150 in row 4"):
        model.learn_task(X, labels_of(kind), sample_weight=changed(np.ones(len(X)), 4, 1e150))
    with pytest.raises(ValueError, match=r"sample_weight must be 0 or at least 1e-100"):
        model.learn_task(X, labels_of(kind), sample_weight=changed(np.ones(len(X)), 4, 1e-320))
    with pytest.raises(ValueError, match=r"X has -1e\+101 in row 0, column 'b'"):
        kind().fit(pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [-1e101, 0.0, 1.0]}), [0, 1, 0])
    assert digest(model) == before


def test_a_target_whose_squares_have_no_room_is_refused_alone_and_among_many():
    model, y = in_use(LifelongRegressor), changed(Y, 7, -1e101)
    before = digest(model)
    with pytest.raises(ValueError, match=r"y has -1e\+101 in row 7"):
        model.learn_task(X, y, task="new")
    with pytest.raises(ValueError, match=r"y has -1e\+101 in row 7"):
        model.learn_tasks([("new", X, y), ("next", X, Y)])
    assert digest(model) == before


class Source:
    def draw(self, n):
        return changed(np.ones((n, D)), (1, 0), 1e200), np.arange(n) % 2


def test_labels_on_demand_have_room_too():
    model = in_use(LifelongClassifier)
    with pytest.raises(ValueError, match=r"X has 1e\+200 in row 1, column 0"):
        model.learn_task(Source(), task="new")


def test_what_may_not_be_learned_from_may_be_predicted_for():
    model = in_use(LifelongRegressor)
    assert np.isfinite(model.predict(changed(X, (0, 0), 1e200), task=0)).all()


UNUSABLE = {
    "dates": (SIGNS.astype("M8[D]"), r"y has the dtype datetime64\[D\]: make its dates or times numbers, or text"),
    "durations": (SIGNS.astype("m8[s]"), r"y has the dtype timedelta64\[s\]"),
    "complex numbers": (SIGNS.astype(complex), r"y has the dtype complex128, and real numbers were expected"),
    "records": (np.zeros(len(X), dtype=[("a", "f8")]), "y has the structured dtype"),
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_no_file_can_hold_are_refused(kind, name):
    labels, message = UNUSABLE[name]
    model = in_use(kind)
    before = digest(model)
    if labels.dtype.kind in "mM":
        with pytest.raises(ValueError, match="make its dates or times numbers, or text"):
            model.learn_task(X, pd.Series(labels))
    with pytest.raises(ValueError, match=message):
        model.learn_task(X, labels)
    assert digest(model) == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]", "complex128", [("a", "f8"), ("b", "f8")]])
def test_rows_that_are_no_real_numbers_are_refused(kind, dtype):
    rows = np.zeros(len(X), dtype=dtype) if isinstance(dtype, list) else np.zeros(X.shape, dtype=dtype)
    with pytest.raises(ValueError, match="X has the"):
        kind().learn_task(rows, labels_of(kind))


def test_labels_of_bytes_and_odd_objects_are_refused():
    for labels in (np.where(SIGNS == 1, b"a", b"b"), np.array([Decimal(int(s)) for s in SIGNS], dtype=object)):
        with pytest.raises(ValueError, match=r"bytes|Unknown label type"):
            LifelongClassifier().learn_task(X, labels)


class Broken(Logistic):
    """A learner whose fits overflow when it is told so."""

    value = None

    def fit(self, rows: Rows):
        fit = super().fit(rows)
        return fit if self.value is None else type(fit)(np.full_like(fit.coef, self.value), 0.0, fit.unseen)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_fit_that_is_not_finite_is_refused_and_changes_nothing(value):
    learner = Broken()
    model = LifelongClassifier(learner=learner, prior=None)
    learn_all(model, stream(LifelongClassifier, 6))
    before = state(model)
    learner.__dict__["value"] = value
    _, rows, labels = next(stream(LifelongClassifier, 1, seed=4))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"not finite|infinity|NaN"):
            model.learn_task(rows, labels, task="new")
    assert state(model) == before


EXTREME = [0.0, 1.0, -1.0, 1e-320, 1e-160, 1e-100, 1e60, 1e100, -1e100, 3e99, 1e30]


@settings(max_examples=40)
@given(st.data())
def test_what_is_learned_of_extreme_numbers_is_finite(data):
    kind = data.draw(st.sampled_from(KINDS))
    n, d = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 3))
    model, rng = kind(), np.random.default_rng(data.draw(st.integers(0, 99)))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for task in range(data.draw(st.integers(1, 3))):
            rows = rng.standard_normal((n, d))
            for _ in range(data.draw(st.integers(0, 4))):
                place = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, d - 1))
                rows[place] = data.draw(st.sampled_from(EXTREME))
            y = rows[:, 0].copy() if kind is LifelongRegressor else np.arange(n) % 2
            weight = data.draw(st.none() | st.just(np.logspace(-100, 100, n)))
            with suppress(ValueError):
                model.learn_task(rows, y, sample_weight=weight, **({} if hasattr(model, "memory") else {"task": task}))
        if "history_" in vars(model):
            for array in (model.representation_.features, model.representation_.basis, model.representation_.errors):
                assert np.isfinite(array).all()
            for index in range(len(model.predictors_)):
                kept = model.predictors_.at(index)
                assert np.isfinite([*kept.coefficients, kept.intercept, *kept.summary]).all()
            assert not any(np.isinf([event.error, event.error_bound or 0.0]).any() for event in model.history_)
