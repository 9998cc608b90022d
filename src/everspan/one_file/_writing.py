"""Files that are there when they are whole, and never in the place of a model or of what is read."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..store import StoreError, opened

try:
    import fcntl
except ImportError:  # Windows: parts of writers that died stay
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole(out: Path, *read: str | Path) -> Iterator[Path]:
    """A path to write to; what is written takes the place of ``out`` when all is there.

    A file that is replaced keeps its permissions. Links lead where they lead, and what is not a plain file (a pipe, a
    device) is written to directly. Parts that a writer left behind when it died are removed.
    """
    try:
        target = Path(out).resolve()
        os.stat(target.parent)
    except (OSError, RuntimeError) as error:  # of Python before 3.13: RuntimeError
        why = "its links lead in a circle" if "loop" in str(error).lower() else f"there is no folder {out.parent}"
        raise StoreError(f"{out}: {why}") from error
    if target.is_symlink():
        raise StoreError(f"{out}: its links lead in a circle")
    if target.is_dir():
        raise StoreError(f"{out}: is a folder")
    if not target.parent.is_dir():
        raise StoreError(f"{out}: there is no folder {out.parent}")
    if target.exists() and not target.is_file():
        yield target
        return
    if target.exists():
        for path in read:
            if Path(path).exists() and target.samefile(path):
                raise StoreError(f"{out}: is what is read: name another file to write")
        if _is_store(target):
            raise StoreError(f"{out}: holds a model: name another file to write")
    _remove_left_parts(target)
    with _part_of(target) as part:
        yield part


@contextmanager
def _part_of(target: Path) -> Iterator[Path]:
    """An empty file beside the target with a name of its own, locked while it is written; then it is the target."""
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    while True:
        part = target.with_name(f"{_stem(target)}.{secrets.token_hex(4)}.part")
        file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600)
        if _lock(file) is not False and part.exists():  # nobody took it for one that was left
            break
        os.close(file)
    try:
        if fcntl is None:
            os.close(file)  # an open file cannot be replaced
        yield part
        if mode is not None:
            part.chmod(mode)
        if fcntl is not None:
            os.fsync(file)
        part.replace(target)
    finally:
        if fcntl is not None:
            os.close(file)
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _stem(target: Path) -> str:
    """How the names of a target's parts begin: short, and different for different targets."""
    return f".{target.name[:40]}.{hashlib.blake2b(os.fsencode(target.name), digest_size=4).hexdigest()}"


def _remove_left_parts(target: Path) -> None:
    """Remove the parts of writers that are gone: they are not locked."""
    if fcntl is None:
        return
    stem = _stem(target)
    with suppress(OSError):
        for name in os.listdir(target.parent):
            if name.startswith(stem) and name.endswith(".part"):
                with suppress(OSError):
                    file = os.open(target.parent / name, os.O_RDWR | os.O_NOFOLLOW)
                    try:
                        if _lock(file):
                            (target.parent / name).unlink()
                    finally:
                        os.close(file)


def _lock(file: int) -> bool | None:
    """Lock an open file until it is closed: whether that went well, None where there are no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some file systems of a network
        return None
    return True


def _is_store(path: Path) -> bool:
    try:
        with opened(path):
            return True
    except StoreError:
        return False
