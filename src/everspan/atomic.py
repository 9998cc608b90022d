"""Files that replace others at once: written beside their place under a name nobody else uses, then renamed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

_ENDING = ".part"
_ENDINGS = (_ENDING, f"{_ENDING}-journal")


@contextmanager
def part_beside(target: Path) -> Iterator[Path]:
    """Yield a new, empty file in the target's folder; remove it at the end if it is still there.

    The file is locked while it is in use, so that `remove_leftovers` of another process leaves it alone.
    """
    part, handle = _locked_part(target)
    try:
        yield part
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        os.close(handle)


def _locked_part(target: Path) -> tuple[Path, int]:
    while True:
        part = target.with_name(f".{target.name}.{secrets.token_hex(6)}{_ENDING}")
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        if _lock(handle) and part.exists():  # else a cleaner took it for a leftover before it was locked
            return part, handle
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether nobody else holds the lock of an open file; it is held from now on."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def remove_leftovers(target: Path) -> list[Path]:
    """Remove files that stopped processes left beside a target; return those that were removed."""
    start, removed = f".{target.name}.", []
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if entry.name.startswith(start) and entry.name.endswith(_ENDINGS) and entry.is_file(follow_symlinks=False):
                path = Path(entry.path)
                if _remove_if_abandoned(path):
                    removed.append(path)
    return removed


def _remove_if_abandoned(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        if not _lock(handle):
            return False
        path.unlink()
        return True
    except OSError:
        return False
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make names in a folder last through a power failure, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
