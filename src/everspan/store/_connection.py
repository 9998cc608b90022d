"""How a file is opened: with the right to heal it, never as anything but a file, and with errors of one line."""

from __future__ import annotations

import json
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ._format import APPLICATION, FORMAT, SCHEMAS, format_of

log: Final = logging.getLogger("everspan.store")
log.addHandler(logging.NullHandler())
_WRONG: Final = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
_BUSY, _LOCKED, _READ_ONLY, _CANNOT_OPEN = 5, 6, 8, 14  # primary result codes of SQLite
_TIMEOUT: Final = 60.0  # seconds to wait for another process


class StoreError(ValueError):
    """A file that is not a store, or not a sound one, or cannot be written."""


class StaleError(StoreError):
    """A file that another process has changed meanwhile."""


@dataclass
class Version:
    """Which file this is, and which state of it is known.

    Every transaction gives the file a new random state. So a copy, another file in its place, and a file that others
    changed are different states. During a transaction two states are known: before and after. ``past`` has the states
    that a model was loaded from or saved in: it may be saved over any of them. ``files`` has the identities of the file
    that it knows at each path: of one, or of two while it is replaced.
    """

    identity: str
    states: set[str] = field(default_factory=set)
    past: set[str] = field(default_factory=set)
    files: dict[Path, set[str]] = field(default_factory=dict)

    def require(self, path: Path, connection: sqlite3.Connection) -> None:
        """Raise `StaleError` unless the file is in the state that is known."""
        self.require_same(path, version_of(connection))

    def require_same(self, path: Path, found: Version) -> None:
        """Raise `StaleError` unless what was found is the state that is known."""
        if found.identity != self.identity or not found.states <= self.states:
            raise StaleError(f"{path}: another process has changed it meanwhile: load it again")

    def __copy__(self) -> Version:
        return Version(
            self.identity, set(self.states), set(self.past), {path: set(known) for path, known in self.files.items()}
        )


def new_token() -> str:
    return secrets.token_hex(16)


def version_of(connection: sqlite3.Connection) -> Version:
    """The identity and state of a file. Format 1 has neither: its inode and its number of changes stand in."""
    path = _path_of(connection)
    identity, state = _fact(connection, "identity"), _fact(connection, "state")
    if not isinstance(identity, str):
        identity = inode_of(path) if path.exists() else "removed"
    if not isinstance(state, str):
        state = f"change {_fact(connection, 'change')!r:.40}"
    return Version(identity, {state}, files={path: {identity}})


def _path_of(connection: sqlite3.Connection) -> Path:
    return Path(next(row[2] for row in connection.execute("PRAGMA database_list") if row[1] == "main"))


def inode_of(target: Path) -> str:
    """What tells a file from others as long as it is there: its device and inode."""
    found = target.stat()
    return f"inode {found.st_dev}:{found.st_ino}"


def _fact(connection: sqlite3.Connection, key: str) -> object:
    row = connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    return json.loads(row[0]) if row else None


def absolute(path: str | os.PathLike[str]) -> Path:
    """The file that a path leads to, through links."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(f"{path}: cannot be reached: {reason(error)}") from error


def connect(target: Path) -> sqlite3.Connection:
    """Open an existing file by its absolute path.

    It is opened for reading and writing also by those who only read, because only they may take back what an
    interrupted process left half done (SQLite's hot journal). Where the file is read-only, so is the connection.
    """
    connection = sqlite3.connect(f"{target.as_uri()}?mode=rw", uri=True, timeout=_TIMEOUT, isolation_level=None)
    try:
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, to a file that says it is a store of a format known here."""
    target = _existing(path)
    try:
        interrupted = journals_of(target)
        with closing(connect(target)) as connection:
            check_store(path, connection)
            connection.execute("PRAGMA query_only = ON")
            if interrupted and not any(journal.exists() for journal in interrupted):
                log.info("%s: healed, or finished by its writer: the journal beside it is gone", target)
            log.debug("%s: opened", target)
            yield connection
    except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
        raise StoreError(f"{path}: {said(error, target, 'is damaged or no everspan file')}") from error


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


def _existing(path: str | os.PathLike[str]) -> Path:
    target = absolute(path)
    try:
        if not target.exists():
            raise StoreError(f"{path}: there is no such file")
        if not target.is_file():
            raise StoreError(f"{path}: is not a file")
    except OSError as error:
        raise StoreError(f"{path}: cannot be reached: {reason(error)}") from error
    return target


def check_store(path: str | os.PathLike[str], connection: sqlite3.Connection) -> None:
    """Raise `StoreError` unless this is a store with exactly the tables of its format: no view or trigger runs."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION:
        raise StoreError(f"{path}: is not an everspan file")
    version = format_of(connection)
    if not 1 <= version <= FORMAT:
        raise StoreError(f"{path}: has format {version}, and this everspan reads up to {FORMAT}: get a newer one")
    found = {sql.strip() for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found != set(SCHEMAS[version]):
        raise StoreError(f"{path}: is damaged: its tables are not those of an everspan file")


def journals_of(target: Path) -> list[Path]:
    """SQLite's files beside a store, which belong to a process that writes or was stopped while it wrote."""
    beside = [target.with_name(target.name + ending) for ending in ("-journal", "-wal", "-shm")]
    with suppress(OSError):
        return [path for path in beside if path.exists()]
    return []


def said(error: BaseException, target: Path, otherwise: str) -> str:
    """What went wrong with a file, and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (_BUSY, _LOCKED):
        return "is in use by another process: try again when that one is done"
    if code in (_READ_ONLY, _CANNOT_OPEN) and journals_of(target):
        return (
            "a process was stopped while it wrote to it: open it once where it may be written, and it heals itself "
            f"({reason(error)})"
        )
    if code == _CANNOT_OPEN and not os.access(target, os.R_OK):
        return "may not be read by this user"
    return f"{otherwise}: {reason(error)}"


def reason(error: BaseException) -> str:
    """What went wrong, on one line that is not too long."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__ if isinstance(error, LookupError | RecursionError) else ''} {lines[0]:.200}".strip()
