"""Care of a file: is it sound, can it be smaller, a copy while others write."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..store import Contents, Writer, arrays_of, backup, checked_rows, facts_of, reading, reason, version_of
from ._learning import preparation_of
from ._opening import kind_of
from ._texts import without_texts


@dataclass
class Checked:
    """What `check` found: how much there is, and what is wrong (nothing: the file is sound)."""

    path: Path
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check(path: str | Path) -> Checked:
    """Read a whole file as it is at one moment and verify it: structure, checksums, sizes and references."""
    found = Checked(Path(path))
    with reading(path) as connection:
        found.problems += [
            f"SQLite: {line}" for (line,) in connection.execute("PRAGMA integrity_check(20)") if line != "ok"
        ]
        rows = {table: _checked(connection, table, found) for table in ("about", "arrays", "tasks", "predictors")}
        if not found.problems:
            try:
                contents = Contents(facts_of(connection), arrays_of(connection), rows["tasks"], rows["predictors"])
                model = kind_of(contents.about, path)._from_contents(contents)
                if hasattr(model, "table_"):
                    without_texts(preparation_of(model, path), [], model._texts.values())  # raises at a wrong size
            except ValueError as error:
                found.problems.append(str(error).removeprefix(f"{path}: "))
    return found


def _checked(connection: sqlite3.Connection, table: str, found: Checked) -> list[tuple[Any, ...]]:
    """The rows of a table; what is wrong with them is noted, and the other tables are looked at as well."""
    rows: list[tuple[Any, ...]] = []
    try:
        rows.extend(checked_rows(connection, table))
    except sqlite3.OperationalError:  # in use by another process: nothing is wrong with the file
        raise
    except (ValueError, LookupError, TypeError, RecursionError, sqlite3.DatabaseError) as error:
        found.problems.append(reason(error))
    found.rows[table] = len(rows)
    return rows


def compact(path: str | Path) -> tuple[int, int]:
    """Write a file anew without gaps and remove what stopped processes left; return bytes before and after."""
    target = Path(path)
    with reading(path) as connection:
        version = version_of(connection)
    before = target.stat().st_size
    writer = Writer(path, version)
    try:
        writer.compact()
    finally:
        writer.close()
    return before, target.stat().st_size


__all__ = ["Checked", "backup", "check", "compact"]
