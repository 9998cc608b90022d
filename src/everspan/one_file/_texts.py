"""Which texts of its text columns each task has, one bit a text: so that forgetting a task forgets them too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..store import StoreError
from ..tables import Preparation


def texts_with(before: bytes | None, X: Any, known: Preparation) -> bytes | None:
    """The bits of a task after these rows; None if the table has no text columns."""
    positions = [position for _, _, position in known.text_positions]
    if not positions:
        return None
    bits = np.packbits((X[:, positions] != 0.0).any(axis=0)).tobytes()
    return _union([before or bytes(len(bits)), bits])


def without_texts(known: Preparation, gone: Iterable[bytes | None], left: Iterable[bytes | None]) -> dict[str, Any]:
    """The facts of a preparation after tasks were forgotten: a text that only they had has no name any more.

    ``gone`` and ``left`` are the bits of the forgotten tasks and of all others. None stands for a task whose texts
    nobody noted. If one of these is left, every text stays.
    """
    facts, positions, left = known.facts(), known.text_positions, list(left)
    if None in left:
        return facts
    size = (len(positions) + 7) // 8
    only = np.unpackbits(_array(gone, size) & ~_array(left, size))
    for place, (column, value, _) in enumerate(positions):
        if only[place]:
            facts["columns"][column]["values"][value] = None
    return facts


def _array(bits: Iterable[bytes | None], size: int) -> Any:
    return np.frombuffer(_union([bytes(size), *(one for one in bits if one is not None)]), dtype=np.uint8)


def _union(bits: list[bytes]) -> bytes:
    union = np.zeros(len(bits[0]), dtype=np.uint8)
    for one in bits:
        if len(one) != len(union):
            raise StoreError("the file is damaged: a task has other texts than its columns")
        union |= np.frombuffer(one, dtype=np.uint8)
    return union.tobytes()
