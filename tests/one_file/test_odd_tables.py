"""Tables as people have them: Excel's, pandas', with ids, dates, words for nothing, types that change."""

from __future__ import annotations

import datetime
import json
import os
import threading
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everspan import LifelongClassifier
from everspan.one_file import _learning, export, learn, open_model, predict, preparation_of, report
from everspan.store import StoreError
from everspan.tables import TableError, TableFile

from .fuzzing import run
from .test_one_file import shops


def learned(folder, frame, name="a", **options):
    frame.to_csv(folder / f"{name}.csv", index=False)
    return learn(folder / f"{name}.everspan", folder / f"{name}.csv", **options)


def test_a_table_of_excel(tmp_path):
    """A byte-order mark, semicolons, decimal commas, and a cell with a blank in it."""
    frame = shops()
    learned(tmp_path, frame)
    frame.to_csv(tmp_path / "excel.csv", index=False, sep=";", decimal=",", encoding="utf-8-sig")
    learn(tmp_path / "excel.everspan", tmp_path / "excel.csv")
    assert open_model(tmp_path / "excel.everspan").history_ == open_model(tmp_path / "a.everspan").history_
    (tmp_path / "sep.csv").write_bytes(b"\xef\xbb\xbfsep=;\r\n" + (tmp_path / "excel.csv").read_bytes()[3:])
    assert learn(tmp_path / "excel.everspan", tmp_path / "sep.csv").known == 30
    text = (tmp_path / "a.csv").read_text().splitlines()
    cells = text[5].split(",")
    (tmp_path / "blank.csv").write_text("\n".join([*text[:5], ",".join([" ", *cells[1:]]), *text[6:]]))
    learn(tmp_path / "blank.everspan", tmp_path / "blank.csv")
    assert preparation_of(open_model(tmp_path / "blank.everspan")).columns[0].kind == "number"


def test_words_for_nothing(tmp_path):
    """NA may be a country, and none a class; in numbers both are missing, in every format."""
    frame = shops(6).assign(shop=lambda f: f["shop"].replace({"s0": "NA", "s1": "null"}))
    frame["churn"] = frame["churn"].replace({"no": "none"})
    frame["u"] = frame["u"].astype(object)
    frame.loc[:5, "u"] = "NA"
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.assign(u=frame["u"].astype(str)).to_parquet(tmp_path / "a.parquet", index=False)
    for name in ("a.csv", "a.parquet"):
        learn(tmp_path / f"{name}.everspan", tmp_path / name)
        model = open_model(tmp_path / f"{name}.everspan")
        assert {"NA", "null"} <= set(model.tasks_)
        assert model.classes_.tolist() == ["none", "yes"]
        assert preparation_of(model).columns[0].missing
    assert learn(tmp_path / "a.csv.everspan", tmp_path / "a.parquet").events == []


def test_names_of_tasks_in_text_are_those_of_numbers(tmp_path):
    frame = shops(5).assign(shop=lambda f: f["shop"].str[1:])
    learned(tmp_path, frame)
    frame.assign(shop=frame["shop"].astype(float)).to_csv(tmp_path / "floats.csv", index=False)
    frame.assign(shop=frame["shop"].astype(int)).to_parquet(tmp_path / "ints.parquet", index=False)
    for name in ("floats.csv", "ints.parquet"):
        assert learn(tmp_path / "a.everspan", tmp_path / name).known == 5


def test_dates_are_left_out_in_text_too(tmp_path):
    days = [str(datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 90)) for i in range(1200)]
    done = learned(tmp_path, shops().assign(day=days), target_column="churn")
    assert "left out: 'day': is a date or a time" in done.notes


def test_the_same_options_again_are_fine(tmp_path):
    frame = shops().assign(order=range(1200))
    for _ in range(2):
        done = learned(tmp_path, frame, target_column="churn", drop=["order"], parameters={"epsilon": 0.05})
    assert done.known == 30
    with pytest.raises(StoreError, match="epsilon cannot change"):
        learned(tmp_path, frame, parameters={"epsilon": 0.06})


