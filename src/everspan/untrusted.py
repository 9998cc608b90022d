"""Read files that a stranger may have made: regular files of a bounded size, JSON of a bounded depth and shape."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

MOST_NESTED = 1_000_000  # lists and objects of a JSON text: each takes about 70 bytes of memory
MOST_COUNT = 2**53  # beyond it a float skips whole numbers

Shape = dict[str, Any] | list[Any] | Callable[[Any], bool]


def open_regular(path: Path) -> IO[bytes]:
    """Open a regular file; ValueError for a folder, a pipe or a device, without waiting for one.

    A folder from a stranger may hold a link to ``/dev/zero``, which never ends, or a pipe, which never begins.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path} is no regular file")
    return os.fdopen(descriptor, "rb")


def read_whole(path: Path, most: int) -> bytes:
    """The bytes of a regular file; ValueError where they are more than ``most``."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"{path} has {size:,} bytes, but at most {most:,} are expected of it")
        return file.read(size)


def parse_json(content: bytes) -> Any:
    """The value of a JSON text in UTF-8; ValueError where it is deep, has too many lists, or has NaN in it."""
    text = content.decode("utf-8")
    if text.count("[") + text.count("{") > MOST_NESTED:
        raise ValueError(f"it has more than {MOST_NESTED:,} lists and objects")
    try:
        return json.loads(text, parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("its lists and objects are nested too deep") from error


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def misfit(value: Any, shape: Shape, name: str = "it") -> str | None:
    """The name of the first part of a JSON value that does not have the shape; None where all have.

    A shape is a test of a value, a list with the shape of every element, or an object with the shapes of its members.
    A member whose name ends in ``?`` may be missing, and more members than named may be there.

    Examples
    --------
    >>> from everspan.untrusted import is_count, misfit
    >>> misfit({"rows": [[1, 2], [-3]]}, {"rows": [[is_count]], "note?": is_count})
    'rows[1][0]'
    """
    if isinstance(shape, list):
        if not isinstance(value, list):
            return name
        found = (misfit(element, shape[0], f"{name}[{i}]") for i, element in enumerate(value))
        return next((odd for odd in found if odd), None)
    if not isinstance(shape, dict):
        return None if shape(value) else name
    if not isinstance(value, dict):
        return name
    for key, wanted in shape.items():
        member = key.removesuffix("?")
        if member in value or member == key:
            path = member if name == "it" else f"{name}.{member}"
            odd = misfit(value[member], wanted, path) if member in value else path
            if odd:
                return odd
    return None


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from zero to 2**53."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_COUNT


def is_number(value: Any) -> bool:
    """Whether a value is a finite number that is not negative and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value < math.inf


def is_text(value: Any) -> bool:
    """Whether a value is text of at most 4,096 characters that UTF-8 can encode."""
    return isinstance(value, str) and len(value) <= 4096 and not any("\ud800" <= c <= "\udfff" for c in value)


def is_setting(value: Any, depth: int = 4) -> bool:
    """Whether a value is a plain one: None, a truth value, a finite number, a text, or a list of those."""
    if isinstance(value, list):
        return depth > 0 and all(is_setting(part, depth - 1) for part in value)
    return value is None or is_text(value) or (isinstance(value, int | float) and abs(value) < 1e308)


def escaped(text: object) -> str:
    r"""A text with escapes for the characters that a terminal would obey or not show.

    Examples
    --------
    >>> from everspan.untrusted import escaped
    >>> print(escaped("cat\x1b[2J"))
    cat\x1b[2J
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def one_line(text: object, most: int = 300) -> str:
    """A text of a stranger as part of a message: one line, escaped, and at most so many characters."""
    line = escaped(" ".join(str(text)[: 10 * most].split()))
    return line if len(line) <= most else f"{line[:most]}..."
