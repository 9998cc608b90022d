"""The one-file model on disk: an SQLite database without pickle, checked before it is believed.

What a file holds is in docs/format.md. This module knows tables, arrays and names; the estimators say what they mean.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

APPLICATION: Final = 0x45565350  # "EVSP", where SQLite keeps whose file it is
FORMAT: Final = 1
_DTYPES: Final = {"<f8": np.dtype("<f8"), "<i8": np.dtype("<i8")}
_MOST: Final = 1 << 31  # bytes that one array may have
_SCHEMA: Final = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE arrays (
    name TEXT PRIMARY KEY, dtype TEXT NOT NULL, shape TEXT NOT NULL, data BLOB NOT NULL, checksum INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE tasks (
    position INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, action TEXT NOT NULL,
    met INTEGER NOT NULL, error REAL, error_bound REAL, confidence REAL, labels_used INTEGER NOT NULL,
    labels_wanted INTEGER, dimension INTEGER NOT NULL, features_learned INTEGER NOT NULL, seconds REAL, drift REAL,
    label_set INTEGER, mean BLOB, seen BLOB, checksum INTEGER NOT NULL
);
CREATE TABLE predictors (
    task INTEGER NOT NULL, place INTEGER NOT NULL, version INTEGER NOT NULL, feature INTEGER NOT NULL,
    coefficients BLOB NOT NULL, intercept REAL, reference REAL, plausible REAL, summary BLOB NOT NULL,
    doubt INTEGER NOT NULL, foreseen REAL, checksum INTEGER NOT NULL, PRIMARY KEY (task, place)
) WITHOUT ROWID;
"""
TASK: Final = [
    "position",
    "key",
    "name",
    "action",
    "met",
    "error",
    "error_bound",
    "confidence",
    "labels_used",
    "labels_wanted",
    "dimension",
    "features_learned",
    "seconds",
    "drift",
    "label_set",
    "mean",
    "seen",
]
PREDICTOR: Final = [
    "task",
    "place",
    "version",
    "feature",
    "coefficients",
    "intercept",
    "reference",
    "plausible",
    "summary",
    "doubt",
    "foreseen",
]


_WRONG: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)


class StoreError(ValueError):
    """A file that is not a store, or not a sound one."""


class StaleError(StoreError):
    """A file that another process has changed meanwhile."""


def reason(error: BaseException) -> str:
    """What went wrong, on one line that is not too long."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__ if isinstance(error, LookupError | RecursionError) else ''} {lines[0]:.200}".strip()


@dataclass
class Contents:
    """All that a file holds; rows of tasks and predictors in the order of TASK and PREDICTOR."""

    about: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    tasks: list[tuple[Any, ...]] = field(default_factory=list)
    predictors: list[tuple[Any, ...]] = field(default_factory=list)


# Writing --------------------------------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], contents: Contents, new: bool = False) -> None:
    """Put all of this into a file, new or in the place of what it holds: at no moment is there half of it.

    With ``new`` it is not put in the place of anything.
    """
    target = Path(path)
    folder = target.resolve().parent
    if not folder.is_dir():
        raise StoreError(f"{target}: there is no folder {target.parent}")
    if target.is_dir():
        raise StoreError(f"{target}: is a folder")
    if target.exists() and not new:
        _write_over(target, contents)
    else:
        _write_new(target, folder, contents, new)


def _write_over(target: Path, contents: Contents) -> None:
    """In one transaction: who has the file open, or left a journal beside it, is not overtaken."""
    with opened(target) as connection:
        change = change_of(connection)
    writer = Writer(target, change)
    try:
        with writer.transaction() as connection:
            replace_all(connection, contents)
    finally:
        writer.close()


def _write_new(target: Path, folder: Path, contents: Contents, new: bool) -> None:
    part = folder / f".{target.name}.{os.getpid()}.part"
    try:
        with closing(sqlite3.connect(part)) as connection:
            connection.executescript(
                f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA application_id = {APPLICATION}; "
                f"PRAGMA user_version = {FORMAT}; BEGIN; {_SCHEMA}"
            )
            _put_all(connection, contents)
            connection.commit()
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if new and target.exists():
            raise FileExistsError
        for journal in ("-wal", "-shm", "-journal"):  # of a file that is gone: SQLite would apply it to this one
            target.with_name(target.name + journal).unlink(missing_ok=True)
        _put_in_place(part, target, new)
        _sync_folder(folder)
    except FileExistsError as error:
        raise StaleError(f"{target}: another process has made it meanwhile") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{target}: cannot be written: {reason(error)}") from error
    finally:
        with suppress(OSError):  # nothing was made where nothing may be written
            part.unlink(missing_ok=True)


def _put_in_place(part: Path, target: Path, new: bool) -> None:
    if new:
        try:
            os.link(part, target)  # fails where there is something
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            pass
    part.replace(target)


def replace_all(connection: sqlite3.Connection, contents: Contents) -> None:
    """Put these contents in the place of all others, inside a transaction."""
    for table in ("arrays", "tasks", "predictors"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DELETE FROM about WHERE key != 'change'")
    _put_all(connection, contents)


def _put_all(connection: sqlite3.Connection, contents: Contents) -> None:
    put_facts(connection, contents.about)
    put_arrays(connection, contents.arrays)
    put(connection, "tasks", contents.tasks)
    put(connection, "predictors", contents.predictors)


def _packed(values: NDArray[Any]) -> tuple[str, str, bytes]:
    dtype = values.dtype.newbyteorder("<").str
    if dtype not in _DTYPES:
        raise TypeError(f"arrays of {values.dtype} are not stored")
    return dtype, json.dumps(values.shape), np.ascontiguousarray(values, dtype=dtype).tobytes()


def _summed(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row as SQLite will give it back, where nan is NULL, and its checksum."""
    plain = tuple(None if isinstance(value, float) and math.isnan(value) else value for value in row)
    return (*plain, _checksum(plain))


