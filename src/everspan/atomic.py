"""Files that replace others at once: written beside their place under a name nobody else uses, then renamed."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: leftovers of stopped processes stay
    fcntl = None  # type: ignore[assignment]


@contextmanager
def part_beside(target: Path, mode: int = 0o666) -> Iterator[Path]:
    """Yield a new, empty file in the target's folder; remove it at the end if it is still there.

    The file is locked while it is in use, so that `remove_leftovers` of another process leaves it alone.
    """
    while True:
        part = target.with_name(f"{_stem(target)}.{secrets.token_hex(6)}.part")
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        if _lock(handle) is not False and part.exists():  # else a cleaner took it before it was locked
            break
        os.close(handle)
    try:
        if fcntl is None:
            os.close(handle)  # an open file cannot be renamed
        yield part
    finally:
        if fcntl is not None:
            os.close(handle)
        with suppress(OSError):
            part.unlink(missing_ok=True)


def remove_leftovers(target: Path) -> None:
    """Remove the parts of a target that stopped processes left: nobody holds their locks."""
    if fcntl is None:
        return
    earlier = re.compile(rf"\.{re.escape(target.name)}\.\w+\.part(-journal)?")  # names that earlier versions gave
    with suppress(OSError):
        for name in os.listdir(target.parent):
            is_part = name.startswith(_stem(target)) and name.endswith((".part", ".part-journal"))
            if is_part or earlier.fullmatch(name):
                _remove_if_abandoned(target.parent / name)


def sync_folder(folder: Path) -> None:
    """Make names in a folder last through a power failure, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _stem(target: Path) -> str:
    """The beginning of the names of a target's parts: short, and different for different targets."""
    return f".{target.name[:40]}.{hashlib.blake2b(os.fsencode(target.name), digest_size=4).hexdigest()}"


def _remove_if_abandoned(part: Path) -> None:
    with suppress(OSError):
        handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if _lock(handle):
                part.unlink()
        finally:
            os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open file until it is closed: False if somebody else has the lock, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return None
    return True
