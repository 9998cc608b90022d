"""What `learn_task` accepts, `save` writes and `load` reads, to the bit; what is refused changes nothing."""

from __future__ import annotations

import datetime
import tempfile
import uuid
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor

D, ROWS = 3, 12
PROBE = np.random.default_rng(7).standard_normal((6, D))

numbers = st.one_of(
    st.floats(-3.0, 3.0),
    st.sampled_from([0.0, -0.0, 1e-310, 5e-324, 1e-160, 1e60, -1e99, 1e100, 1.1e100, 1e160, -1e200, 1.7e308]),
    st.floats(allow_nan=True, allow_infinity=True),
)
tables = st.one_of(
    npst.arrays(np.float64, (ROWS, D), elements=st.floats(-3.0, 3.0)),
    npst.arrays(np.float64, (ROWS, D), elements=numbers, fill=st.floats(-3.0, 3.0)),
    npst.arrays(st.sampled_from([np.int8, np.uint64, np.float32, np.bool_]), (ROWS, D)),
)
names = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=True),
    st.dates(),
    st.datetimes(timezones=st.sampled_from([None, datetime.UTC])),
    st.uuids(),
    st.tuples(st.text(max_size=2), st.integers()),
    st.binary(max_size=3),
    st.text(st.characters(categories=["Cs", "L"]), min_size=1, max_size=3),
    st.sampled_from([np.str_("n"), np.int8(3), np.datetime64("2026-11-19"), np.datetime64("2026-11-19T01", "ns")]),
)
LABELS = {
    "bool": [True, False],
    "int8": [-3, 7],
    "uint64": [2**64 - 1, 0],
    "int64": [1234567890123456789, 1234567890123456799],
    "float32": [0.0, 2.0],
    "float64": [1e15, -1.0],
    "longdouble": [0.0, 1.0],
    "<U3": ["low", "hi"],
    "<U40": ["x", ""],
    "S3": [b"a", b"b"],
    "object": ["a", "b"],
    "object numbers": [1, 2],
    "object mixed": ["a", 1],
    "datetime64[D]": ["2026-11-19", "2026-11-20"],
    "datetime64[ns]": ["2026-11-19T00:00:00.000000001", "2026-11-20"],
    "timedelta64[s]": [1, 2],
    "complex128": [1j, 0],
}


@st.composite
def labels(draw):
    """Labels of one dtype: of two classes, or of one, or numbers anywhere."""
    kind = draw(st.sampled_from(sorted(LABELS)))
    values, dtype = LABELS[kind], np.dtype(kind.split()[0])
    places = draw(st.lists(st.sampled_from([0, 1]), min_size=ROWS, max_size=ROWS))
    found = np.empty(ROWS, dtype=dtype)
    for row, place in enumerate(places):
        found[row] = values[place]
    return found


targets = st.one_of(
    npst.arrays(np.float64, ROWS, elements=st.floats(-3.0, 3.0)), npst.arrays(np.float64, ROWS, elements=numbers)
)
models = st.one_of(
    st.tuples(st.just(LifelongClassifier), labels()),
    st.tuples(st.just(LifelongRegressor), targets),
    st.tuples(st.just(ClassIncrementalClassifier), labels()),
)


def answers(model):
    """Bytes of all answers, and all events."""
    if isinstance(model, ClassIncrementalClassifier):
        found = [model.decision_function(PROBE), model.predict(PROBE).tolist()]
    else:
        found = [model.predict(PROBE, task=task).tolist() for task in model.tasks_]
        found += [model.linear_predictor(task=task) for task in model.tasks_]
    return repr(found), list(model.history_), model.tasks_


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(models, tables, names, st.booleans(), st.one_of(st.none(), targets))
def test_what_is_accepted_is_saved_and_loaded_to_the_bit_and_what_is_refused_changes_nothing(
    chosen, X, name, intercept, weight
):
    kind, y = chosen
    model = kind(fit_intercept=intercept)
    first = np.random.default_rng(1).standard_normal((ROWS, D))
    sides = (first[:, 0] > 0.0).astype(y.dtype if y.dtype.kind in "iub" else int)
    model.learn_task(first, sides if kind is not LifelongRegressor else first[:, 0])
    others = {} if kind is ClassIncrementalClassifier else {"task": name}
    others |= {} if weight is None else {"sample_weight": np.abs(weight)}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "a.everspan"
        model.save(path)
        before, data = answers(model), path.read_bytes()
        refused = None
        try:
            model.learn_task(X, y, **others)
        except (ValueError, TypeError) as error:
            refused = str(error)
        if refused is not None:
            assert refused.strip()
            assert answers(model) == before
            model.save(path)
            assert answers(kind.load(path)) == before
            return
        expected = answers(model)
        try:
            model.save(path)
        except (ValueError, TypeError) as error:
            refused = str(error)
        if refused is not None:
            assert "cannot be stored" in refused or "cannot be saved" in refused, refused
            assert "could not be loaded" not in refused, refused
            assert path.read_bytes() == data, "the file is as it was"
            return
        loaded = kind.load(path)
        assert answers(loaded) == expected
        loaded.save(path)
        assert answers(kind.load(path)) == expected


@pytest.mark.parametrize("value", [1e200, -1e160, 1.1e100])
def test_a_number_whose_square_has_no_room_is_refused_by_name_and_all_other_tasks_stay(tmp_path, value):
    """One such cell used to be learned, saved, and refused by load, with all tasks."""
    rng, path = np.random.default_rng(0), tmp_path / "a.everspan"
    model = LifelongRegressor()
    for task in range(4):
        X = rng.standard_normal((20, D))
        model.learn_task(X, X[:, 0], task=task)
    model.save(path)
    X[7, 1] = value
    with pytest.raises(ValueError, match=r"1e\+100|too large"):
        model.learn_task(X, X[:, 0], task="huge")
    model.save(path)
    assert LifelongRegressor.load(path).tasks_ == [0, 1, 2, 3]


def test_ids_as_labels_stay_exact(tmp_path):
    rng, ids = np.random.default_rng(0), np.array([1234567890123456789, 1234567890123456799])
    X = rng.standard_normal((60, D))
    model = LifelongClassifier().fit(X, ids[(X[:, 0] > 0).astype(int)])
    model.save(tmp_path / "a.everspan")
    assert set(LifelongClassifier.load(tmp_path / "a.everspan").predict(X).tolist()) == set(ids.tolist())


def test_uuids_and_moments_are_names_in_a_file(tmp_path):
    rng, model = np.random.default_rng(0), LifelongRegressor()
    given_names = [uuid.UUID(int=7), datetime.datetime(2026, 11, 19, 8, tzinfo=datetime.UTC), datetime.date(2026, 1, 1)]
    for name in given_names:
        X = rng.standard_normal((20, D))
        model.learn_task(X, X[:, 0], task=name)
    model.save(tmp_path / "a.everspan")
    assert LifelongRegressor.load(tmp_path / "a.everspan").tasks_ == given_names
