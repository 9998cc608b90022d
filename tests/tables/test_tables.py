"""Tables: the same numbers whatever the format, the batches, the memory and the order of rows."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from everspan.tables import Column, Grouped, Preparation, Scan, TableError, TableFile, _files, _grouping, guess_columns


def customers(rows=300, tasks=12, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "customer": [f"c{i}" for i in rng.integers(tasks, size=rows)],
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(40.0, 10.0, rows)),
            "visits": rng.integers(0, 50, rows),
            "city": rng.choice(["Berlin", "São Paulo", 'a "b", c', "line\nbreak"], rows),
            "vip": rng.random(rows) < 0.3,
            "spent": rng.normal(size=rows),
        }
    )


def scanned(path, **options):
    table = TableFile.open(path)
    return table, Scan.new(table, "customer", "spent", **options)


def write_all(folder, frame):
    """The same rows in every format."""
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_csv(folder / "index.csv")  # with a first column that has no name
    frame.to_csv(folder / "semicolons.csv", index=False, sep=";")
    frame.to_csv(folder / "tabs.tsv", index=False, sep="\t")
    (folder / "bom.csv").write_bytes(b"\xef\xbb\xbf" + (folder / "a.csv").read_bytes())
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    frame.to_parquet(folder / "a.parquet", index=False)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.set_column(3, "city", table.column("city").cast(pa.string()).dictionary_encode())
    with pa.OSFile(str(folder / "a.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=37)
    with pa.OSFile(str(folder / "stream.arrows"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=37)
    return sorted(path for path in folder.iterdir() if path.suffix != ".md")


def test_every_format_says_the_same(tmp_path):
    found = {}
    for path in write_all(tmp_path, customers()):
        table, scan = scanned(path)
        found[path.name] = (scan.preparation, list(Grouped(table, scan)))
    known, tasks = found["a.parquet"]
    assert len(found) == 9
    for name, (preparation, groups) in found.items():
        assert preparation == known, name
        for (task, X, y), (other, X_other, y_other) in zip(groups, tasks, strict=True):
            assert task == other
            np.testing.assert_array_equal(X, X_other)
            np.testing.assert_array_equal(y, y_other)


def test_numbers_are_what_scikit_learn_makes_of_the_columns(tmp_path):
    """The oracle: StandardScaler, SimpleImputer with its indicator, OneHotEncoder."""
    frame = customers()
    frame.loc[5:9, "city"] = None
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    table, scan = scanned(tmp_path / "a.parquet")
    (batch,) = table.batches(list(frame))
    numeric = make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True))
    oracle = ColumnTransformer(
        [
            ("numbers", numeric, ["age"]),
            ("counts", StandardScaler(), ["visits"]),
            ("text", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["city"]),
            ("truth", StandardScaler(), ["vip"]),
        ]
    )
    expected = oracle.fit_transform(frame.assign(city=frame["city"].astype(object).where(frame["city"].notna(), None)))
    np.testing.assert_allclose(scan.preparation.numbers(batch), expected, atol=1e-12)
    assert scan.preparation.names[:4] == ["age", "age is missing", "visits", "city = Berlin"]
    assert "city is missing" in scan.preparation.names


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(5, 200), tasks=st.integers(1, 30), memory=st.integers(1, 20_000), seed=st.integers(0, 99))
def test_grouping_is_that_of_pandas_whatever_fits_into_memory(tmp_path, rows, tasks, memory, seed):
    frame = customers(rows, tasks, seed)
    frame.to_csv(tmp_path / "a.csv", index=False)
    table, scan = scanned(tmp_path / "a.csv", kind="regression")
    groups = list(Grouped(table, scan, memory=memory, folder=tmp_path))
    expected = list(frame.groupby("customer", sort=False))
    assert [task for task, _, _ in groups] == [task for task, _ in expected]
    for (_, X, y), (_, part) in zip(groups, expected, strict=True):
        np.testing.assert_allclose(y, part["spent"], rtol=1e-15)
        assert len(X) == len(part)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.csv"], "nothing is left behind"


def test_a_column_is_known_by_all_its_rows_not_by_the_first(tmp_path, monkeypatch):
    """Numbers for thousands of rows, and then a text: types that are guessed from the first block would be wrong."""
    monkeypatch.setattr(_files, "_BLOCK", 1000)
    lines = [f"a,{i % 7},{i % 3},{i}" for i in range(500)] + ["b,seven,1,x" if i else "b,3,true,2" for i in range(2)]
    (tmp_path / "a.csv").write_text("customer,mostly,flags,spent\n" + "\n".join(lines) + "\n")
    table = TableFile.open(tmp_path / "a.csv")
    with pytest.raises(TableError, match="'spent' has text"):
        Scan.new(table, "customer", "spent", kind="regression")
    scan = Scan.new(table, "customer", "flags")
    assert scan.preparation.target == "text", "0, 1, 2 and true are not one kind of number"
    mostly = scan.preparation.columns[0]
    assert (mostly.name, mostly.kind) == ("mostly", "text")
    assert mostly.values == ("0", "1", "2", "3", "4", "5", "6", "seven")


def test_what_is_left_out_is_said(tmp_path):
    n = 2000
    frame = pd.DataFrame(
        {
            "customer": ["a"] * (n - 2) + [None] * 2,
            "always": 1.5,
            "empty": [None] * n,
            "when": pd.date_range("2020-01-01", periods=n),
            "name": [f"person {i}" for i in range(n)],
            "size": [np.inf, 1e300, *range(n - 2)],
            "code": [f"code {i % 150}" for i in range(n)],
            "note": [f"{i % 30}" + "z" * 10_000 for i in range(n)],
            "spent": [None, *range(n - 1)],
        }
    )
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    _, scan = scanned(tmp_path / "a.parquet")
    said = "\n".join(scan.notes)
    for part in (
        "left out: 'always': is always the same",
        "left out: 'empty': is empty",
        "left out: 'when': is a date or a time",
        "left out: 'name': has more than 1,000 different texts",
        "left out: 'note': has different texts of more than 262,144 characters",
        "'size' has 1 infinite or huge numbers: taken as missing",  # the other's row has no label
        "'code' has 150 different texts: the 100 most common count",
    ):
        assert part in said
    assert [column.name for column in scan.preparation.columns] == ["size", "code"]
    assert (scan.rows, scan.unlabelled, scan.nameless, sum(scan.counts)) == (n, 1, 2, n - 3)


@pytest.mark.parametrize(
    ("target", "kind", "expected"),
    [
        ([0, 1, 1, 0], None, "integer"),
        ([0.5, 1.0, 2.0, 3.0], None, "number"),
        (list(range(4)), "regression", "number"),
        (["no", "yes", "no", "yes"], None, "text"),
        (["true", "FALSE", "true", "true"], None, "boolean"),
        (["red", "green", "red", "blue"], None, "text"),
        ([True, False, True, True], None, "boolean"),
        ([True, False, True, True], "regression", "number"),
    ],
)
def test_what_labels_are_is_found(tmp_path, target, kind, expected):
    frame = pd.DataFrame({"task": list("aabb"), "x": [1.0, 2.0, 3.0, 4.0], "label": target})
    frame.to_csv(tmp_path / "a.csv", index=False)
    table = TableFile.open(tmp_path / "a.csv")
    task, label, said = guess_columns(table.kinds, None, None)
    assert (task, label, len(said)) == ("task", "label", 2)
    scan = Scan.new(table, task, label, kind=kind)
    assert scan.preparation.target == expected
    labels = np.concatenate([y for _, _, y in Grouped(table, scan)])
    assert labels.tolist() == ([value == "true" for value in target] if target[0] == "true" else list(target))


def test_names_of_tasks_are_text_however_they_are_kept(tmp_path):
    large = 2**53 + 1
    for kind, values in (("int64", [7, large]), ("float64", [7.0, 7.5]), ("string", ["7", "x"])):
        table = pa.table({"task": pa.array(values, kind), "x": [1.0, 2.0], "y": [1.0, 0.0]})
        pq.write_table(table, tmp_path / "a.parquet")
        source = TableFile.open(tmp_path / "a.parquet")
        scan = Scan.new(source, "task", "y")
        assert list(scan.ranks) == ["7", {"int64": str(large), "float64": "7.5", "string": "x"}[kind]]


def test_columns_are_guessed_by_their_names_or_asked_for():
    assert guess_columns({"x": "text", "CustomerID": "text", "z": "text"}, None, None)[:2] == ("CustomerID", "z")
    assert guess_columns({"y": "text", "user_id": "text", "z": "text"}, None, None)[:2] == ("user_id", "y")
    with pytest.raises(TableError, match="which column says what task"):
        guess_columns({"a": "text", "b": "text"}, None, None)
    with pytest.raises(TableError, match="no column 'c'; it has 'a', 'b'"):
        guess_columns({"a": "text", "b": "text"}, "c", None)
    with pytest.raises(TableError, match="cannot be the task and the target"):
        guess_columns({"a": "text", "b": "text"}, "a", "a")
    with pytest.raises(TableError, match="one column alone"):
        guess_columns({"task": "text"}, None, None)


def test_a_preparation_survives_json_and_wrong_ones_are_told(tmp_path):
    customers().to_csv(tmp_path / "a.csv", index=False)
    known = scanned(tmp_path / "a.csv")[1].preparation
    facts = known.facts()
    assert Preparation.from_facts(facts) == known
    for wrong in (
        {"target": "else"},
        {"task_column": 7},
        {"columns": [{"name": "a", "kind": "odd", "missing": False}]},
        {"columns": [{"name": "a", "kind": "number", "missing": False, "mean": "nan", "scale": "0x1p+0"}]},
        {"columns": [{"name": "a", "kind": "number", "missing": False, "mean": "0x0p+0", "scale": "0x0p+0"}]},
        {"columns": [{"name": "a", "kind": "text", "missing": False, "values": ["a", "a"]}]},
        {"columns": [{"name": "a", "kind": "text", "missing": False, "values": [1]}]},
    ):
        with pytest.raises(ValueError, match=r"column|labels"):
            Preparation.from_facts(facts | wrong)


def test_what_was_a_number_must_stay_one():
    column = Column("age", "number", 40.0, 10.0)
    np.testing.assert_array_equal(column.numbers(pa.array([50.0, None])), [[1.0], [0.0]])
    with pytest.raises(ValueError, match="'old' is not a number"):
        column.numbers(pa.array(["50", "old"]))
    known = Column("city", "text", values=("a", "b"), missing=True)
    np.testing.assert_array_equal(known.numbers(pa.array(["b", "new", None])), [[0, 1, 0], [0, 0, 0], [0, 0, 1]])


def test_a_forgotten_text_keeps_its_number_at_zero_and_its_name_says_so():
    city = Column("city", "text", values=("a", None, "(forgotten)", None), missing=True)
    numbers = city.numbers(pa.array(["a", "b", "(forgotten)", None, "None"]))
    expected = [[1, 0, 0, 0, 0], [0] * 5, [0, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0] * 5]
    np.testing.assert_array_equal(numbers, expected)
    assert not Column("city", "text", values=(None,)).numbers(pa.array(["a", None])).any()
    known = Preparation("task", "y", "number", (Column("n", "number", missing=True), city, Column("m", "number")))
    assert Preparation.from_facts(json.loads(json.dumps(known.facts()))) == known
    assert len(set(known.names)) == len(known.names) == 8
    for index, place, position in known.text_positions:
        value = known.columns[index].values[place]
        assert known.names[position].rstrip("'") == f"city = {value or '(forgotten)'}"
    assert [position for _, _, position in known.text_positions] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a,a\n1,2\n", "two columns with the name 'a'"),
        (b",\n1,2\n", "no column with a name"),
        (b"\xff\xfea\x00", "neither UTF-8 text nor Parquet nor Arrow"),
        (b"a\xff,b\n1,2\n", "not UTF-8 text"),
        (b"PAR1 and nothing else", "cannot be read as a table"),
        (b"ARROW1 and nothing else", "cannot be read as a table"),
        (b"\x1f\x8b and nothing else", "cannot be read as a table"),
    ],
)
def test_what_is_no_table_is_said_in_one_line(tmp_path, content, message):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(TableError, match=message) as caught:
        TableFile.open(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_rows_that_are_wrong_are_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"customer,x,spent\na,1,2\nb,1\n")
    with pytest.raises(TableError, match="Expected 3 columns, got 2"):
        scanned(path)
    path.write_bytes(b"customer,x,spent\na,1,2\nb\xff,1,3\n")
    with pytest.raises(TableError, match="invalid UTF8"):
        scanned(path)
    path.write_bytes(b"customer,x,spent\na,1,2\nb," + b"1" * 20_000_000 + b",3\n")
    with pytest.raises(TableError, match="a row is longer than 2 MB, or a quote is never closed"):
        scanned(path)
    path.write_bytes(b"customer,x,spent\n")
    with pytest.raises(TableError, match="no row has both"):
        scanned(path)
    with pytest.raises(TableError, match="no such file"):
        TableFile.open(tmp_path / "none.csv")
    with pytest.raises(TableError, match="is a folder"):
        TableFile.open(tmp_path)


@pytest.mark.parametrize("change", [-3, 3])
@pytest.mark.parametrize("memory", [1, 10**9])
def test_a_table_that_changes_while_it_is_read_is_said(tmp_path, change, memory):
    frame = customers()
    frame.to_csv(tmp_path / "a.csv", index=False)
    table, scan = scanned(tmp_path / "a.csv")
    (frame[:change] if change < 0 else pd.concat([frame, frame[:change]])).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(TableError, match="changed while it was read"):
        list(Grouped(table, scan, memory=memory, folder=tmp_path))
    assert list(tmp_path.iterdir()) == [tmp_path / "a.csv"]


def test_a_table_of_more_parts_than_open_files_takes_more_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(_grouping, "_PARTS", 3)
    customers(tasks=20).to_csv(tmp_path / "a.csv", index=False)
    table, scan = scanned(tmp_path / "a.csv")
    passes = []
    all_rows = Grouped._kept_rows
    monkeypatch.setattr(Grouped, "_kept_rows", lambda self: passes.append(1) or all_rows(self))
    for (task, X, y), (other, X_once, y_once) in zip(Grouped(table, scan, memory=1), Grouped(table, scan), strict=True):
        assert task == other
        np.testing.assert_array_equal(X, X_once)
        np.testing.assert_array_equal(y, y_once)
    assert len(passes) == 7 + 1


def test_a_full_disk_while_rows_are_sorted_is_said(tmp_path):
    customers().to_csv(tmp_path / "a.csv", index=False)
    table, scan = scanned(tmp_path / "a.csv")
    with pytest.raises(TableError, match="cannot be sorted by task on disk"):
        list(Grouped(table, scan, memory=1, folder=tmp_path / "not there"))
