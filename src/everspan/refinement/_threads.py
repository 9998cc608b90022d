"""One BLAS thread for many small matrices: several would only wait for each other, and would change the last bits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

from ._arrays import Array

_lock = Lock()


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks through the loaded libraries, once


@contextmanager
def one_thread_for(matrix: Array) -> Iterator[None]:
    """A context in which numpy and scipy work on these features with a single thread.

    The number of threads belongs to the process, and is given back by whoever took it; so Python threads take turns.
    Features so few that no product is large enough for a current OpenBLAS to start a thread go without: asking costs
    a tenth of a millisecond.
    """
    if len(matrix) <= 12 and matrix.size <= 1024:
        yield
        return
    with _lock, _controller().limit(limits=1, user_api="blas"):
        yield
