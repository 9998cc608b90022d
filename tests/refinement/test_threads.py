"""The engine runs on one BLAS thread and leaves the process as it found it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from everspan.refinement import refine
from everspan.refinement._threads import one_thread


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_concurrent_refinements_agree_and_restore_the_threads():
    W = np.random.default_rng(0).standard_normal((12, 9))
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        alone = refine(W, 3)
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(lambda _: refine(W, 3), range(16)))
        assert blas_threads() == before
    assert all(result.basis.tobytes() == alone.basis.tobytes() for result in results)


def test_contexts_may_end_in_any_order():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        assert set(blas_threads()) == {1}
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before