def _checksum(row: Sequence[Any]) -> int:
    """Of the row as Python writes it, with the lengths of blobs for blobs, and then of the blobs."""
    plain = [(len(value),) if isinstance(value, bytes) else value for value in row]
    total = zlib.crc32(repr(plain).encode())
    for value in row:
        if isinstance(value, bytes):
            total = zlib.crc32(value, total)
    return total


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class Writer:
    """A connection that writes into a store, one transaction after another; others may read meanwhile.

    Two processes may write into one file, but not behind each other's back: the one whose knowledge of the file is old
    is told so, and nothing of either is lost.
    """

    def __init__(self, path: str | os.PathLike[str], change: int) -> None:
        """Of a file that is known as it was after so many changes."""
        self.path, self._change = Path(path), change
        self._connection: sqlite3.Connection | None = None

    def open(self) -> sqlite3.Connection:
        """The connection, and an error where the file cannot be written.

        It is not opened when a writer is made: whoever is interrupted right then has nothing to close.
        """
        if self._connection is not None:
            return self._connection
        with opened(self.path):
            pass  # it is a store
        try:
            self._connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            for pragma in (
                "trusted_schema = OFF",
                "cell_size_check = ON",
                "journal_mode = WAL",
                "synchronous = NORMAL",
            ):
                self._connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: cannot be written: {reason(error)}") from error
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is done inside is in the file afterwards, or nothing is."""
        connection = self.open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                if change_of(connection) != self._change:
                    raise StaleError(f"{self.path}: another process has learned into it meanwhile: load it again")
                yield connection
                put(connection, "about", [("change", json.dumps(self._change + 1))])
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite has taken it back itself where the disk is full
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: cannot be written: {reason(error)}") from error
        self._change += 1

    def close(self) -> None:
        """Leave one file behind, where nobody else has it open."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA journal_mode = DELETE")
            self._connection.close()
        self._connection = None


def change_of(connection: sqlite3.Connection) -> int:
    """How many transactions a file has seen since it was made."""
    row = connection.execute("SELECT value FROM about WHERE key = 'change'").fetchone()
    return int(row[0]) if row and str(row[0]).isdigit() else 0


