"""One BLAS thread for many small matrices: several would only wait for each other, and would change the last bits."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> Any:
    return ThreadpoolController()  # looks through the loaded libraries, once


def one_thread() -> AbstractContextManager[Any]:
    """A context in which numpy and scipy use a single thread."""
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context
