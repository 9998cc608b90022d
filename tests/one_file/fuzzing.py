"""Hostile tables and damaged files: some hundreds in the tests, thousands in ``benchmarks/one_file.py``."""

from __future__ import annotations

import collections
import contextlib
import functools
import gzip
import io
import json
import math
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from everspan.cli import main
from everspan.one_file import open_model
from everspan.store import PREDICTOR, TASK
from everspan.store import checksum as _checksum

ROOT = Path(__file__).resolve().parents[2]
CELLS = ["", "0", "1", "-1", "1e308", "-1e-320", "inf", "-inf", "NaN", "NULL", "true", "False", "yes", "no", "9" * 400]
CELLS += [
    "2024-01-01",
    "café",
    "日本",
    "\u202eabc",
    '"quoted, text"',
    '"two\nlines"',
    "'",
    "=1+1",
    " 3 ",
    "0x10",
    "1,5",
]
CELLS += ["9223372036854775808", "1_000", "١٢", "\ufeff7", "a" * 5000, "None", "<b>", "%s", "\\", "{}", "-0.0", "1e5"]
NAMES = ["task", "target", "x", "y", "customer", "", "x", "é", "a b", "select", '"q"', "日", "label", "n" * 3000, "id"]


def hostile_table(rng):
    """A table that nobody should send, as bytes."""
    kind = rng.integers(10)
    if kind == 0:
        return rng.bytes(int(rng.integers(0, 300)))
    columns = int(rng.choice([1, 2, 3, 5, 12, 400]))
    odd = rng.choice([0.0, 0.0, 0.2]) if columns < 100 else 0.0
    names = [str(rng.choice(NAMES)) if rng.random() < odd else f"c{i}" for i in range(columns)]
    if rng.random() < 0.9:
        names[0] = "task"
    if rng.random() < 0.9 and columns > 1:
        names[-1] = "target"
    rows = int(rng.choice([0, 1, 2, 7, 40, 40, 40]))
    delimiter = str(rng.choice([",", ",", ",", ";", "\t", "|"]))
    wild = rng.choice([0.0, 0.02, 0.3, 1.0])
    lines = [delimiter.join(names)]
    for _ in range(rows):
        cells = [f"{rng.normal():.4}" for _ in names]
        cells[0], cells[-1] = f"t{rng.integers(4)}", str(rng.choice(["0", "1"]))
        cells = [str(rng.choice(CELLS)) if rng.random() < wild else cell for cell in cells]
        if rng.random() < 0.005:
            cells = cells[: int(rng.integers(0, columns + 1))] + ["extra"] * int(rng.integers(0, 2))
        lines.append(delimiter.join(cells))
    text = str(rng.choice(["\n", "\n", "\r\n"])).join(lines) + str(rng.choice(["\n", ""]))
    content = text.encode(str(rng.choice(["utf-8", "utf-8-sig", "utf-16"], p=[0.8, 0.15, 0.05])))
    if rng.random() < 0.1:
        content = text.encode("latin-1", errors="replace")
    if rng.random() < 0.1:
        content = gzip.compress(content)
    if rng.random() < 0.15:
        content = damaged(rng, content)
    return content


def wide_table(columns=100_000):
    """As many columns as nobody has."""
    head = ",".join(["task", *(f"c{i}" for i in range(columns)), "target"])
    rows = [
        ",".join([f"t{i % 2}", *("1" if (i + j) % 7 else "2" for j in range(columns)), str(i % 3 % 2)])
        for i in range(6)
    ]
    return "\n".join([head, *rows]).encode()


def damaged(rng, content):
    """Bytes flipped, cut, doubled, or put in."""
    if not content:
        return content
    kind, place = rng.integers(4), int(rng.integers(len(content)))
    if kind == 0:
        changed = bytearray(content)
        for _ in range(int(rng.choice([1, 1, 10, 100]))):
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
        return bytes(changed)
    if kind == 1:
        return content[:place]
    if kind == 2:
        return content[:place] + rng.bytes(int(rng.integers(1, 50))) + content[place:]
    return content[:place] + content[max(0, place - 100) :]


@functools.cache
def sound_table(kind, compression):
    """A table of many types in a binary format, as bytes."""
    rng, rows = np.random.default_rng(0), 200
    text = [["a", "b", None][i % 3] for i in range(rows)]
    columns = {
        "task": [f"t{i % 4}" for i in range(rows)],
        "x": rng.normal(size=rows),
        "text": pa.array(text),
        "large": pa.array(text, pa.large_string()),
        "kind": pa.array(text).dictionary_encode(),
        "flag": [i % 2 == 0 for i in range(rows)],
        "list": [[1, 2]] * rows,
        "day": pa.array(np.arange(rows, dtype=np.int32), pa.date32()),
        "id": np.arange(rows) + 2**60,
        "price": pa.array(np.arange(rows) % 7).cast(pa.decimal128(21, 2)),
    }
    if kind != "parquet":
        columns["view"] = pa.array(["some longer text" * (i % 3) for i in range(rows)], pa.string_view())
    table = pa.table(columns | {"target": rng.integers(0, 2, rows)})
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink, row_group_size=64, compression=compression or "none")
        return sink.getvalue()
    write = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    with write(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=64)
    return sink.getvalue()


