"""A table goes in, one file comes out: learned once, predicted as in Python, shown, exported, forgotten."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import _filed
from everspan.one_file import (
    digests,
    export,
    forget,
    learn,
    new_rows,
    open_model,
    overview,
    predict,
    preparation_of,
    report,
    task_events,
    with_rows,
)
from everspan.store import StoreError
from everspan.tables import TableError, TableFile

from ..reports.browser import check_in_browser, needs_browser

WEIGHTS = np.random.default_rng(5).standard_normal((2, 4))


def shops(tasks=30, rows=40, seed=0, target="churn"):
    """Rows of tasks that share two features, scattered over the table."""
    rng, parts = np.random.default_rng(seed), []
    for task in range(tasks):
        own = np.random.default_rng(1000 + task).standard_normal(2) @ WEIGHTS
        X = rng.standard_normal((rows, 4))
        score = X @ own + 0.3 * rng.standard_normal(rows)
        part = pd.DataFrame(X, columns=list("uvwx")).assign(shop=f"s{task}", city=rng.choice(["a", "b"], rows))
        labels = {
            "churn": np.where(score > 0, "yes", "no"),
            "spent": score,
            "kind": np.digitize(score, [-0.7, 0.7]),
        }
        parts.append(part.assign(**{target: labels[target]}))
    return pd.concat(parts).sample(frac=1.0, random_state=seed).reset_index(drop=True)


@pytest.fixture
def shop(tmp_path):
    """A file, and the table it was learned from."""
    table = shops()
    table.to_csv(tmp_path / "a.csv", index=False)
    learn(tmp_path / "a.everspan", tmp_path / "a.csv")
    return tmp_path / "a.everspan", table


def same_model(one, other):
    """Whether two files say the same of every task."""
    first, second = open_model(one), open_model(other)
    assert first.history_ == second.history_
    assert first._seen == second._seen
    for task in first.tasks_:
        for a, b in zip(first.linear_predictor(task=task), second.linear_predictor(task=task), strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_the_file_learns_is_what_python_learns(shop):
    path, table = shop
    model = LifelongClassifier.load(path)
    known = preparation_of(model, path)
    (batch,) = TableFile.open(path.with_name("a.csv")).batches(list(table))
    X = known.numbers(batch)
    alone = LifelongClassifier(goal="excess").fit(X, table["churn"].to_numpy(), tasks=table["shop"].tolist())
    assert alone.history_ == model.history_
    np.testing.assert_array_equal(
        alone.decision_function(X, tasks=table["shop"].tolist()),
        model.decision_function(X, tasks=table["shop"].tolist()),
    )
    assert model.score(X, table["churn"], tasks=table["shop"].tolist()) > 0.9


def test_again_nothing_is_learned_and_new_rows_alone_are(shop, tmp_path):
    path, table = shop
    before = path.read_bytes()
    again = learn(path, tmp_path / "a.csv")
    assert (again.events, again.known) == ([], 30)
    assert path.read_bytes() == before, "not a byte changes"
    more = pd.concat([table, shops(32, 3, seed=9)]).sample(frac=1.0, random_state=1)  # in another order
    more.to_parquet(tmp_path / "b.parquet", index=False)
    grown = learn(path, tmp_path / "b.parquet")
    assert sorted(event.action for event in grown.events) == ["reused"] * 2 + ["updated"] * 30
    assert {event.labels_used for event in grown.events} == {43, 3}
    assert learn(path, tmp_path / "b.parquet").events == []
    shops(32, 3, seed=9).to_csv(tmp_path / "c.csv", index=False)  # those new rows by themselves
    assert learn(path, tmp_path / "c.csv").known == 32
    assert {event.labels_used for event in learn(path, tmp_path / "c.csv", all_rows=True).events} == {46, 6}


@pytest.mark.parametrize("target", ["churn", "spent", "kind"])
def test_a_part_first_and_the_rest_later_is_all_at_once(tmp_path, target):
    """Whole tasks that come later find the file as it would be anyway, memory or not."""
    table = shops(target=target)
    table.to_csv(tmp_path / "all.csv", index=False)
    order = list(dict.fromkeys(table["shop"]))
    learn(tmp_path / "all.everspan", tmp_path / "all.csv")
    model = open_model(tmp_path / "all.everspan")
    assert type(model) is (LifelongRegressor if target == "spent" else LifelongClassifier)
    assert model.tasks_ == order
    learn(tmp_path / "small.everspan", tmp_path / "all.csv", memory=10**6, folder=tmp_path)
    same_model(tmp_path / "all.everspan", tmp_path / "small.everspan")


def test_a_task_that_cannot_be_learned_does_not_stop_the_others(shop, tmp_path):
    path, _ = shop
    rows = shops(33, 4, seed=3)
    rows.loc[rows["shop"] == "s4", "churn"] = "perhaps"
    assert open_model(path).classes_of("s4") == ["no", "yes"]
    rows.to_csv(tmp_path / "b.csv", index=False)
    assert list(learn(path, tmp_path / "b.csv").failed) == ["s4"]
    kinds = shops(target="kind")
    kinds.to_csv(tmp_path / "k.csv", index=False)
    learn(tmp_path / "k.everspan", tmp_path / "k.csv")
    more = shops(33, 4, seed=3, target="kind")
    more.loc[more["shop"] == "s4", "kind"] = 7
    more.to_csv(tmp_path / "k.csv", index=False)
    more.assign(kind="perhaps").to_csv(tmp_path / "text.csv", index=False)
    with pytest.raises(TableError, match="column 'kind': 'perhaps' is not a number, as labels were before"):
        learn(tmp_path / "k.everspan", tmp_path / "text.csv")
    more.assign(kind=0.5).to_csv(tmp_path / "text.csv", index=False)
    with pytest.raises(TableError, match=r"labels were whole numbers before, but 0\.5 is not whole"):
        learn(tmp_path / "k.everspan", tmp_path / "text.csv")
    done = learn(tmp_path / "k.everspan", tmp_path / "k.csv")
    assert list(done.failed) == ["s4"]
    assert done.failed["s4"].startswith("4 rows are of other classes than 0, 1, 2")
    assert len(done.events) == 32
    assert learn(tmp_path / "k.everspan", tmp_path / "k.csv").known == 32


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("target", ["churn", "spent", "kind"])
def test_predictions_are_the_models(tmp_path, target, lazy, monkeypatch):
    table = shops(target=target)
    table.to_csv(tmp_path / "a.csv", index=False)
    learn(tmp_path / "a.everspan", tmp_path / "a.csv")
    if lazy:
        monkeypatch.setattr(_filed, "EAGER", 3)
    asked = shops(2, 20, seed=8, target=target).drop(columns=target).assign(order=range(40))
    asked.loc[3, "shop"], asked.loc[4, "shop"] = "unknown", None
    asked.to_parquet(tmp_path / "asked.parquet", index=False)
    done = predict(tmp_path / "a.everspan", tmp_path / "asked.parquet", tmp_path / "out.parquet", keep=["order"])
    assert (done.rows, done.unknown, done.nameless, done.some_unknown) == (40, 1, 1, "unknown")
    predict(tmp_path / "a.everspan", tmp_path / "asked.parquet", tmp_path / "out.csv", keep=["order"])
    answers = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(
        answers.astype(str), pd.read_csv(tmp_path / "out.csv").astype(answers.dtypes).astype(str)
    )
    model = open_model(tmp_path / "a.everspan")
    (batch,) = TableFile.open(tmp_path / "asked.parquet").batches(list(asked), task="shop")
    rows = [i for i in range(40) if i not in (3, 4)]
    X, tasks = preparation_of(model, tmp_path).numbers(batch)[rows], asked["shop"][rows].tolist()
    assert answers[f"predicted {target}"].isna().to_numpy().nonzero()[0].tolist() == [3, 4]
    assert answers[f"predicted {target}"][rows].tolist() == model.predict(X, tasks=tasks).tolist()
    assert answers["order"].tolist() == list(range(40))
    if target != "spent":
        both = model.predict_proba(X, tasks=tasks)
        np.testing.assert_allclose(answers["probability"][rows], both.max(axis=1))
    guessed = (
        predict(tmp_path / "a.everspan", tmp_path / "asked.parquet", tmp_path / "all.csv", unseen="prior")
        if target != "kind"
        else None
    )
    if guessed is not None:
        assert pd.read_csv(tmp_path / "all.csv")[f"predicted {target}"].isna().sum() == 1
    with pytest.raises(StoreError, match="'unknown' has not been learned"):
        predict(tmp_path / "a.everspan", tmp_path / "asked.parquet", tmp_path / "error.csv", unseen="error")
    assert not (tmp_path / "error.csv").exists()


def test_an_overview_is_what_the_model_says(shop):
    path, _ = shop
    found, model = overview(path), open_model(path)
    assert found["tasks"] == len(model.history_) == 30
    assert found["labels"] == 1200
    assert found["dimension"] == model.representation_.dimension
    assert found["features"] == len(model.representation_.features)
    assert [step["name"] for step in found["growth"]] == [e.task for e in model.history_ if e.action == "grew"]
    assert found["errors"]["median"] == pytest.approx(np.median([e.error for e in model.history_]))
    assert found["table"]["columns"] == ["u", "v", "w", "x", "city"]
    assert json.loads(json.dumps(found)) == found
    events = task_events(path)
    assert [event["name"] for event in events] == model.tasks_
    assert task_events(path, "s3") == [event for event in events if event["name"] == "s3"]
    with pytest.raises(StoreError, match="'s99' has not been learned"):
        task_events(path, "s99")


@pytest.mark.parametrize("target", ["churn", "spent", "kind"])
def test_exports_predict_as_the_model(tmp_path, target):
    onnxruntime = pytest.importorskip("onnxruntime")
    table = shops(target=target)
    table.loc[::7, "u"] = np.nan
    table.loc[::13, "u"] = np.inf
    table.loc[::11, "city"] = None
    table.to_csv(tmp_path / "a.csv", index=False)
    path = tmp_path / "a.everspan"
    learn(path, tmp_path / "a.csv")
    model = open_model(path)
    known = preparation_of(model, path)
    (batch,) = TableFile.open(tmp_path / "a.csv").batches(list(table))
    X = known.numbers(batch)
    task = model.tasks_[5]
    predictors = 3 if target == "kind" else 1
    assert export(path, tmp_path / "t.json", task) == predictors
    plain = json.loads((tmp_path / "t.json").read_text())
    scores = np.column_stack(
        [X @ [own["weights"][name] for name in known.names] + own["intercept"] for own in plain["predictors"]]
    )
    expected = model.predict(X, task=task) if target == "spent" else model.decision_function(X, task=task)
    np.testing.assert_allclose(scores.squeeze(), expected, atol=1e-9)
    assert export(path, tmp_path / "t.onnx", task) == predictors
    session = onnxruntime.InferenceSession(str(tmp_path / "t.onnx"))
    given = {name: table[[name]].to_numpy(dtype=np.float64) for name in "uvwx"}
    given["city"] = table[["city"]].fillna("").to_numpy(dtype=object)
    answers = session.run(None, given)
    if target == "spent":
        np.testing.assert_allclose(answers[0][:, 0], expected, atol=1e-9)
    else:
        assert [str(label) for label in answers[0]] == [str(label) for label in model.predict(X, task=task)]
        np.testing.assert_allclose(answers[1], model.predict_proba(X, task=task), atol=1e-9)
    assert export(path, tmp_path / "all.parquet") == 30 * predictors
    rows = pq.read_table(tmp_path / "all.parquet").to_pandas()
    own = rows[rows["task"] == task]
    weights, intercepts = model.linear_predictor(task=task)
    np.testing.assert_array_equal(own[[f"weight of {name}" for name in known.names]], weights)
    np.testing.assert_array_equal(own["intercept"], intercepts)
    for out, name, message in (
        ("t.txt", task, "exports are"),
        ("t.json", None, "which task"),
        ("t.parquet", task, "for all of them"),
        ("none/t.json", task, "no folder"),
        ("t.json", "nobody", "has not been learned"),
    ):
        with pytest.raises(ValueError, match=message):
            export(path, tmp_path / out, name)


def test_a_forgotten_task_is_gone_and_may_come_again(shop, tmp_path):
    path, _ = shop
    grown = next(event.task for event in open_model(path).history_ if event.action == "grew")
    forget(path, [grown, "s7"])
    model = open_model(path)
    assert grown not in model.tasks_
    assert "s7" not in model.tasks_
    assert len(model._seen) == 28
    with pytest.raises(StoreError, match="'nobody' has not been learned"):
        forget(path, ["s8", "nobody"])
    assert "s8" in open_model(path).tasks_
    again = learn(path, tmp_path / "a.csv")
    assert sorted(event.task for event in again.events) == sorted([grown, "s7"])


def test_names_that_are_not_text_can_be_meant(tmp_path):
    model = LifelongRegressor()
    rng = np.random.default_rng(0)
    for name in (7, ("acme", 1), "7x"):
        model.learn_task(rng.standard_normal((20, 2)), rng.standard_normal(20), task=name)
    model.save(tmp_path / "a.everspan")
    assert len(task_events(tmp_path / "a.everspan", "7")) == 1
    assert len(task_events(tmp_path / "a.everspan", '["acme", 1]')) == 1
    forget(tmp_path / "a.everspan", ['["acme", 1]', "7"])
    assert open_model(tmp_path / "a.everspan").tasks_ == ["7x"]


def test_a_report_tells_what_there_is(shop, tmp_path):
    path, _ = shop
    page = report(path, tmp_path / "a.html", "everspan report").read_text()
    assert "A model for every shop that predicts churn from 5 columns." in page
    assert "Tasks most alike" in page
    assert "city = a" in page
    model = LifelongClassifier(representation="relu")
    rng = np.random.default_rng(0)
    model.learn_task(X := rng.standard_normal((60, 2)), X[:, 0] > 0, task="<script>alert(1)</script>")
    model.save(tmp_path / "b.everspan")
    page = report(tmp_path / "b.everspan", tmp_path, "everspan report").read_text()
    assert "<script>" not in page


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (500, "dark")])
def test_a_report_in_a_browser(shop, tmp_path, width, scheme):
    page = report(shop[0], tmp_path / "a.html", "everspan report")
    check_in_browser(page.read_text(), tmp_path, width, scheme)


def test_what_does_not_fit_the_file_is_said_and_changes_nothing(shop, tmp_path):
    path, table = shop
    before = path.read_bytes()
    LifelongRegressor().fit(np.eye(3), [1.0, 2.0, 3.0]).save(tmp_path / "plain.everspan")
    for name, part, options, message in (
        ("a", table.drop(columns="v"), {}, "no column 'v'"),
        ("a", table.rename(columns={"shop": "store"}), {}, "no column 'shop'"),
        ("a", table.assign(u="text"), {}, "column 'u': 'text' is not a number"),
        ("a", table, {"task_column": "city"}, "its task column is 'shop', not 'city'"),
        ("a", table, {"target_column": "city"}, "its target column is 'churn'"),
        ("a", table, {"kind": "regression"}, "is not for regression"),
        ("a", table, {"drop": ["u"]}, "it needs 'u'"),
        ("a", table, {"parameters": {"epsilon": 0.2}}, "epsilon cannot change"),
        ("plain", table, {}, "was not made from a table"),
        ("new", table, {"parameters": {"epsilon": -1.0}}, "epsilon must be a positive number"),
        ("new", table, {"drop": ["none"]}, "no column 'none' to leave out"),
        ("new", table, {"kind": "regression"}, None),
        ("none/new", table, {}, "a folder"),
    ):
        part.to_csv(tmp_path / "b.csv", index=False)
        if message is None:
            continue
        with pytest.raises(ValueError, match=message) as caught:
            learn(tmp_path / f"{name}.everspan", tmp_path / "b.csv", **options)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert not (tmp_path / "new.everspan").exists()


ROWS = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 12), st.just(2)), elements=st.sampled_from([0.0, -0.0, 1.0, 2.5])
)


@given(old=ROWS, new=ROWS)
def test_rows_are_known_as_often_as_they_were_learned(old, new):
    """The oracle: multisets of tuples."""
    first, second = digests(old, np.zeros(len(old))), digests(np.vstack([old, new]), np.zeros(len(old) + len(new)))
    assert new_rows(None, first).all()
    seen = with_rows(None, first)
    fresh = new_rows(seen, second)
    assert fresh.sum() == len(new)
    counts = {}
    for row in (old + 0.0).tolist():
        counts[tuple(row)] = counts.get(tuple(row), 0) + 1
    for row, is_fresh in zip((np.vstack([old, new]) + 0.0).tolist(), fresh, strict=True):
        assert is_fresh == (counts.get(tuple(row), 0) == 0)
        counts[tuple(row)] = max(counts.get(tuple(row), 0) - 1, 0)
    assert not new_rows(with_rows(seen, second[fresh]), second).any()


def test_labels_count_as_part_of_a_row():
    X = np.ones((3, 1))
    a, b, c = digests(X, np.array(["no", "yes", "no"]))
    assert a == c
    assert a != b
