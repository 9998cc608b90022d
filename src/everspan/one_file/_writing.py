"""Files that are there when they are whole, and never in the place of a model or of what is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..store import StoreError, opened


@contextmanager
def whole(out: Path, *read: str | Path) -> Iterator[Path]:
    """A path to write to; what is written takes the place of ``out`` when all is there.

    Links lead where they lead, and what is not a plain file (a pipe, a device) is written to directly.
    """
    target = Path(out).resolve()
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
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _is_store(path: Path) -> bool:
    try:
        with opened(path):
            return True
    except StoreError:
        return False
