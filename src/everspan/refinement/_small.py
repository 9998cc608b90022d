"""When the engine asks for one thread."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ..threads import one_thread
from ._arrays import Array


def one_thread_for(matrix: Array) -> AbstractContextManager[None]:
    """`one_thread` for features that need it: products of fewer ones start no thread in a current OpenBLAS anyway."""
    return nullcontext() if len(matrix) <= 12 and matrix.size <= 1024 else one_thread()
