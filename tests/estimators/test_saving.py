"""What is saved is what was: predictions, and all that is learned afterwards, to the bit."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.checks import HoldOut
from everspan.functions import ReLU
from everspan.learners import Logistic
from everspan.scenarios import LinearStream, ReLUStream
from everspan.store import StoreError

D = 6


def shops(tasks, rows=8, seed=0, regression=True):
    """Tasks of few noisy rows around one direction."""
    rng = np.random.default_rng(seed)
    for i in range(tasks):
        weights = np.array([2.0, -1.0, 0.5, 0, 0, 0]) + 0.3 * rng.standard_normal(D)
        X = rng.standard_normal((rows, D)) + 1.0
        y = X @ weights + rng.standard_normal() + rng.standard_normal(rows)
        yield f"shop {i}", X, y if regression else (y > 1.0).astype(int)


def streams():
    clean = list(LinearStream(d=D, k=2, tasks=9, rows=300, seed=0))
    yield "features", LifelongClassifier(n_features=2), clean[:6], clean[6:]
    numbers = list(LinearStream(d=D, k=2, tasks=9, rows=100, kind="regression", noise=0.1, seed=1))
    yield "numbers", LifelongRegressor(check=HoldOut(), goal="excess"), numbers[:6], numbers[6:]
    few = list(shops(20))
    yield "prior", LifelongRegressor(unseen_tasks="prior"), few[:15], few[15:]
    signs = list(shops(20, 12, regression=False))
    yield "doubts", LifelongClassifier(learner=Logistic(strengths=(1.0, 0.1))), signs[:15], signs[15:]
    named = [((name, 1), X, np.array(["no", "maybe", "yes"])[np.digitize(y, [-1, 1])]) for name, X, y in shops(6, 60)]
    yield "classes", LifelongClassifier(class_weight={"no": 2.0, "maybe": 1.0, "yes": 1.0}), named[:4], named[4:]
    bent = list(ReLUStream(d=4, k=2, tasks=5, rows=400, seed=0))
    yield "relu", LifelongRegressor(representation=ReLU(most=2, starts=1)), bent[:3], bent[3:]


STREAMS = {name: rest for name, *rest in streams()}


def answers(model, stream):
    return [model.predict(X, task=name) for name, X, _ in stream]


@pytest.mark.parametrize("name", STREAMS)
def test_a_loaded_model_predicts_and_learns_as_the_one_that_was_saved(name, tmp_path):
    model, first, rest = STREAMS[name]
    model = type(model)(**model.get_params(deep=False))
    path = tmp_path / "shop.everspan"
    for task, X, y in first:
        model.learn_task(X, y, task=task)
    model.learn_task(*[part[:5] for part in first[0][1:]], task=first[0][0])  # an update
    model.save(path)
    loaded = type(model).load(path)
    assert repr(loaded) == repr(model)
    assert loaded.history_ == model.history_
    assert loaded.tasks_ == model.tasks_
    for one, other in zip(answers(model, first), answers(loaded, first), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for task, X, y in rest:
        assert loaded.learn_task(X, y, task=task) == model.learn_task(X, y, task=task)
    loaded.forget(first[1][0])
    model.forget(first[1][0])
    for one, other in zip(answers(model, [first[0], *rest]), answers(loaded, [first[0], *rest]), strict=True):
        np.testing.assert_array_equal(one, other)
    loaded.save(path)  # in the place of the other
    assert type(model).load(path).history_ == model.history_


def test_classes_one_after_another(tmp_path):
    rng = np.random.default_rng(0)
    centres = 4.0 * rng.standard_normal((6, D))
    model = ClassIncrementalClassifier(memory=60)
    for label in range(4):
        model.learn_task(centres[label] + rng.standard_normal((40, D)), np.full(40, label))
    model.save(tmp_path / "classes.everspan")
    loaded = ClassIncrementalClassifier.load(tmp_path / "classes.everspan")
    X = np.vstack([centre + rng.standard_normal((30, D)) for centre in centres])
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    X_new, y_new = centres[4] + rng.standard_normal((40, D)), np.full(40, 4)
    assert loaded.learn_task(X_new, y_new) == model.learn_task(X_new, y_new)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_names_of_columns_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = next(iter(shops(1, 50)))[1:]
    table = pandas.DataFrame(X, columns=list("abcdef"))
    LifelongRegressor().fit(table, y).save(tmp_path / "a.everspan")
    model = LifelongRegressor.load(tmp_path / "a.everspan")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table.rename(columns={"a": "z"}))


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "shop.everspan"
    model = LifelongRegressor()
    for name, X, y in shops(12):
        model.learn_task(X, y, task=name)
    model.save(path)
    return path


def test_what_is_not_a_store_is_said_and_never_replaced(tmp_path, saved):
    model = LifelongRegressor.load(saved)
    (tmp_path / "text.everspan").write_text("hello")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (a)")
    for name, message in (
        ("missing", "there is no such file"),
        ("text.everspan", "damaged or no everspan file"),
        ("other.db", "is not an everspan file"),
        (".", "is not a file"),
    ):
        with pytest.raises(StoreError, match=message):
            LifelongRegressor.load(tmp_path / name)
    for name in ("text.everspan", "other.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(StoreError):
            model.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(StoreError, match="there is no folder"):
        model.save(tmp_path / "nowhere" / "a.everspan")
    with pytest.raises(StoreError, match="holds a LifelongRegressor"):
        LifelongClassifier.load(saved)


def test_a_newer_format_and_a_changed_table_are_refused(saved):
    with sqlite3.connect(saved) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(StoreError, match="has format 3, and this everspan reads up to 2"):
        LifelongRegressor.load(saved)
    with sqlite3.connect(saved) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM tasks; END")
    with pytest.raises(StoreError, match="its tables are not those"):
        LifelongRegressor.load(saved)


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_refused_or_as_good_as_whole(data, saved, tmp_path):
    """Bytes flipped, cut off or overwritten: one clear error, or the very same model."""
    whole = bytearray(saved.read_bytes())
    kind = data.draw(st.sampled_from(["flip", "cut", "zeros", "noise"]))
    place = data.draw(st.integers(0, len(whole) - 1))
    if kind == "flip":
        whole[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del whole[place:]
    else:
        length = data.draw(st.integers(1, 5000))
        new = b"\0" * length if kind == "zeros" else np.random.default_rng(place).bytes(length)
        whole[place : place + length] = new[: len(whole) - place]
    damaged = tmp_path / "damaged.everspan"
    damaged.write_bytes(whole)
    sound, said = LifelongRegressor.load(saved), ""
    try:
        model = LifelongRegressor.load(damaged)
    except StoreError as error:
        said = str(error)
    if said:
        assert "\n" not in said
        return
    assert model.history_ == sound.history_
    for name, X, _ in shops(12):
        np.testing.assert_array_equal(model.predict(X, task=name), sound.predict(X, task=name))


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("predictors", "version", 99),
        ("predictors", "coefficients", b"12345678" * 3),
        ("predictors", "intercept", None),
        ("predictors", "doubt", 7),
        ("predictors", "feature", 10**6),
        ("predictors", "summary", np.array([np.inf]).tobytes()),
        ("tasks", "name", '"other"'),
        ("tasks", "action", "ran"),
        ("tasks", "labels_used", -1),
        ("about", "value", "{}"),
        ("arrays", "shape", "[1000000000, 1000000000]"),
        ("arrays", "dtype", "|O"),
    ],
)
def test_wrong_contents_with_right_checksums_are_refused(saved, table, column, value):
    """A stranger can compute checksums too."""
    from everspan.store import checksum as _checksum

    with sqlite3.connect(saved) as connection:
        names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for row in connection.execute(f"SELECT * FROM {table}").fetchall():
            changed = [value if name == column else old for name, old in zip(names, row, strict=True)][:-1]
            keys = " AND ".join(f"{name} = ?" for name in names[: 2 if table == "predictors" else 1])
            connection.execute(
                f"UPDATE {table} SET {column} = ?, checksum = ? WHERE {keys}",
                (value, _checksum(changed), *row[: 2 if table == "predictors" else 1]),
            )
    with pytest.raises(StoreError, match=r"shop\.everspan: "):
        LifelongRegressor.load(saved)


def test_what_cannot_be_saved_is_said_before_anything_is_written(tmp_path):
    X, y = next(iter(shops(1, 50)))[1:]
    model = LifelongRegressor(refiner=lambda W, k, radii: np.linalg.qr(W.T)[0]).fit(X, y)
    with pytest.raises(TypeError, match=r"refiner=.* cannot be saved"):
        model.save(tmp_path / "a.everspan")
    model = LifelongRegressor()
    model.learn_task(X, y, task=frozenset({1}))
    with pytest.raises(TypeError, match="names are text, numbers"):
        model.save(tmp_path / "a.everspan")
    assert not list(tmp_path.iterdir())


def with_fact(path, key, change):
    """Change a fact of a file as a stranger would who computes checksums too."""
    from everspan.store import checksum

    with sqlite3.connect(path) as connection:
        (text,) = connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        text = json.dumps(change(json.loads(text)))
        row = (text, checksum((key, text)), key)
        connection.execute("UPDATE about SET value = ?, checksum = ? WHERE key = ?", row)
    connection.close()


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 10**400},
        {"epsilon": "small"},
        {"epsilon": [0.1]},
        {"confidence": True},
        {"learner": {"object": "Foreign", "parts": {"estimator": "abc"}}},
        {"learner": {"object": "Logistic", "parts": {"strengths": {"tuple": []}}}},
        {"learner": {"object": "Logistic", "parts": {"strengths": {"tuple": ["a"]}}}},
        {"learner": {"object": "Logistic", "parts": {"balanced": "yes"}}},
        {"learner": {"object": "TwoLayer", "parts": {"starts": 10**9}}},
        {"check": {"object": "LeaveOneOut", "parts": {"folds": 1}}},
        {"representation": {"object": "ReLU", "parts": {"units": 10**9}}},
    ],
    ids=str,
)
def test_a_stranger_s_parameters_are_refused_in_one_line(tmp_path, parameters):
    """They used to give tracebacks when the model learned, or to keep it busy for ever."""
    path, rng = tmp_path / "a.everspan", np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    LifelongClassifier().fit(X, X[:, 0] > 0.0).save(path)
    with_fact(path, "parameters", lambda known: known | parameters)
    with pytest.raises(StoreError, match=r"a\.everspan: is damaged: ") as raised:
        LifelongClassifier.load(path)
    assert "\n" not in str(raised.value)


def test_a_small_file_takes_little_memory_whatever_it_says_of_its_labels(tmp_path):
    """A file of 53 kB whose labels were said to be of 536,870,911 letters took 8.4 GB."""
    path, rng = tmp_path / "a.everspan", np.random.default_rng(0)
    X = rng.standard_normal((30, 3))
    model = LifelongClassifier().fit(X, np.where(X[:, 0] > 0.0, "yes", "no"))
    model.save(path)
    with_fact(path, "label_sets", lambda sets: [one | {"dtype": "<U536870911"} for one in sets])
    tracemalloc.start()
    loaded = LifelongClassifier.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