def strange_table(seed):
    """A damaged Arrow or Parquet file: bytes flipped, cut, doubled or put in, or numbers set to what sizes may be."""
    rng = np.random.default_rng(seed)
    kind = ("arrow", "stream", "parquet")[seed % 3]
    content = sound_table(kind, (None, "lz4", "zstd")[int(rng.integers(3))])
    if rng.random() < 0.4:
        return damaged(rng, content)
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        width = int(rng.choice([1, 2, 4, 8]))
        place = int(rng.integers(len(content) - 8))
        value = int(rng.choice([0, 1, 2**7 - 1, 2**8 - 1, 2**15, 2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63 - 1]))
        changed[place : place + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    return bytes(changed)


def _small_table(**columns):
    rows = 2000
    names, x = [f"t{i % 4}" for i in range(rows)], np.random.default_rng(0).normal(size=rows)
    return pa.table({"task": names, "target": np.arange(rows) % 2, "x": x} | columns)


def _same_texts(*texts):
    return pa.DictionaryArray.from_arrays(np.arange(2000) % len(texts), texts)


def _long_texts_in(kind):
    table = _small_table(text=_same_texts("long text " * 100_000, "longer text " * 100_000))
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink, compression="zstd")
        return sink.getvalue()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _many_long_texts():
    sink = io.BytesIO()
    texts = _same_texts(*(f"{i}" + "z" * 1700 for i in range(20)))
    pq.write_table(_small_table(**{f"c{i}": texts for i in range(200)}), sink, compression="zstd")
    return sink.getvalue()


def _texts_that_become_long():
    sink = io.BytesIO()
    texts = pa.DictionaryArray.from_arrays(np.repeat([0, 1], [100, 1900]), ["short", "long text " * 100_000])
    pq.write_table(_small_table(text=texts), sink, compression="zstd")
    return sink.getvalue()


def _claimed_terabyte():
    content = bytearray(sound_table("stream", "zstd"))
    messages = pa.ipc.MessageReader.open_stream(bytes(content))
    *_, last = (bytes(message.body) for message in messages if message.body is not None and message.body.size)
    place = content.index(last)
    content[place : place + 8] = (2**40).to_bytes(8, "little")
    return bytes(content)


# Small files that are large in memory.
BOMBS = {
    "a compressed buffer that claims a terabyte": _claimed_terabyte,
    "a gzipped line without an end": lambda: gzip.compress(b"a," * (1 << 26)),
    "200 columns of long texts in a Parquet file": _many_long_texts,
    "a text of a megabyte in every row of an Arrow file": lambda: _long_texts_in("arrow"),
    "a text of a megabyte in every row of a Parquet file": lambda: _long_texts_in("parquet"),
    "texts of a Parquet file that are long after a hundred rows": _texts_that_become_long,
}


def bomb(place):
    return list(BOMBS.values())[place]()


class Strange:
    """Files one after another in a process of their own, which is started again if one of them ends it."""

    PROGRAM = """
import json, resource, sys, tempfile, time
from pathlib import Path
from tests.one_file import fuzzing
limit = 16 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
content = {content}
for i in range(int(sys.argv[1]), int(sys.argv[2])):
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        print(json.dumps({{"file": i}}), flush=True)
        code = fuzzing.check_table(Path(folder), content(i))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps({{"code": code, "seconds": time.perf_counter() - started, "peak": peak}}), flush=True)
"""

    def __init__(self, content, first, last, progress=lambda done: None):
        self.codes, self.crashed, self.slowest, self.peak = collections.Counter(), {}, 0.0, 0
        while first < last:
            program = [sys.executable, "-c", self.PROGRAM.format(content=content), str(first), str(last)]
            with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
                for line in map(json.loads, process.stdout):
                    first = line.get("file", first)
                    if "code" in line:
                        self.codes[line["code"]] += 1
                        self.slowest, self.peak = max(self.slowest, line["seconds"]), max(self.peak, line["peak"])
                        first += 1
                        progress(first)
                errors = process.stderr.read().decode(errors="replace")
            if process.returncode:
                self.crashed[first] = (process.returncode, errors[-2000:])
                first += 1

    def figures(self):
        return {
            "by exit code": dict(sorted(self.codes.items())),
            "crashed": {file: code for file, (code, _) in self.crashed.items()},
            "slowest, s": self.slowest,
            "peak of the process, MB": self.peak / 1e6,
        }


