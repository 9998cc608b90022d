"""The figures of class-incremental learning against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan.metrics import IncrementalResult, forward_transfer


@st.composite
def results(draw):
    steps = draw(st.integers(1, 6))
    totals = draw(st.lists(st.integers(1, 50), min_size=steps, max_size=steps))
    correct = [[draw(st.integers(0, totals[j])) for j in range(i + 1)] for i in range(steps)]
    return IncrementalResult(correct, totals)


@given(results())
def test_every_figure_is_its_definition(result):
    T = result.steps - 1
    R = np.full((T + 1, T + 1), np.nan)
    for i, row in enumerate(result.correct):
        for j, right in enumerate(row):
            R[i, j] = 100.0 * right / result.totals[j]
    seen = [np.average(R[i, : i + 1], weights=result.totals[: i + 1]) for i in range(T + 1)]
    np.testing.assert_allclose(result.curve, seen)
    assert result.average_incremental_accuracy == pytest.approx(np.mean(seen))
    assert result.last_accuracy == pytest.approx(seen[-1])
    if T:
        best = [np.nanmax(R[:T, j]) for j in range(T)]
        assert result.forgetting == pytest.approx(np.mean(best - R[T, :T]), abs=1e-9)
        assert result.backward_transfer == pytest.approx(np.mean([R[T, j] - R[j, j] for j in range(T)]), abs=1e-9)
        old = [np.average(R[i, :i], weights=result.totals[:i]) for i in range(1, T + 1)]
        np.testing.assert_allclose(result.old_accuracy, old)
    else:
        assert result.forgetting == result.backward_transfer == 0.0
    np.testing.assert_allclose(result.new_accuracy, np.diag(R))


@given(results())
def test_what_is_never_lost_is_never_forgotten(result):
    kept = IncrementalResult([list(result.totals[: i + 1]) for i in range(result.steps)], result.totals)
    assert kept.forgetting == 0.0
    assert kept.average_incremental_accuracy == 100.0
    assert result.forgetting >= -100.0
    assert result.backward_transfer >= -result.forgetting - 1e-9  # the best before the end is at least R[j][j]


def test_averages_and_ends_are_not_mixed_up():
    result = IncrementalResult([[10], [0, 10]], [10, 10])
    assert (result.average_incremental_accuracy, result.last_accuracy) == (75.0, 50.0)


def test_forward_transfer_is_over_later_tasks_only():
    assert forward_transfer([[1.0, 30.0], [0.0, 0.0]], [10.0, 20.0]) == 10.0
    assert forward_transfer([[1.0]], [10.0]) == 0.0


@pytest.mark.parametrize(
    ("correct", "totals", "message"),
    [
        ([[1], [1]], [2, 2], "after step 1 there must be 2 counts"),
        ([[3]], [2], "3 right of 2"),
        ([[1], [1, 1]], [2], "only 1 totals"),
    ],
)
def test_impossible_counts_are_refused(correct, totals, message):
    with pytest.raises(ValueError, match=message):
        IncrementalResult(correct, totals)


def test_nothing_learned_yet_has_no_figures():
    result = IncrementalResult([], [])
    assert math.isnan(result.average_incremental_accuracy)
    assert result.to_dict()["curve"] == []
