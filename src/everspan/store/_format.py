"""What a file holds: tables, columns, checksums and arrays (docs/format.md)."""

from __future__ import annotations

import json
import math
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

APPLICATION: Final = 0x45565350  # "EVSP", SQLite's application id
FORMAT: Final = 2
_DTYPES: Final = {"<f8": np.dtype("<f8"), "<i8": np.dtype("<i8")}
_MOST_ELEMENTS: Final = 1 << 31  # along one axis of an array

_TASKS_1: Final = """CREATE TABLE tasks (
    position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, action TEXT NOT NULL,
    met INTEGER NOT NULL, error REAL, error_bound REAL, confidence REAL, labels_used INTEGER NOT NULL,
    labels_wanted INTEGER, dimension INTEGER NOT NULL, features_learned INTEGER NOT NULL, seconds REAL, drift REAL,
    label_set INTEGER, mean BLOB, seen BLOB, checksum INTEGER NOT NULL
)"""
TASKS_2: Final = _TASKS_1.replace("seen BLOB, ", "seen BLOB, texts BLOB, ")
_OTHERS: Final = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE arrays (
    name TEXT PRIMARY KEY, dtype TEXT NOT NULL, shape TEXT NOT NULL, data BLOB NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID""",
    """CREATE TABLE predictors (
    task INTEGER NOT NULL, place INTEGER NOT NULL, version INTEGER NOT NULL, feature INTEGER NOT NULL,
    coefficients BLOB NOT NULL, intercept REAL, reference REAL, plausible REAL, summary BLOB NOT NULL,
    doubt INTEGER NOT NULL, foreseen REAL, checksum INTEGER NOT NULL, PRIMARY KEY (task, place)
) WITHOUT ROWID""",
)
SCHEMAS: Final = {1: (*_OTHERS, _TASKS_1), 2: (*_OTHERS, TASKS_2)}

TASK: Final = [
    *("position", "key", "name", "action", "met", "error", "error_bound", "confidence", "labels_used"),
    *("labels_wanted", "dimension", "features_learned", "seconds", "drift", "label_set", "mean", "seen", "texts"),
]
PREDICTOR: Final = [
    *("task", "place", "version", "feature", "coefficients", "intercept", "reference", "plausible", "summary"),
    *("doubt", "foreseen"),
]
_COLUMNS: Final = {
    "about": ["key", "value"],
    "arrays": ["name", "dtype", "shape", "data"],
    "tasks": TASK,
    "predictors": PREDICTOR,
}


@dataclass
class Contents:
    """All that a file holds; rows of tasks and predictors in the order of TASK and PREDICTOR."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    tasks: list[tuple[Any, ...]] = field(default_factory=list)
    predictors: list[tuple[Any, ...]] = field(default_factory=list)


def as_stored(contents: Contents) -> Contents:
    """The contents as a file gives them back."""
    return Contents(
        json.loads(json.dumps(contents.about, allow_nan=False)),
        {name: _unpacked(*_packed(values)) for name, values in contents.arrays.items()},
        [_plain(row) for row in contents.tasks],
        [_plain(row) for row in contents.predictors],
    )


# Writing rows ---------------------------------------------------------------------------------------------------------


def put(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows into a table; a row with a key that is there takes its place."""
    summed = [_with_checksum(row) for row in rows]
    if summed:
        marks = ", ".join("?" * len(summed[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", summed)


def put_arrays(connection: sqlite3.Connection, arrays: Mapping[str, NDArray[Any]]) -> None:
    put(connection, "arrays", [(name, *_packed(values)) for name, values in arrays.items()])


def put_facts(connection: sqlite3.Connection, about: Mapping[str, Any]) -> None:
    put(connection, "about", [(key, json.dumps(value, allow_nan=False)) for key, value in about.items()])


def put_all(connection: sqlite3.Connection, contents: Contents) -> None:
    """Insert all contents into empty tables."""
    put_facts(connection, contents.about)
    put_arrays(connection, contents.arrays)
    put(connection, "tasks", contents.tasks)
    put(connection, "predictors", contents.predictors)


def replace_all(connection: sqlite3.Connection, contents: Contents) -> None:
    """Put these contents in the place of all others, inside a transaction."""
    for table in _COLUMNS:
        connection.execute(f"DELETE FROM {table}")
    put_all(connection, contents)


def to_format_2(connection: sqlite3.Connection) -> None:
    """Bring a file of format 1 to format 2, inside a transaction."""
    rows = list(checked_rows(connection, "tasks"))
    connection.execute("DROP TABLE tasks")
    connection.execute(TASKS_2)
    put(connection, "tasks", rows)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _packed(values: NDArray[Any]) -> tuple[str, str, bytes]:
    dtype = values.dtype.newbyteorder("<").str
    if dtype not in _DTYPES:
        raise TypeError(f"arrays of {values.dtype} are not stored")
    return dtype, json.dumps(values.shape), np.ascontiguousarray(values, dtype=dtype).tobytes()


def _with_checksum(row: Sequence[Any]) -> tuple[Any, ...]:
    plain = _plain(row)
    return (*plain, checksum(plain))


def _plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row as SQLite gives it back, where nan is NULL."""
    return tuple(None if isinstance(value, float) and math.isnan(value) else value for value in row)


def checksum(row: Sequence[Any]) -> int:
    """The CRC-32 of a row as Python writes it, with the lengths of blobs for blobs, and then of the blobs."""
    plain = [(len(value),) if isinstance(value, bytes) else value for value in row]
    total = zlib.crc32(repr(plain).encode())
    for value in row:
        if isinstance(value, bytes):
            total = zlib.crc32(value, total)
    return total


# Reading rows ---------------------------------------------------------------------------------------------------------


def format_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def checked_rows(
    connection: sqlite3.Connection, table: str, where: str = "TRUE", values: Sequence[Any] = ()
) -> Iterator[tuple[Any, ...]]:
    """Rows of a table in the order of its keys, their checksums verified; ValueError says which row is wrong."""
    names, missing = _COLUMNS[table], list[None]()
    if table == "tasks" and format_of(connection) == 1:
        names, missing = names[:-1], [None]  # it has no texts
    query = f"SELECT {', '.join(names)}, checksum FROM {table} WHERE {where} ORDER BY 1, 2"
    for *row, expected in connection.execute(query, values):
        if checksum(row) != expected:
            raise ValueError(f"a checksum of table {table} is wrong, at {row[0]!r:.60}")
        yield (*row, *missing)


def facts_of(connection: sqlite3.Connection) -> dict[str, Any]:
    """The table `about`."""
    return {key: json.loads(text) for key, text in checked_rows(connection, "about")}


def arrays_of(connection: sqlite3.Connection) -> dict[str, NDArray[Any]]:
    """The table `arrays`."""
    return {name: _unpacked(*rest) for name, *rest in checked_rows(connection, "arrays")}


def rows_where(
    connection: sqlite3.Connection, table: str, column: str, values: Iterable[Any]
) -> Iterator[tuple[Any, ...]]:
    """Rows whose column has one of these values."""
    chosen = sorted(set(values))
    for first in range(0, len(chosen), 500):
        part = chosen[first : first + 500]
        yield from checked_rows(connection, table, f"{column} IN ({', '.join('?' * len(part))})", part)


def _unpacked(dtype: str, shape: str, data: bytes) -> NDArray[Any]:
    if dtype not in _DTYPES:
        raise ValueError(f"an array of {dtype!r:.20}")
    sizes = json.loads(shape)
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= _MOST_ELEMENTS for size in sizes):
        raise ValueError("an array's shape")
    if math.prod(sizes) * _DTYPES[dtype].itemsize != len(data):
        raise ValueError("an array's size is not what its shape says")
    return np.frombuffer(data, dtype=_DTYPES[dtype]).reshape(sizes).copy()