def test_a_file_that_another_table_was_learned_into_first_is_not_mixed_up(tmp_path, monkeypatch):
    """Two processes that make one file of tables in different units: the second takes the first's."""
    learned(tmp_path, shops(5), "other")
    shops(5, seed=1).assign(u=lambda f: 3.0 * f["u"] + 2.0).to_csv(tmp_path / "b.csv", index=False)
    inner = _learning.Work._learn_some

    def late(work, waiting):
        if not (tmp_path / "b.everspan").exists():
            (tmp_path / "b.everspan").write_bytes((tmp_path / "other.everspan").read_bytes())
        return inner(work, waiting)

    monkeypatch.setattr(_learning.Work, "_learn_some", late)
    assert len(learn(tmp_path / "b.everspan", tmp_path / "b.csv").events) == 5
    monkeypatch.undo()
    assert learn(tmp_path / "b.everspan", tmp_path / "b.csv").known == 5
    learn(tmp_path / "other.everspan", tmp_path / "b.csv")
    one, other = open_model(tmp_path / "b.everspan"), open_model(tmp_path / "other.everspan")
    assert (one.history_, one._seen) == (other.history_, other._seen)


def test_a_column_in_other_units_later_does_not_stop_learning(tmp_path):
    """Then it is all but constant for the file, and far from where it was."""
    learned(tmp_path, shops().assign(u=lambda f: 5000.0 + 1000.0 * f["u"]))
    shops(60, seed=2).to_csv(tmp_path / "b.csv", index=False)
    done = learn(tmp_path / "a.everspan", tmp_path / "b.csv")
    assert (done.failed, len(done.events)) == ({}, 60)


def test_types_that_change(tmp_path):
    frame = shops()
    learned(tmp_path, frame)
    for name, values in (("city", 7), ("city", True), ("city", None), ("u", None)):
        frame.assign(**{name: values}).to_parquet(tmp_path / "b.parquet", index=False)
        predict(tmp_path / "a.everspan", tmp_path / "b.parquet", tmp_path / "out.csv")
        learn(tmp_path / "a.everspan", tmp_path / "b.parquet")
    for name in ("city", "u"):
        frame.assign(**{name: pd.Timestamp("2024-01-01")}).to_parquet(tmp_path / "b.parquet", index=False)
        for act in (
            lambda: predict(tmp_path / "a.everspan", tmp_path / "b.parquet"),
            lambda: learn(tmp_path / "a.everspan", tmp_path / "b.parquet"),
        ):
            with pytest.raises(TableError, match="is a date or a time, and was something else before"):
                act()
    truth = frame.assign(churn=frame["churn"] == "yes")
    learned(tmp_path, truth, "truth")
    truth.assign(churn=7).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(TableError, match="labels were truth values before"):
        learn(tmp_path / "truth.everspan", tmp_path / "b.csv")


def test_rows_of_new_classes_are_left_out_and_said(tmp_path):
    learned(tmp_path, shops(4))
    more = shops(4, 10, seed=5)
    more.loc[more.index % 5 == 0, "churn"] = "maybe"
    done = learned(tmp_path, more)
    assert len(done.events) == 4
    assert len(done.failed) >= 3
    assert all("rows are of other classes than no, yes" in reason for reason in done.failed.values())
    assert sum(event.labels_used for event in done.events) == 160 + (more["churn"] != "maybe").sum()


def test_kept_columns_are_kept(tmp_path):
    """Large numbers, dates, and nothing in the first rows; a name that is taken is said."""
    learned(tmp_path, shops(4))
    asked = shops(4, 5).drop(columns="churn")
    ids = [2**60 + i for i in range(20)]
    table = pa.Table.from_pandas(asked).append_column("id", pa.array(ids, pa.int64()))
    table = table.append_column("when", pa.array([datetime.datetime(2024, 1, 1)] * 20))
    table = table.append_column("note", pa.array([None] * 20, pa.string()))
    pq.write_table(table, tmp_path / "b.parquet")
    predict(tmp_path / "a.everspan", tmp_path / "b.parquet", tmp_path / "out.parquet", keep=["id", "when", "note"])
    assert pq.read_table(tmp_path / "out.parquet").column("id").to_pylist() == ids
    predict(tmp_path / "a.everspan", tmp_path / "b.parquet", tmp_path / "out.csv", keep=["id", "when"])
    assert str(ids[3]) in (tmp_path / "out.csv").read_text()
    asked.assign(probability=1).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(TableError, match="'probability' would be written twice"):
        predict(tmp_path / "a.everspan", tmp_path / "b.csv", keep=["probability"])


def test_a_table_without_rows_has_answers_without_rows(tmp_path):
    learned(tmp_path, shops(4))
    shops(4)[:0].to_csv(tmp_path / "b.csv", index=False)
    for name in ("out.csv", "out.parquet"):
        assert predict(tmp_path / "a.everspan", tmp_path / "b.csv", tmp_path / name).rows == 0
    assert (tmp_path / "out.csv").read_text() == "shop,predicted churn,probability\n"
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 0


