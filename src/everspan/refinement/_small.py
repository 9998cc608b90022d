"""When the engine asks for one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..threads import LOCK, limited
from ._arrays import Array


def one_thread_for(matrix: Array) -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
    """The lock and the limit to work under, for features that need one thread.

    Products of fewer features start no thread in a current OpenBLAS.
    """
    if len(matrix) <= 12 and matrix.size <= 1024:
        return nullcontext(), nullcontext()
    return LOCK, limited()
