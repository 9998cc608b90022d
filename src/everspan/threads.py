"""One BLAS thread for many small matrices: several would only wait for each other, and would change the last bits.

The number of threads belongs to the process, and is given back by whoever took it; so Python threads take turns. The
lock is always taken by a plain ``with LOCK:`` in the function that holds it. A context manager of our own around it
could keep it for ever: an interrupt inside such a manager leaves it in a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

LOCK = RLock()
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@cache
def _controller() -> Any:
    return ThreadpoolController().select(user_api="blas")  # looks through the loaded libraries, once


@contextmanager
def limited() -> Iterator[None]:
    """Let numpy and scipy work with a single thread, inside ``with LOCK``."""
    if all(library.get_num_threads() == 1 for library in _controller().lib_controllers):
        yield
        return
    with _controller().limit(limits=1):
        yield


def one_thread(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """A function in which numpy and scipy work with a single thread."""

    @wraps(function)
    def alone(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
        with LOCK, limited():
            return function(*arguments, **named)

    return alone