def run(*arguments):
    """The command line in this process: exit code, output, errors."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # of argparse
            code = stop.code
    return code, out.getvalue(), errors.getvalue()


def check_table(folder, content):
    """Learn a table: it goes well or one line says why not, and there is a whole file or none. Returns the code."""
    table, path = folder / "t.csv", folder / "t.everspan"
    table.write_bytes(content)
    path.unlink(missing_ok=True)
    code, _, errors = run("learn", path, table, "--quiet")
    assert code in (0, 1, 2), code
    if code == 2:
        assert errors.count("\n") == 1, errors
        assert len(errors) < 1000, errors
    if path.exists():
        model = open_model(path)
        assert np.isfinite(model.representation_.basis).all()
        again, _, errors = run("learn", path, table, "--quiet")
        assert again == code, errors
        assert open_model(path).history_ == model.history_, "the same table brings nothing new"
        predicted, _, errors = run("predict", path, table)
        if predicted:  # rows without a label, which were not learned from, may be wrong too
            assert predicted == 2
            assert "is not a" in errors
            assert errors.count("\n") == 1
    assert sorted(p.name for p in folder.iterdir()) in (["t.csv"], ["t.csv", "t.everspan"]), "nothing else is left"
    return code


VALUES = [
    None,
    0,
    1,
    -1,
    2**62,
    2**63 - 1,
    -5,
    0.5,
    math.inf,
    1e308,
    "",
    "x",
    "[]",
    "{}",
    "null",
    "true",
    "1e999",
    b"",
    b"\0" * 8,
]
VALUES += [
    b"\xff" * 16,
    "[" * 5000,
    '{"float": "nan"}',
    '"a"',
    "<script>",
    "reused",
    "LifelongRegressor",
    "z" * 100_000,
]


def hostile_store(rng, path):
    """Change a file as somebody would who knows the format: the checksums are right, the contents are not."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for _ in range(int(rng.choice([1, 1, 2, 5]))):
            _change(rng, connection)


def _change(rng, connection):
    table = str(rng.choice(["about", "arrays", "tasks", "predictors"]))
    columns = {"about": ["key", "value"], "arrays": ["name", "dtype", "shape", "data"], "tasks": TASK}
    names = columns.get(table, PREDICTOR)
    rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
    if not rows:
        return
    row = list(rows[int(rng.integers(len(rows)))])
    keys = {"about": 1, "arrays": 1, "tasks": 1, "predictors": 2}[table]
    where = " AND ".join(f"{name} = ?" for name in names[:keys])
    connection.execute(f"DELETE FROM {table} WHERE {where}", row[:keys])
    if rng.random() < 0.1:
        return
    place = int(rng.integers(len(row)))
    value = VALUES[int(rng.integers(len(VALUES)))]
    if table == "about" and rng.random() < 0.5:
        value = _other_json(rng, row[1])
    elif isinstance(row[place], bytes) and rng.random() < 0.5:
        value = damaged(rng, row[place])
    elif isinstance(row[place], int | float) and rng.random() < 0.5:
        value = row[place] + int(rng.integers(-2, 3))
    row[1 if table == "about" else place] = value
    plain = [None if isinstance(v, float) and math.isnan(v) else v for v in row]
    with contextlib.suppress(sqlite3.Error, OverflowError):
        marks = ", ".join("?" * (len(row) + 1))
        connection.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", [*plain, _checksum(plain)])


def _other_json(rng, text):
    """The same JSON with one part of it changed."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    odd = [None, -1, 0, 2**70, 1.5, "", "x", [], {}, True, [[]], {"float": "x"}, "0x1p+5000", "nan"]
    new = odd[int(rng.integers(len(odd)))]
    holder, key = None, None
    inner = value
    while isinstance(inner, dict | list) and inner and rng.random() < 0.8:
        holder = inner
        key = list(inner)[int(rng.integers(len(inner)))] if isinstance(inner, dict) else int(rng.integers(len(inner)))
        inner = inner[key]
    if holder is None:
        return json.dumps(new)
    holder[key] = new
    return json.dumps(value)


def check_store(folder, content, table, rng):
    """Every command on a damaged file: it works or one line says why not, and reading changes nothing."""
    path = folder / "s.everspan"
    path.write_bytes(content)
    if rng.random() < 0.6:
        hostile_store(rng, path)
    else:
        path.write_bytes(damaged(rng, content))
    before = path.read_bytes()
    codes = []
    for command in (
        ("show", path),
        ("show", path, "--tasks"),
        ("predict", path, table),
        ("export", path, "--task", "t1", "--out", folder / "out.json"),
        ("export", path, "--out", folder / "out.parquet"),
    ):
        code, _, errors = run(*command)
        assert code in (0, 2), (command, code)
        assert code == 0 or errors.count("\n") == 1, errors
        assert len(errors) < 2000, errors[:300]
        codes.append(code)
    assert path.read_bytes() == before
    for command in (("forget", path, "t2"), ("learn", path, table, "--quiet")):
        code, _, errors = run(*command)
        assert code in (0, 1, 2), (command, code)
        assert code != 2 or errors.count("\n") == 1, errors
    return max(codes)