def put(connection: sqlite3.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Put rows into a table, in the place of those with the same keys."""
    summed = [_summed(row) for row in rows]
    if summed:
        marks = ", ".join("?" * len(summed[0]))
        connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", summed)


def put_arrays(connection: sqlite3.Connection, arrays: Mapping[str, NDArray[Any]]) -> None:
    put(connection, "arrays", [(name, *_packed(values)) for name, values in arrays.items()])


def put_facts(connection: sqlite3.Connection, about: Mapping[str, Any]) -> None:
    put(connection, "about", [(key, json.dumps(value, allow_nan=False)) for key, value in about.items()])


# Reading --------------------------------------------------------------------------------------------------------------


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, to a file that says it is a store of a format known here."""
    target = Path(path)
    if not target.exists():
        raise StoreError(f"{target}: there is no such file")
    if not target.is_file():
        raise StoreError(f"{target}: is not a file")
    try:
        with closing(sqlite3.connect(f"{target.resolve().as_uri()}?mode=ro", uri=True, timeout=60.0)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION:
                raise StoreError(f"{target}: is not an everspan file")
            if not 1 <= version <= FORMAT:
                raise StoreError(
                    f"{target}: has format {version}, and this everspan reads up to {FORMAT}: get a newer one"
                )
            _check_schema(target, connection)
            yield connection
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        if target.with_name(f"{target.name}-wal").exists() and not os.access(target.resolve().parent, os.W_OK):
            raise StoreError(
                f"{target}: a process ended before it was done with it: open it once where it may be written"
            ) from error
        raise StoreError(f"{target}: is damaged or no everspan file: {reason(error)}") from error


def _check_schema(target: Path, connection: sqlite3.Connection) -> None:
    """Tables are as they were made here: no view, trigger or computed column runs behind a name."""
    found = {sql.strip() for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found != {statement.strip() for statement in _SCHEMA.split(";") if statement.strip()}:
        raise StoreError(f"{target}: is damaged: its tables are not those of an everspan file")


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A connection whose reads are all of one moment; what goes wrong is said of the file."""
    with opened(path) as connection:
        try:
            connection.execute("BEGIN")
            yield connection
        except StoreError:
            raise
        except _WRONG as error:
            raise StoreError(f"{path}: is damaged: {reason(error)}") from error


def read(path: str | os.PathLike[str], most: int | None = None) -> Contents:
    """All of a file, its checksums verified; without its tasks, where these are more than ``most``."""
    with reading(path) as connection:
        contents = Contents(
            {key: json.loads(text) for key, text in _rows(connection, "about", ["key", "value"])},
            {name: _unpacked(*rest) for name, *rest in _rows(connection, "arrays", ["name", "dtype", "shape", "data"])},
        )
        tasks = contents.about.get("tasks")
        if most is None or type(tasks) is not int or tasks <= most:
            contents.tasks = list(_rows(connection, "tasks", TASK))
            contents.predictors = list(_rows(connection, "predictors", PREDICTOR))
        return contents


def known_keys(connection: sqlite3.Connection, keys: Iterable[str]) -> set[str]:
    """Those of these keys that tasks have."""
    found, chosen = set(), sorted(set(keys))
    for first in range(0, len(chosen), 500):
        part = chosen[first : first + 500]
        query = f"SELECT key FROM tasks WHERE key IN ({', '.join('?' * len(part))})"
        found |= {str(key) for (key,) in connection.execute(query, part)}
    return found


def task_rows(connection: sqlite3.Connection, key: str | None = None) -> Iterator[tuple[Any, ...]]:
    """The rows of all tasks, or of the one with this key, in the order of the stream."""
    return _rows(connection, "tasks", TASK, *(() if key is None else ("key = ?", (key,))))


def read_tasks(connection: sqlite3.Connection, keys: Iterable[str]) -> Contents:
    """The rows of tasks with these keys, in the order of the stream; those that are not there are left out."""
    found, chosen = Contents({}), sorted(set(keys))
    for first in range(0, len(chosen), 500):
        part = chosen[first : first + 500]
        found.tasks += _rows(connection, "tasks", TASK, f"key IN ({', '.join('?' * len(part))})", part)
    found.tasks.sort()
    positions = [row[0] for row in found.tasks]
    for first in range(0, len(positions), 500):
        part = positions[first : first + 500]
        found.predictors += _rows(connection, "predictors", PREDICTOR, f"task IN ({', '.join('?' * len(part))})", part)
    return found


def _rows(
    connection: sqlite3.Connection, table: str, columns: Sequence[str], where: str = "TRUE", values: Sequence[Any] = ()
) -> Iterator[tuple[Any, ...]]:
    query = f"SELECT {', '.join(columns)}, checksum FROM {table} WHERE {where} ORDER BY 1, 2"
    for *row, checksum in connection.execute(query, values):
        if _checksum(row) != checksum:
            raise ValueError(f"a checksum of table {table} is wrong, at {row[0]!r:.60}")
        yield tuple(row)


def _unpacked(dtype: str, shape: str, data: bytes) -> NDArray[Any]:
    if dtype not in _DTYPES:
        raise ValueError(f"an array of {dtype!r:.20}")
    sizes = json.loads(shape)
    if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size <= _MOST for size in sizes):
        raise ValueError("an array's shape")
    if math.prod(sizes) * _DTYPES[dtype].itemsize != len(data):
        raise ValueError("an array's size is not what its shape says")
    return np.frombuffer(data, dtype=_DTYPES[dtype]).reshape(sizes).copy()
