"""What surrounds every command: its standard output and error, and the signals that end it."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# Characters that drive a terminal or change the order of what it shows: C0 except tab and line feed, DEL, C1, marks of
# direction, separators of lines, and halves of characters, which no encoding has.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@contextmanager
def while_read() -> Iterator[None]:
    r"""Standard output and error as a command uses them.

    Control characters are printed as escapes like ``\u001b``. If nobody reads any more (``| head -1``), work goes on.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, _Printed(stream or _nobody())) for stream in before)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            sys.stdout, sys.stderr = before


def data_output() -> TextIO:
    """Standard output for data, which is exact: only a terminal gets escapes in place of control characters."""
    out = sys.stdout
    return cast(TextIO, out.exact()) if isinstance(out, _Printed) and not out.isatty() else out


def escaped(text: str) -> str:
    r"""Replace control characters by escapes, which JSON reads as these characters.

    Examples
    --------
    >>> from everspan.streams import escaped
    >>> print(escaped("\x1b[31mred"))
    \u001b[31mred
    """
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Ending:
    """Whether a signal has asked the command to end, and the exit code that says so."""

    signal: int | None = None

    def code(self, otherwise: int) -> int:
        return otherwise if self.signal is None else 128 + self.signal


@contextmanager
def signals_end_in_order() -> Iterator[Ending]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, once: everything that is open is closed and removed.

    A signal that is ignored (``nohup``) stays ignored. Processes that are forked meanwhile end at once, as ever.
    """
    ending, here = Ending(), os.getpid()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []

    def end(number: int, _: Any) -> None:
        if os.getpid() != here:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        elif ending.signal is None:  # what cleans up is not interrupted again
            ending.signal = number
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number in numbers if before[number] == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield ending
    finally:
        for number in taken:
            signal.signal(number, before[number])


def _nobody() -> TextIO:
    """In place of a stream that was closed before we began (``2>&-``)."""
    return open(os.devnull, "w")


class _Printed:
    """A stream that escapes control characters and outlives its reader."""

    def __init__(self, out: TextIO, change: Callable[[str], str] = escaped) -> None:
        self._out, self._change = out, change

    def exact(self) -> _Printed:
        """The same stream without escapes."""
        return _Printed(self._out, str)

    def write(self, text: str) -> int:
        start = text[: text.startswith("\r")]  # a line of progress is written over the one before
        self._try(lambda: self._out.write(start + self._change(text[len(start) :])))
        return len(text)

    def flush(self) -> None:
        self._try(self._out.flush)

    def _try(self, action: Callable[[], object]) -> None:
        try:
            action()
        except BrokenPipeError:
            with open(os.devnull, "w") as nobody:
                os.dup2(nobody.fileno(), self._out.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)
