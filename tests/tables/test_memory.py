"""The memory that reading and sorting a table takes is bounded by what was allowed, whatever the table is like."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MEMORY = 16_000_000
MEASURE = """
import json, resource, sys
from everspan.tables import Grouped, Scan, TableFile

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def read(path, memory):
    table, total = TableFile.open(path, memory), 0
    for _, X, y in Grouped(table, Scan.new(table, "task", "y"), memory=memory):
        total += X.nbytes
    return total

read(sys.argv[1], 10**6)
before = peak()
numbers = read(sys.argv[2], int(sys.argv[3]))
print(json.dumps({"numbers": numbers, "peak": peak() - before}))
"""


def texts(rng, rows, different, length):
    values = np.array([f"{i:03}" + "z" * length for i in range(different)], dtype=object)
    return pa.array(values[rng.integers(different, size=rows)])


def long_texts(rng):
    """120 MB of texts in a small file."""
    return {f"text{i}": texts(rng, 1000, 10, 2000) for i in range(60)}


def many_values(rng):
    """72 MB of numbers from 300,000 short texts."""
    return {f"text{i}": texts(rng, 3000, 100, 1) for i in range(30)}


def many_numbers(rng):
    """48 MB of numbers."""
    return {f"x{i}": rng.normal(size=60_000) for i in range(100)}


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are measured in other units elsewhere")
@pytest.mark.parametrize("columns", [long_texts, many_values, many_numbers])
def test_the_peak_follows_the_memory_that_is_allowed_and_not_the_table(tmp_path, columns):
    rng = np.random.default_rng(0)
    found = columns(rng)
    rows = len(next(iter(found.values())))
    table = pa.table(found | {"task": np.arange(rows) % 50, "y": rng.normal(size=rows)})
    pq.write_table(table, tmp_path / "large.parquet")
    pq.write_table(table[:100], tmp_path / "small.parquet")
    size = table.nbytes
    arguments = [tmp_path / "small.parquet", tmp_path / "large.parquet", str(MEMORY)]
    done = subprocess.run([sys.executable, "-c", MEASURE, *arguments], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    assert max(size, measured["numbers"]) > 2.5 * MEMORY, "or the test says nothing"
    assert measured["peak"] < 2.0 * MEMORY
