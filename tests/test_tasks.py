"""Events and their history."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan.scenarios import LinearStream
from everspan.tasks import History, TaskEvent

maybe = st.none() | st.floats(0, 1)
events = st.builds(
    TaskEvent,
    task=st.text() | st.integers() | st.tuples(st.integers(), st.text()) | st.none(),
    action=st.sampled_from(["reused", "grew"]),
    met=st.booleans(),
    error=st.floats(0, 10),
    error_bound=maybe,
    confidence=maybe,
    labels_used=st.integers(0, 2**40),
    labels_wanted=st.none() | st.integers(0, 2**40),
    dimension=st.integers(0, 1000),
    features_learned=st.integers(0, 1000),
    refinement=st.none() | st.just("a refinement"),
    seconds=st.floats(0, 100),
)


@given(st.lists(events, max_size=8), st.integers(0, 8))
def test_a_history_gives_back_what_it_was_given(given_events, cut):
    history = History(given_events)
    assert list(history) == given_events
    assert [event.refinement for event in history] == [event.refinement for event in given_events]
    assert len(pd.DataFrame(history.table())) == len(given_events)
    if given_events:
        index = cut % len(given_events)
        rest = given_events[:index] + given_events[index + 1 :]
        assert list(history.without(index)) == rest
        assert [event.refinement for event in history.without(index)] == [event.refinement for event in rest]
    reused = [event.action == "reused" for event in reversed(given_events)]
    assert history.reused_in_a_row(5) == min(5, [*reused, False].index(False))


def test_seconds_are_no_part_of_equality():
    one = TaskEvent("a", "grew", True, 0.1, None, None, 5, None, 1, 1, None, 1.0)
    assert one == TaskEvent("a", "grew", True, 0.1, None, None, 5, None, 1, 1, "other", 2.0)
    assert one != TaskEvent("a", "grew", True, 0.2, None, None, 5, None, 1, 1)


def test_events_read_as_sentences():
    reused = TaskEvent("acme", "reused", True, 0.04, 0.08, 0.95, 200, None, 5, 7)
    assert str(reused) == "acme: reused 5 features, error 0.04 (at most 0.08 with 95% confidence), 200 labels"
    grew = TaskEvent("acme", "grew", False, 0.04, None, None, 1, 2300, 1, 1)
    assert str(grew) == (
        "acme: learned feature 1, representation of 1 dimension, error 0.04, 1 label; "
        "about 2,300 labels would reach the accuracy asked for"
    )
    with pytest.raises(IndexError):
        History([grew])[1]


def test_a_stream_is_the_same_whatever_is_looked_at():
    stream, again = LinearStream(seed=3), LinearStream(seed=3)
    _ = [again[i] for i in (5, 1)]
    assert np.array_equal(stream[5].X, again[5].X)
    assert not np.array_equal(stream[5].X, stream.test(5, 200).X)
    assert not np.array_equal(stream[5].X, LinearStream(seed=4)[5].X)
    outside = stream.targets - stream.targets @ stream.subspace @ stream.subspace.T
    assert np.abs(outside).max() < 1e-12
    with pytest.raises(ValueError, match="between 1 and d"):
        LinearStream(d=3, k=4)
