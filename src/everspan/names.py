"""Names of tasks and labels: what a file keeps of them, what a screen shows, what a user means by a text.

A name is text, a number, a truth value, None, a date, a time, a UUID, or a tuple of names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import numpy as np


def as_name(given: Any) -> Any:
    """The name that is meant: a date or a time of numpy is Python's own."""
    if isinstance(given, np.datetime64 | np.timedelta64) and not np.isnat(given):
        return dates(np.array([given]))[0]
    return given


def dates(column: Any) -> list[Hashable]:
    """Numpy's dates as Python's, which has none finer than a microsecond and none after the year 9999."""
    coarse = column
    if np.datetime_data(column.dtype)[0] in ("ns", "ps", "fs", "as"):
        coarse = column.astype(f"{column.dtype.kind}8[us]")
        if (coarse.astype(column.dtype) != column)[~np.isnat(column)].any():
            raise ValueError(
                "tasks are times finer than a microsecond, which no name can be: make them text or numbers"
            )
    found: list[Hashable] = coarse.tolist()
    if any(isinstance(name, int) for name in found):
        raise ValueError("tasks are dates or times that are too far off to be names: make them text or numbers")
    return found


def encoded(name: Hashable) -> str:
    """A name as text, in terms of JSON.

    Examples
    --------
    >>> from everspan.names import decoded, encoded
    >>> encoded(("acme", 7))
    '["acme", 7]'
    >>> decoded(encoded(("acme", 7)))
    ('acme', 7)
    """
    return json.dumps(plain(name), ensure_ascii=False)


def decoded(text: str) -> Any:
    """What was `encoded`."""
    return _restored(json.loads(text))


def key_of(name: Hashable) -> str:
    """The same text for names that are equal: 1, 1.0 and True are one task."""
    return encoded(_canonical(name))


def shown(name: Hashable) -> str:
    """A name as people write it.

    Examples
    --------
    >>> from datetime import date
    >>> from everspan.names import shown
    >>> shown("acme"), shown(7), shown(date(2026, 11, 16))
    ('acme', '7', '2026-11-16')
    """
    return str(name) if isinstance(name, str | date | UUID) else encoded(name)


def meanings(text: str) -> Iterator[Any]:
    """The names that a user may mean by a text: itself, a name in terms of JSON (7, ["acme", 7]), a date, a UUID."""
    yield text
    for reading in (decoded, date.fromisoformat, datetime.fromisoformat, UUID):
        with suppress(TypeError, ValueError, RecursionError):
            name = reading(text)
            key_of(name)  # a name it must be
            yield name


def plain(name: Any) -> Any:
    """A name in terms of JSON."""
    name = as_name(name)
    if isinstance(name, np.generic):
        name = name.item()
    if name is None or isinstance(name, bool | int):
        return name
    if isinstance(name, str) and not _SURROGATES.search(name):
        return str.__str__(name)  # what it is equal to, if it is of a kind that prints otherwise
    if isinstance(name, float):
        return {"float": name.hex()}
    if isinstance(name, tuple):
        return [plain(part) for part in name]
    if isinstance(name, datetime) and not getattr(name, "nanosecond", 0):
        return {"time": name.isoformat()}
    if isinstance(name, date) and not isinstance(name, datetime):
        return {"date": name.isoformat()}
    if isinstance(name, UUID):
        return {"uuid": str(name)}
    raise TypeError(
        f"{name!r:.60} cannot be stored: names are text, numbers, truth values, dates, times down to a microsecond, "
        "UUIDs or tuples of them"
    )


_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters, which UTF-8 has not


def _canonical(name: Any) -> Any:
    name = as_name(name)
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, tuple):
        return tuple(_canonical(part) for part in name)
    if isinstance(name, bool) or (isinstance(name, float) and name.is_integer()):
        return int(name)
    if isinstance(name, datetime) and name.tzinfo is not None:
        with suppress(OverflowError):  # in the first and the last hours of the calendar
            return name.astimezone(UTC)
    return name


_KINDS = {"float": float.fromhex, "date": date.fromisoformat, "time": datetime.fromisoformat, "uuid": UUID}


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(part) for part in value)
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        if kind not in _KINDS or not isinstance(text, str):
            raise ValueError("a name")
        return _KINDS[kind](text)
    if isinstance(value, float):
        raise ValueError("a name")
    return value
