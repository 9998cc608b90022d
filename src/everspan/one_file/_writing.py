"""Files that are there when they are whole, and never in the place of a model or of what is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..atomic import part_beside, remove_leftovers, sync_folder
from ..store import StoreError, opened


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
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    remove_leftovers(target)
    with part_beside(target, 0o666 if mode is None else 0o600) as part:
        yield part
        if mode is not None:
            part.chmod(mode)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(target)
        sync_folder(target.parent)


def _is_store(path: Path) -> bool:
    try:
        with opened(path):
            return True
    except StoreError:
        return False