def test_what_all_tasks_say_where_there_is_one(tmp_path):
    learned(tmp_path, shops(1))
    shops(2, 5).to_csv(tmp_path / "b.csv", index=False)
    assert predict(tmp_path / "a.everspan", tmp_path / "b.csv", tmp_path / "out.csv", unseen="prior").unknown == 0
    kinds = shops(3, target="kind")
    kinds.loc[kinds["shop"] == "s0", "kind"] = 5
    learned(tmp_path, kinds, "kinds")
    kinds.assign(shop=kinds["shop"].replace({"s1": "new"})).to_csv(tmp_path / "b.csv", index=False)
    done = predict(tmp_path / "kinds.everspan", tmp_path / "b.csv", tmp_path / "out.csv", unseen="prior")
    assert done.unknown == 40
    assert "same two classes" in done.why
    assert pd.read_csv(tmp_path / "out.csv")["predicted kind"].notna().sum() == 80


def test_nothing_is_written_over_a_model_or_what_is_read(tmp_path):
    learned(tmp_path, shops(4))
    model, table = tmp_path / "a.everspan", tmp_path / "a.csv"
    (tmp_path / "b.csv").write_bytes(model.read_bytes())  # a model by another name
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments in (
        ("predict", model, table, "--out", table),
        ("predict", model, table, "--out", tmp_path / "b.csv"),
        ("predict", model, table, "--out", model),
        ("report", model, "--out", model),
        ("report", model, "--out", tmp_path / "b.csv"),
        ("predict", model, table, "--out", tmp_path / "a.xlsx"),
    ):
        code, _, errors = run(*arguments)
        assert code == 2, arguments
        assert errors.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_links_and_pipes_are_written_through(tmp_path):
    learned(tmp_path, shops(4))
    (tmp_path / "real.csv").write_text("")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    predict(tmp_path / "a.everspan", tmp_path / "a.csv", tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "real.csv").read_text().splitlines()) == 161
    os.mkfifo(tmp_path / "pipe")
    said = []
    reader = threading.Thread(target=lambda: said.append((tmp_path / "pipe").read_text()))
    reader.start()
    predict(tmp_path / "a.everspan", tmp_path / "a.csv", tmp_path / "pipe")
    reader.join(timeout=30)
    assert said == [(tmp_path / "real.csv").read_text()]


def test_names_that_clash(tmp_path):
    """In exports every number has its weight; ONNX keeps its own names apart from those of columns."""
    onnxruntime = pytest.importorskip("onnxruntime")
    frame = shops(4).rename(columns={"v": "u is missing", "w": "weights", "x": "scores"})
    frame.loc[::9, "u"] = np.nan
    learned(tmp_path, frame)
    path = tmp_path / "a.everspan"
    names = preparation_of(open_model(path)).names
    assert len(set(names)) == len(names) == 7
    export(path, tmp_path / "all.parquet")
    assert sum(name.startswith("weight of") for name in pq.read_schema(tmp_path / "all.parquet").names) == 7
    export(path, tmp_path / "a.onnx", "s1")
    session = onnxruntime.InferenceSession(str(tmp_path / "a.onnx"))
    given = {name: frame[[name]].to_numpy(dtype=float)[:1] for name in ("u", "u is missing", "weights", "scores")}
    label, _ = session.run(None, given | {"city": frame[["city"]].to_numpy(dtype=object)[:1]})
    assert label.shape == (1,)
    (batch,) = TableFile.open(tmp_path / "a.csv").batches(list(frame))
    model = open_model(path)
    assert label[0] == model.predict(preparation_of(model).numbers(batch)[:1], task="s1")[0]
    learned(tmp_path, frame.rename(columns={"weights": "label"}), "b", target_column="churn")
    with pytest.raises(StoreError, match="name of an output of ONNX"):
        export(tmp_path / "b.everspan", tmp_path / "b.onnx", "s1")


