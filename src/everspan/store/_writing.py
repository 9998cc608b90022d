"""Writing a file: at no moment is there half of it, and nobody writes over what they have not seen.

A file keeps one journal mode for life, SQLite's rollback journal: what is there is one file except during a
transaction, and whoever opens it after a kill takes the journal back.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ..atomic import part_beside, remove_leftovers, sync_folder
from ._connection import (
    StaleError,
    StoreError,
    Version,
    absolute,
    check_store,
    connect,
    inode_of,
    journals_of,
    log,
    new_token,
    opened,
    reason,
    said,
    version_of,
)
from ._format import APPLICATION, FORMAT, SCHEMAS, Contents, format_of, put_all, put_facts, replace_all, to_format_2

_FULL, _IO_ERROR = 13, 10  # primary result codes of SQLite


def write(
    path: str | os.PathLike[str],
    contents: Contents,
    known: Version | None = None,
    *,
    new: bool = False,
    same: bool = False,
) -> Version:
    """Put contents into a file and return its version.

    ``known`` is the version of the file that the contents came from. If that file is at this path and others have
    changed it since, or put another one in its place, it stays: `StaleError`. Another everspan file is replaced; with
    ``new`` there must be no file, with ``same`` only that one.
    """
    target = absolute(path)
    if not target.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {target.parent}")
    if target.is_dir():
        raise StoreError(f"{path}: is a folder")
    if not target.exists():
        if same:
            raise StaleError(f"{path}: was removed meanwhile")
        try:
            return _write_new(path, target, contents, known)
        except FileExistsError:
            pass  # another process was faster
    if new:
        raise StaleError(f"{path}: another process has made it meanwhile")
    return _write_over(path, target, contents, known, same)


def _write_over(
    path: str | os.PathLike[str], target: Path, contents: Contents, known: Version | None, same: bool
) -> Version:
    """In one transaction, after what others are doing with the file."""
    with opened(path) as connection:
        found = version_of(connection)
    known = known or Version("", files={})
    descends = known.identity in (found.identity, inode_of(target))
    expected = known.files.get(target, {found.identity})
    if (descends and not found.states <= known.states | known.past) or (
        not descends and (same or not expected & {found.identity, inode_of(target)})
    ):
        raise StaleError(f"{path}: another process has changed it meanwhile: load it again")
    if descends:
        found.past = known.past  # one set: an interrupt after the commit leaves the new state in it
        known.past |= known.states
    else:
        log.warning("%s: another model is replaced", path)
    found.files = found.files | known.files  # sets that are shared, as above
    writer = Writer(path, found)
    try:
        with writer.transaction(replace=not descends) as connection:
            replace_all(connection, contents)
    finally:
        writer.close()
    found.files[target] = {found.identity}
    return found


def _write_new(path: str | os.PathLike[str], target: Path, contents: Contents, known: Version | None) -> Version:
    """Write beside the place, then link: a name has a whole file or none."""
    version = Version(new_token(), {new_token()}, files=dict(known.files) if known else {})
    version.files[target] = {version.identity}
    stale = stale_journals_of(target)
    facts = {"identity": version.identity, "state": next(iter(version.states)), "change": 0}
    try:
        remove_leftovers(target)
        with part_beside(target) as part:
            with closing(sqlite3.connect(part, isolation_level=None)) as connection:
                connection.executescript(
                    f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA application_id = {APPLICATION}; "
                    f"PRAGMA user_version = {FORMAT}; BEGIN; {'; '.join(SCHEMAS[FORMAT])};"
                )
                put_all(connection, contents)
                put_facts(connection, facts)
                connection.execute("COMMIT")
            put_in_place(part, target, stale)
    except FileExistsError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: cannot be written: {reason(error)}") from error
    log.info("%s: made", target)
    return version


def stale_journals_of(target: Path) -> dict[Path, str]:
    """Journals of a file that is gone, with their inodes; FileExistsError if it is there."""
    journals = {}
    for journal in journals_of(target):
        with suppress(OSError):
            journals[journal] = inode_of(journal)
    if target.exists():  # looked at last: a file that comes now has journals of its own
        raise FileExistsError(target)
    return journals


def put_in_place(part: Path, target: Path, stale: dict[Path, str]) -> None:
    """Give a finished file its name; FileExistsError if something has it.

    ``stale`` are the journals of an earlier file, which SQLite would apply to this one. They are removed unless another
    process has put its own in their place.
    """
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    for journal, inode in stale.items():
        if journal.exists() and inode_of(journal) == inode:
            journal.unlink(missing_ok=True)
    try:
        os.link(part, target)  # fails where there is something
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        part.replace(target)
    sync_folder(target.parent)


class Writer:
    """A connection that writes into a store, one transaction after another; others may read between them.

    Two processes may write into one file, but not behind each other's back: the one whose knowledge of the file is old
    gets a `StaleError`, and nothing of either is lost.
    """

    def __init__(self, path: str | os.PathLike[str], version: Version) -> None:
        """Of a file of which this version is known."""
        self.path, self.version = Path(path), version
        self._target = absolute(path)
        self._file = ""
        self._connection: sqlite3.Connection | None = None

    def open(self) -> sqlite3.Connection:
        """The connection, and an error where the file cannot be written.

        It is not opened when a writer is made: whoever is interrupted right then has nothing to close.
        """
        if self._connection is not None:
            return self._connection
        with opened(self.path):  # it is a store, and whole
            self._file = self._file_now()
        try:
            remove_leftovers(self._target)
            self._connection = connect(self._target)
            check_store(self.path, self._connection)
            for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "secure_delete = ON"):
                self._connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error as error:
            self.close()
            raise StoreError(f"{self.path}: {said(error, self._target, 'cannot be written')}") from error
        except BaseException:
            self.close()
            raise
        return self._connection

    @contextmanager
    def transaction(self, replace: bool = False) -> Iterator[sqlite3.Connection]:
        """All that is done inside is in the file afterwards, or nothing is.

        With ``replace`` the file becomes another one: it gets a new identity.
        """
        connection, state = self.open(), new_token()
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._require_place()
                self.version.require(self.path, connection)
                change = _change_of(connection)
                if format_of(connection) < FORMAT:
                    to_format_2(connection)
                    replace = True
                identity = new_token() if replace else self.version.identity
                yield connection
                put_facts(connection, {"identity": identity, "state": state, "change": change + 1})
                self.version.past.add(state)
                self.version.files.setdefault(self._target, set()).add(identity)
                self.version.states.add(state)  # an interrupt may come after the commit and before the next line
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite has taken it back itself where the disk is full
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            log.warning("%s: refused: %s", self._target, reason(error))
            raise StoreError(f"{self.path}: {said(error, self._target, 'cannot be written')}") from error
        except StaleError:
            log.warning("%s: refused: another process has changed it", self._target)
            raise
        self.version.identity, self.version.states = identity, {state}
        self._require_place()  # else it was written where nobody will find it
        log.info("%s: committed change %d", self._target, change + 1)

    def compact(self) -> None:
        """Write the file anew without gaps, in place; what it holds stays the same."""
        try:
            self.open().execute("VACUUM")
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {said(error, self._target, 'cannot be written')}") from error

    def close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _require_place(self) -> None:
        """Raise unless the file that is open is the one that the path names."""
        if self._file_now() != self._file:
            raise StaleError(f"{self.path}: was removed or replaced while it was written to")

    def _file_now(self) -> str:
        try:
            return inode_of(self._target)
        except OSError:
            raise StaleError(f"{self.path}: was removed while it was written to") from None


def _change_of(connection: sqlite3.Connection) -> int:
    """How many transactions a file has seen since it was made."""
    row = connection.execute("SELECT value FROM about WHERE key = 'change'").fetchone()
    return int(row[0]) if row and str(row[0]).isdigit() else 0


def backup(path: str | os.PathLike[str], out: str | os.PathLike[str]) -> None:
    """Copy a file as it is at one moment, also while others write into it; nothing is overwritten."""
    target = absolute(out)
    if not target.parent.is_dir():
        raise StoreError(f"{out}: there is no folder {target.parent}")
    try:
        stale = stale_journals_of(target)
        remove_leftovers(target)
        mode = stat.S_IMODE(os.stat(path).st_mode)
        with opened(path) as source, part_beside(target, mode) as part:
            with closing(sqlite3.connect(part)) as copy:
                copy.execute("PRAGMA journal_mode = OFF")
                _copy(source, copy, out)
            put_in_place(part, target, stale)
    except FileExistsError as error:
        raise StoreError(f"{out}: is there already: name another file to write") from error
    except OSError as error:
        raise StoreError(f"{out}: cannot be written: {reason(error)}") from error
    log.info("%s: backed up to %s", path, target)


def _copy(source: sqlite3.Connection, copy: sqlite3.Connection, out: str | os.PathLike[str]) -> None:
    try:
        source.backup(copy)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (_FULL, _IO_ERROR):
            raise  # of the source
        raise StoreError(f"{out}: cannot be written: {reason(error)}") from error
