"""Files as a process leaves them that was killed in the middle of a transaction."""

from __future__ import annotations

import shutil
import sqlite3

import pytest


def copy_of_a_killed(path, target):
    """Copy a store and its rollback journal while a transaction has written half of its pages."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA cache_size = 1")  # pages are written before the transaction ends
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE predictors SET coefficients = zeroblob(5000), checksum = 0")
        connection.execute("DELETE FROM about")
        for ending in ("", "-journal"):
            shutil.copy(path.with_name(path.name + ending), target.with_name(target.name + ending))
        connection.execute("ROLLBACK")
    connection.close()
    check_is_hot(target)


def check_is_hot(path):
    """A connection that may only read cannot open it."""
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("SELECT count(*) FROM about").fetchall()
    reader.close()
