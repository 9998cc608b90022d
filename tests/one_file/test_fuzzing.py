"""No table and no file makes a traceback, hangs, or leaves half a file."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everspan.one_file import learn

from .fuzzing import BOMBS, Strange, check_store, check_table, hostile_table, run, wide_table
from .test_one_file import shops


@pytest.mark.parametrize("part", range(4))
def test_hostile_tables(tmp_path, part):
    codes = [check_table(tmp_path, hostile_table(np.random.default_rng(1000 * part + i))) for i in range(75)]
    assert codes.count(2) > 20
    assert codes.count(0) > 5, "some of them are fine"


def test_damaged_arrow_and_parquet_files_are_one_line_and_end_no_process():
    """A thousand of them are in benchmarks/strange_tables.py."""
    done = Strange("fuzzing.strange_table", 0, 60)
    assert done.crashed == {}
    assert done.codes[2] > 20
    assert done.codes[0] > 5, "some of them are fine"
    assert done.peak < 1e9


@pytest.mark.parametrize(
    "name",
    [
        "a text of a megabyte in every row of a Parquet file",
        "texts of a Parquet file that are long after a hundred rows",
    ],
)
def test_a_small_file_that_is_large_in_memory_takes_little_of_it(name):
    """Two gigabytes of texts in a Parquet file of some kilobytes; others are in benchmarks/strange_tables.py."""
    place = list(BOMBS).index(name)
    done = Strange("fuzzing.bomb", place, place + 1)
    assert done.crashed == {}
    assert done.codes == {0: 1}
    assert done.peak < 1e9


def test_parquet_whose_pages_may_be_as_large_as_their_long_texts_is_refused(tmp_path):
    """A file of 9 kB took 1.2 GB, and one of 64 kB took 10 GB."""
    text = "z" * 2_000_000
    columns = {"task": ["a", "b"] * 50, "x": np.arange(100.0), "text": [text + str(i) for i in range(100)]}
    table = pa.table(columns | {"y": ["u", "v", "v", "u"] * 25})
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd")
    code, _, errors = run("learn", tmp_path / "a.everspan", tmp_path / "a.parquet", "--quiet", "--memory", "50MB")
    assert code == 2
    assert "write it with row groups of at most 67 MB" in errors
    pq.write_table(table, tmp_path / "a.parquet", compression="zstd", row_group_size=10)
    code, _, errors = run("learn", tmp_path / "a.everspan", tmp_path / "a.parquet", "--quiet", "--memory", "50MB")
    assert code == 0, errors


def test_very_many_columns(tmp_path):
    """Time that grows with their square would not end: a hundred thousand are in benchmarks/one_file.py."""
    (tmp_path / "wide.csv").write_bytes(wide_table(20_000))
    code, said, errors = run("learn", tmp_path / "a.everspan", tmp_path / "wide.csv", "--quiet")
    assert code == 0, errors
    assert len(said) < 3000, "what is left out is not listed one by one"
    assert run("predict", tmp_path / "a.everspan", tmp_path / "wide.csv")[0] == 0


@pytest.mark.parametrize("part", range(4))
def test_damaged_files(tmp_path, part):
    table = shops(12, 15).rename(columns={"shop": "task"})
    table["task"] = table["task"].str.replace("s", "t")
    if part % 2:
        table["churn"] = np.random.default_rng(0).normal(size=len(table))
    table.to_csv(tmp_path / "a.csv", index=False)
    learn(tmp_path / "a.everspan", tmp_path / "a.csv")
    content = (tmp_path / "a.everspan").read_bytes()
    pd.concat([table[:20], table[:5].assign(u=9.0)]).to_csv(tmp_path / "b.csv", index=False)
    codes = [
        check_store(tmp_path, content, tmp_path / "b.csv", np.random.default_rng(1000 * part + i)) for i in range(60)
    ]
    assert codes.count(2) > 20
