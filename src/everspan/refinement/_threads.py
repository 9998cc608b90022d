"""One BLAS thread for many small matrices: several would only wait for each other, and would change the last bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_inside = (
    0  # how many are in the context; the limit is the process's, so the first one sets it and the last one lifts it
)
_limit: Any = None


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks through the loaded libraries, once


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which numpy and scipy use a single thread."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
            _limit.__enter__()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.__exit__(None, None, None)