def test_a_file_with_forgotten_texts_answers_and_is_exported(tmp_path):
    """A forgotten text counts as one that the first table did not have, also in ONNX."""
    onnxruntime = pytest.importorskip("onnxruntime")
    frame = shops(4).assign(city=lambda f: f["city"].where(f.index % 5 > 0, "(forgotten) 0"))
    learned(tmp_path, frame)
    path = tmp_path / "a.everspan"
    other = frame.assign(city=frame["city"].replace({"a": "new"}))
    other.to_csv(tmp_path / "other.csv", index=False)
    predict(path, tmp_path / "other.csv", tmp_path / "expected.csv")
    model = LifelongClassifier.load(path)
    (city,) = (column for column in model.table_["columns"] if column["name"] == "city")
    city["values"][city["values"].index("a")] = None
    model.save(path)
    predict(path, tmp_path / "a.csv", tmp_path / "answers.csv")
    assert (tmp_path / "answers.csv").read_text() == (tmp_path / "expected.csv").read_text()
    assert "city = (forgotten)" in preparation_of(open_model(path)).names
    for name in ("a.json", "a.onnx"):
        export(path, tmp_path / name, "s1")
    export(path, tmp_path / "all.parquet")
    assert "weight of city = (forgotten)" in pq.read_schema(tmp_path / "all.parquet").names
    assert None in json.loads((tmp_path / "a.json").read_text())["columns"][-1]["values"]
    assert "(forgotten)" in report(path, tmp_path / "a.html", "everspan report").read_text()
    session = onnxruntime.InferenceSession(str(tmp_path / "a.onnx"))
    rows = frame[frame["shop"] == "s1"]
    given = {name: rows[[name]].to_numpy(dtype=float) for name in "uvwx"}
    label, _ = session.run(None, given | {"city": rows[["city"]].to_numpy(dtype=object)})
    expected = pd.read_csv(tmp_path / "expected.csv")["predicted churn"][frame["shop"] == "s1"]
    assert label.tolist() == expected.tolist()


def test_a_report_of_a_file_that_changes_meanwhile(tmp_path, monkeypatch):
    learned(tmp_path, shops(6))
    from everspan.estimators import _filed

    monkeypatch.setattr(_filed, "EAGER", 2)
    from everspan.one_file import _reporting

    inner, calls = _reporting.open_model, []

    def opened(path):
        model = inner(path)
        if not calls:  # between opening and reading
            monkeypatch.setattr(_filed, "EAGER", 10**6)
            learned(tmp_path, shops(8, 5, seed=3))
            monkeypatch.setattr(_filed, "EAGER", 2)
        calls.append(path)
        return model

    monkeypatch.setattr(_reporting, "open_model", opened)
    assert "8 tasks" in report(tmp_path / "a.everspan", tmp_path / "a.html", "everspan report").read_text()
    assert len(calls) == 2


