"""What a command prints, while somebody reads it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast


@contextmanager
def while_read() -> Iterator[None]:
    """Standard output and error until nobody reads them any more (``| head -1``): then work goes on without a word."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _WhileRead(stream or _nobody())) for stream in before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def _nobody() -> TextIO:
    """In place of a stream that was closed before we began (``2>&-``)."""
    return open(os.devnull, "w")


class _WhileRead:
    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        self._try(lambda: self._out.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._out.flush)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)
