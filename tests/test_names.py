"""Names of tasks: they come back from a file as they were, and are found by what a user types."""

import enum
import json
import uuid
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan import LifelongRegressor
from everspan.cli import main
from everspan.names import decoded, encoded, key_of, meanings, shown

ZONES = st.integers(-23, 23).map(lambda hours: timezone(timedelta(hours=hours))) | st.none()
TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES)
NAMES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False)
    | st.dates()
    | TIMES
    | st.uuids(),
    lambda parts: st.lists(parts, max_size=3).map(tuple),
    max_leaves=5,
)


@given(NAMES, NAMES)
def test_names_come_back_and_equal_names_have_one_key(one, other):
    back = decoded(encoded(one))
    assert back == one
    assert type(back) is type(one)
    assert (key_of(one) == key_of(other)) == (one == other)
    assert one in list(meanings(encoded(one)))
    assert key_of(np.int64(3)) == key_of(3.0) == key_of(3)


@given(st.text() | st.dates() | TIMES | st.uuids() | st.integers())
def test_what_is_shown_is_understood(name):
    assert name in list(meanings(shown(name)))


@given(TIMES.filter(lambda time: time.tzinfo is not None))
def test_one_moment_is_one_name_in_every_zone(time):
    assert key_of(time) == key_of(time.astimezone(UTC))


def test_a_name_of_another_kind_that_is_equal_to_text_is_that_text():
    class Shop(str, enum.Enum):  # noqa: UP042  (str() of it is its own name)
        NORTH = "north"

    assert key_of(Shop.NORTH) == key_of("north")
    assert decoded(encoded(Shop.NORTH)) == Shop.NORTH


@pytest.mark.parametrize("name", [frozenset({1}), pd.Timestamp(1), b"a"])
def test_what_is_no_name_is_said(name):
    with pytest.raises(TypeError, match="names are text, numbers"):
        encoded(name)


def months(unit="ns"):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    table = pd.DataFrame({"month": pd.date_range("2026-01-01", periods=3, freq="MS").repeat(30)})
    table["month"] = table["month"].astype(f"datetime64[{unit}]")
    return X, X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(90), table["month"]


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_a_column_of_dates_names_tasks(tmp_path, capsys, unit):
    X, y, month = months(unit)
    model = LifelongRegressor().fit(X, y, tasks=month)
    assert model.tasks_ == [datetime(2026, m, 1) for m in (1, 2, 3)]
    by_row = model.predict(X, tasks=month)
    assert np.array_equal(model.predict(X[:30], task=pd.Timestamp("2026-01-01")), by_row[:30])
    model.save(tmp_path / "months.everspan")
    again = LifelongRegressor.load(tmp_path / "months.everspan")
    assert again.tasks_ == model.tasks_
    assert np.array_equal(again.predict(X, tasks=month), by_row)
    assert main(["show", str(tmp_path / "months.everspan"), "--task", "2026-02-01", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "2026-02-01 00:00:00"


@pytest.mark.parametrize(
    ("unit", "first"), [("D", date(2026, 1, 1)), ("s", datetime(2026, 1, 1)), ("ns", datetime(2026, 1, 1))]
)
def test_a_date_of_numpy_is_the_date_itself(tmp_path, unit, first):
    X, y, month = months()
    names = np.unique(month.to_numpy()).astype(f"datetime64[{unit}]")
    model, parts = LifelongRegressor(), [(name, X[i::3], y[i::3]) for i, name in enumerate(names)]
    model.learn_task(*parts[0][1:], task=names[0])
    model.learn_tasks(parts[1:])
    assert model.tasks_[0] == first
    assert len(model.tasks_) == 3
    model.learn_task(*parts[2][1:], task=names[2])  # more of it
    assert len(model.tasks_) == 3
    model.save(tmp_path / "months.everspan")
    again = LifelongRegressor.load(tmp_path / "months.everspan")
    for known in (model, again):
        assert np.array_equal(known.predict(X, task=names[0]), model.predict(X, task=first))
        assert np.array_equal(known.predict(X[:3], tasks=list(names)), known.predict(X[:3], tasks=model.tasks_))
    assert again.forget(names[1]).tasks_ == [model.tasks_[0], model.tasks_[2]]


def test_lengths_of_time_and_polars_zones_are_what_a_user_would_ask_for():
    X, y, _ = months()
    lengths = pd.Series(pd.to_timedelta(np.repeat([1, 2, 3], 30), unit="h")).astype("timedelta64[ns]")
    model = LifelongRegressor().fit(X, y, tasks=lengths)
    assert model.predict(X[:1], task=lengths.iloc[0]).shape == (1,)
    polars = pytest.importorskip("polars")
    column = polars.Series([datetime(2026, month, 1) for month in (1, 2, 3) for _ in range(30)])
    column = column.dt.replace_time_zone("Europe/Berlin")
    model = LifelongRegressor().fit(X, y, tasks=column)
    assert model.predict(X[:1], task=column[0]).shape == (1,)


def test_dates_and_uuids_are_kept_and_found(tmp_path, capsys):
    X, y, _ = months()
    names = [date(2026, 5, 1), uuid.UUID(int=7), ("acme", date(2026, 5, 1))]
    model = LifelongRegressor()
    for part, name in enumerate(names):
        model.learn_task(X[part::3], y[part::3], task=name)
    model.save(tmp_path / "m.everspan")
    assert LifelongRegressor.load(tmp_path / "m.everspan").tasks_ == names
    for text in ("2026-05-01", str(names[1]), encoded(names[2])):
        assert main(["show", str(tmp_path / "m.everspan"), "--task", text]) == 0
        assert text in capsys.readouterr().out


def test_times_that_python_cannot_tell_apart_are_refused():
    X, y, _ = months()
    fine = np.datetime64("2026-01-01", "ns") + np.arange(90)
    with pytest.raises(ValueError, match="finer than a microsecond"):
        LifelongRegressor().fit(X, y, tasks=fine)
    with pytest.raises(ValueError, match="finer than a microsecond"):
        LifelongRegressor().learn_task(X, y, task=fine[1])
    far = np.full(90, np.datetime64("12026-01-01"))
    with pytest.raises(ValueError, match="too far off"):
        LifelongRegressor().fit(X, y, tasks=far)
    missing = np.where(np.arange(90) == 4, np.datetime64("NaT"), np.datetime64("2026-01-01", "ns"))
    with pytest.raises(ValueError, match="row 4 has None"):
        LifelongRegressor().fit(X, y, tasks=missing)
