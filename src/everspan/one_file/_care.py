"""Care of a file: is it sound, can it be smaller, a copy while others write."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..atomic import remove_leftovers
from ..store import StoreError, Writer, backup, checked_rows, opened, reading, reason, version_of
from ._learning import preparation_of
from ._opening import estimator_of
from ._texts import without_texts


@dataclass
class Checked:
    """What `check` found: how much there is, and what is wrong (nothing: the file is sound)."""

    path: Path
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check(path: str | Path) -> Checked:
    """Read a whole file and verify it: SQLite's structure, every checksum, every size, every reference."""
    found = Checked(Path(path))
    with opened(path) as connection:
        for (line,) in connection.execute("PRAGMA integrity_check(20)"):
            if line != "ok":
                found.problems.append(f"SQLite: {line}")
        for table in ("about", "arrays", "tasks", "predictors"):
            found.rows[table] = 0
            try:
                for _ in checked_rows(connection, table):
                    found.rows[table] += 1
            except Exception as error:  # whatever a damaged file does, the other tables are looked at
                found.problems.append(reason(error))
    if not found.problems:
        try:
            _load_all(path)
        except StoreError as error:
            found.problems.append(str(error).removeprefix(f"{path}: "))
    return found


def _load_all(path: str | Path) -> Any:
    model = estimator_of(path).load(path)
    tasks: int = len(model.history_)  # a large file's tasks are read now
    if hasattr(model, "table_"):
        without_texts(preparation_of(model, path), [], model._texts.values())  # raises if their sizes are wrong
    return tasks


def compact(path: str | Path) -> tuple[int, int]:
    """Write a file anew without gaps and remove what stopped processes left; return bytes before and after."""
    target = Path(path)
    with reading(path) as connection:
        version = version_of(connection)
    before = target.stat().st_size
    remove_leftovers(target.resolve())
    writer = Writer(path, version)
    try:
        writer.compact()
    finally:
        writer.close()
    return before, target.stat().st_size


__all__ = ["Checked", "backup", "check", "compact"]
