"""One BLAS thread for many small matrices: several would only wait for each other, and would change the last bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = RLock()


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")  # looks through the loaded libraries, once


@contextmanager
def one_thread() -> Iterator[None]:
    """A context, or a decorator, in which numpy and scipy work with a single thread.

    The number of threads belongs to the process, and is given back by whoever took it; so Python threads take turns.
    """
    with _lock:
        if all(library.get_num_threads() == 1 for library in _controller().lib_controllers):
            yield
            return
        with _controller().limit(limits=1):
            yield
