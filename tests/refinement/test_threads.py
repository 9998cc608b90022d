"""The engine runs on one BLAS thread, gives the same bits whatever the process uses, and leaves it as it was."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from everspan.refinement import refine
from everspan.refinement._small import one_thread_for
from everspan.threads import LOCK, one_thread


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_large_features_get_one_thread_and_the_others_are_given_back():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        lock, limit = one_thread_for(np.zeros((30, 30)))
        with lock, limit:
            assert set(blas_threads()) == {1}
        assert blas_threads() == before


@pytest.mark.parametrize(("n", "d"), [(10, 100), (12, 85), (13, 85), (40, 60)])
def test_the_bits_do_not_depend_on_the_threads(n, d):
    """On both sides of the size where a single thread is asked for."""
    W = np.random.default_rng(0).standard_normal((n, d))
    with threadpool_limits(1, user_api="blas"):
        one = refine(W, 5)
    with threadpool_limits(2, user_api="blas"):
        two = refine(W, 5)
    assert one.basis.tobytes() == two.basis.tobytes()


@pytest.mark.parametrize("shape", [(12, 9), (40, 30)])
def test_concurrent_refinements_agree_and_give_the_threads_back(shape):
    W = np.random.default_rng(0).standard_normal(shape)
    before, alone = blas_threads(), refine(W, 3)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: refine(W, 3), range(16)))
    assert blas_threads() == before
    assert all(result.basis.tobytes() == alone.basis.tobytes() for result in results)


def test_an_interrupt_never_keeps_the_lock():
    """Its traceback is kept, as a debugger or a test runner does; another thread must still be able to refine."""
    W, kept = np.random.default_rng(0).standard_normal((40, 30)), []
    for line in range(1, 40):
        left = [line]

        def trace(frame, event, _, left=left):
            if "everspan" not in frame.f_code.co_filename and "contextlib" not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            one_thread(np.linalg.norm)(W)
        except KeyboardInterrupt as error:
            kept.append(error)
        finally:
            sys.settrace(before)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(LOCK.acquire, False).result(), f"interrupted at bytecode {line}"
            pool.submit(LOCK.release).result()
    assert len(kept) > 20
