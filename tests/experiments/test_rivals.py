"""The rivals of Table 1 do what their papers say, and the search finds how many labels they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan.experiments import rivals
from everspan.scenarios import LinearStream
from everspan.theory import principal_angles


def rows_of(stream):
    return np.array([task.X for task in stream]), np.array([task.y for task in stream])


@given(seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_all_at_once_fits_no_worse_than_the_truth(seed):
    stream = LinearStream(d=15, k=2, tasks=12, rows=20, kind="regression", noise=0.3, seed=seed)
    X, y = rows_of(stream)
    found = rivals.all_at_once(X, y, k=2)
    squares = [np.square(y - np.einsum("mnd,md->mn", X, a)).sum() for a in (found, stream.targets)]
    assert squares[0] <= squares[1]
    assert np.linalg.matrix_rank(found, tol=1e-8) == 2


def test_all_at_once_needs_little_more_than_there_are_unknowns():
    stream = LinearStream(d=30, k=3, tasks=20, kind="regression", seed=1)
    unknowns = 3 * (30 + 20 - 3)
    needed = rivals.labels_needed("all at once (Du et al.)", stream, 3, 0.1)
    assert 0.8 * unknowns <= needed <= 2.5 * unknowns


def test_moments_see_real_numbers_and_nothing_of_signs():
    stream = LinearStream(d=20, k=2, tasks=20, rows=2000, kind="regression", seed=0)
    X, y = rows_of(stream)
    truth = stream.subspace.T
    real = np.linalg.svd(rivals.method_of_moments(X, y, 2))[2][:2]
    signs = np.linalg.svd(rivals.method_of_moments(X, np.sign(y), 2))[2][:2]
    assert np.degrees(principal_angles(truth, real).max()) < 15.0
    assert np.degrees(principal_angles(truth, signs).max()) > 60.0


def test_one_task_by_itself_needs_as_many_labels_as_columns():
    stream = LinearStream(d=25, k=2, tasks=4, kind="regression", seed=3)
    assert rivals.labels_needed("every task by itself", stream, 2, 1e-6) == 4 * 25


@given(least=st.integers(1, 5000))
@settings(max_examples=40, deadline=None)
def test_the_search_ends_at_the_fewest_labels(least):
    stream = LinearStream(d=3, k=1, tasks=2, kind="regression", seed=0)
    asked = []

    def pretends(stream, n, k):
        asked.append(n)
        return stream.targets + (0.0 if n >= least else 1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(rivals.RIVALS, "pretends", pretends)
        found = rivals.labels_needed("pretends", stream, 1, 0.1) / 2
    assert max(least, 2) <= found <= max(rivals.STEP * least + 1, 2)
    assert len(asked) < 25


def test_what_cannot_be_reached_has_no_number():
    stream = LinearStream(d=3, k=1, tasks=2, kind="regression", seed=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(rivals.RIVALS, "never", lambda stream, n, k: stream.targets + 1.0)
        assert rivals.labels_needed("never", stream, 1, 0.1) is None
