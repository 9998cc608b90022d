"""Reading a file: all of it, what tasks share, or some tasks; every checksum is verified."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from ..atomic import remove_leftovers
from ._connection import Version, absolute, reading, version_of
from ._format import TASK, Contents, arrays_of, checked_rows, facts_of, rows_where


def read(path: str | os.PathLike[str], most: int | None = None) -> tuple[Contents, Version]:
    """All of a file, and which state of it this is; without its tasks, where these are more than ``most``."""
    remove_leftovers(absolute(path))
    with reading(path) as connection:
        contents = Contents(facts_of(connection), arrays_of(connection))
        tasks = contents.about.get("tasks")
        if most is None or type(tasks) is not int or tasks <= most:
            contents.tasks = list(checked_rows(connection, "tasks"))
            contents.predictors = list(checked_rows(connection, "predictors"))
        return contents, version_of(connection)


def known_keys(connection: sqlite3.Connection, keys: Iterable[str]) -> set[str]:
    """Those of these keys that tasks have."""
    return {row[TASK.index("key")] for row in rows_where(connection, "tasks", "key", keys)}


def task_rows(connection: sqlite3.Connection, key: str | None = None) -> Iterator[tuple[Any, ...]]:
    """The rows of all tasks, or of the one with this key, in the order of the stream."""
    return checked_rows(connection, "tasks", *(() if key is None else ("key = ?", (key,))))


def read_tasks(connection: sqlite3.Connection, keys: Iterable[str]) -> Contents:
    """The rows of tasks with these keys, in the order of the stream; those that are not there are left out."""
    tasks = sorted(rows_where(connection, "tasks", "key", keys), key=lambda row: row[0])
    return Contents({}, {}, tasks, list(rows_where(connection, "predictors", "task", [row[0] for row in tasks])))
