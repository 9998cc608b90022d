"""The one-file model on disk: an SQLite database without pickle, checked before it is believed.

What a file holds is in docs/format.md. This package knows tables, arrays and names; the estimators say what they mean.
"""

from ._connection import StaleError, StoreError, Version, opened, reading, reason, version_of
from ._format import (
    APPLICATION,
    FORMAT,
    PREDICTOR,
    TASK,
    Contents,
    arrays_of,
    as_stored,
    checked_rows,
    checksum,
    facts_of,
    format_of,
    put,
    put_arrays,
    put_facts,
    replace_all,
)
from ._reading import known_keys, read, read_tasks, task_rows
from ._writing import Writer, backup, write

__all__ = [
    "APPLICATION",
    "FORMAT",
    "PREDICTOR",
    "TASK",
    "Contents",
    "StaleError",
    "StoreError",
    "Version",
    "Writer",
    "arrays_of",
    "as_stored",
    "backup",
    "checked_rows",
    "checksum",
    "facts_of",
    "format_of",
    "known_keys",
    "opened",
    "put",
    "put_arrays",
    "put_facts",
    "read",
    "read_tasks",
    "reading",
    "reason",
    "replace_all",
    "task_rows",
    "version_of",
    "write",
]