@pytest.mark.parametrize("unit", ["date", "s", "us", "ns"])
def test_a_day_may_be_a_task_in_parquet_as_in_csv(tmp_path, unit):
    rng = np.random.default_rng(0)
    days = pd.date_range("2026-01-01", periods=6).repeat(30)
    frame = pd.DataFrame(rng.standard_normal((180, 2)), columns=["a", "b"])
    frame.insert(0, "day", days.date if unit == "date" else days.astype(f"datetime64[{unit}]"))
    frame["sales"] = frame["a"] - frame["b"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for kind in ("csv", "parquet"):
        learn(tmp_path / f"{kind}.everspan", tmp_path / f"t.{kind}", task_column="day", target_column="sales")
        predict(tmp_path / f"{kind}.everspan", tmp_path / f"t.{kind}", tmp_path / f"{kind}.out.csv")
    assert open_model(tmp_path / "parquet.everspan").tasks_ == [f"2026-01-0{day}" for day in range(1, 7)]
    csv, parquet = (open_model(tmp_path / f"{kind}.everspan") for kind in ("csv", "parquet"))
    assert csv.tasks_ == parquet.tasks_
    csv, parquet = (pd.read_csv(tmp_path / f"{kind}.out.csv")["predicted sales"] for kind in ("csv", "parquet"))
    np.testing.assert_allclose(csv, parquet, atol=1e-9)


def test_hours_and_zones_name_tasks_as_they_are_written(tmp_path):
    hours = pd.date_range("2026-01-01 06:30", periods=3, freq="h").repeat(20)
    frame = pd.DataFrame({"hour": hours, "x": np.arange(60.0) % 7, "y": np.arange(60.0) % 7})
    for name, column in (("plain", hours), ("zone", hours.tz_localize("UTC")), ("fine", hours + pd.Timedelta("5ms"))):
        frame["hour"] = column
        frame.to_parquet(tmp_path / "t.parquet")
        learn(tmp_path / f"{name}.everspan", tmp_path / "t.parquet", task_column="hour", target_column="y")
    first = {name: open_model(tmp_path / f"{name}.everspan").tasks_[0] for name in ("plain", "zone", "fine")}
    assert first == {"plain": "2026-01-01 06:30:00", "zone": "2026-01-01 06:30:00Z", "fine": "2026-01-01 06:30:00.005"}


LARGE = [1234567890123456789, 1234567890123456799]


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        (LARGE, LARGE),
        ([7, -(2**63)], [-(2**63), 7]),
        ([2**63, 2**64 - 1], [str(2**64 - 1), str(2**63)]),
        (["7.0", "1e3"], [7, 1000]),
        (["007", "7"], ["007", "7"]),
        (["01234", "12345"], ["01234", "12345"]),
        (["12345678901234567890", "12345678901234567891"], ["12345678901234567890", "12345678901234567891"]),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_classes_that_are_numbers_keep_all_their_digits(tmp_path, labels, kept, ending):
    frame = shops(4).assign(churn=lambda f: np.where(f["churn"] == "yes", *np.array(labels[::-1])))
    frame.to_csv(tmp_path / "t.csv", index=False) if ending == "csv" else frame.to_parquet(tmp_path / "t.parquet")
    learn(tmp_path / "a.everspan", tmp_path / f"t.{ending}")
    assert open_model(tmp_path / "a.everspan").classes_.tolist() == kept
    assert learn(tmp_path / "a.everspan", tmp_path / f"t.{ending}").known == 4
    predict(tmp_path / "a.everspan", tmp_path / f"t.{ending}", tmp_path / "out.csv")
    predict(tmp_path / "a.everspan", tmp_path / f"t.{ending}", tmp_path / "out.parquet")
    assert set(pd.read_csv(tmp_path / "out.csv", dtype=str)["predicted churn"]) == set(map(str, kept))
    assert set(pq.read_table(tmp_path / "out.parquet")["predicted churn"].to_pylist()) == set(kept)


def test_rows_that_differ_in_the_last_digit_of_a_class_are_two_rows(tmp_path):
    for label in LARGE:
        frame = pd.DataFrame({"task": "t", "x": np.arange(8) % 4, "y": label})
        frame.to_csv(tmp_path / "a.csv", index=False)
        assert learn(tmp_path / "a.everspan", tmp_path / "a.csv", kind="classification").known_rows == 0
    assert open_model(tmp_path / "a.everspan").classes_of("t") == LARGE


def test_whole_numbers_that_are_rounded_are_said(tmp_path):
    done = learned(tmp_path, shops(4).assign(id=[10**17 + i for i in range(160)]), target_column="churn")
    assert "'id' has whole numbers beyond 9,007,199,254,740,992 (2^53), which are rounded" in "\n".join(done.notes)
    assert not any("2^53" in note for note in learned(tmp_path, shops(4), "b").notes)


def test_tasks_that_are_numbers_keep_all_their_digits(tmp_path):
    names = [str(10**30), str(10**30 + 1), "007", "7"]
    frame = shops(4).assign(shop=lambda f: f["shop"].map(dict(zip(["s0", "s1", "s2", "s3"], names, strict=True))))
    learned(tmp_path, frame)
    assert set(open_model(tmp_path / "a.everspan").tasks_) == set(names)
    tasks = pa.array([Decimal(name) for name in frame["shop"]], pa.decimal128(38, 0))
    table = pa.Table.from_pandas(frame[~frame["shop"].isin(["007"])].drop(columns="shop"), preserve_index=False)
    table = table.append_column("shop", tasks.filter(pa.array(frame["shop"] != "007")))
    pq.write_table(table, tmp_path / "b.parquet")
    assert learn(tmp_path / "a.everspan", tmp_path / "b.parquet").known == 3


def test_a_file_with_whole_numbers_as_classes_takes_numbers_that_were_written_otherwise(tmp_path):
    """A file of an earlier everspan may have learned 007 as 7."""
    learned(tmp_path, shops(4).assign(churn=lambda f: np.where(f["churn"] == "yes", 7, 5)))
    frame = shops(4, 5, seed=3).assign(churn=lambda f: np.where(f["churn"] == "yes", "007", "5.0"))
    assert learned(tmp_path, frame).failed == {}
    with pytest.raises(TableError, match=r"labels were whole numbers before, but 2\.5 is not whole"):
        learned(tmp_path, frame.assign(churn="2.5"))
    with pytest.raises(TableError, match="labels were whole numbers before, but one is too large for 64 bits"):
        learned(tmp_path, frame.assign(churn="12345678901234567890"))


def test_a_report_takes_names_in_any_script_and_with_dollar_signs(tmp_path, capfd):
    frame = shops(4).rename(columns={"u": "price_$_per_$unit", "v": "値段", "w": r"$\frac{$"})
    learned(tmp_path, frame.assign(shop="$店_$" + frame["shop"]), target_column="churn", task_column="shop")
    code, _, errors = run("report", tmp_path / "a.everspan", "--out", tmp_path / "a.html")
    assert (code, errors) == (0, "")
    assert "price_$_per_$unit" in (tmp_path / "a.html").read_text()
    assert capfd.readouterr() == ("", "")
