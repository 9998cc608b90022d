"""Whatever is interrupted, a model is as it was before or as it is after, to the bit."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from everspan.estimators._predictors import Kept, Predictors

from .interrupting import METHODS, files_interrupted, interrupted


@pytest.mark.parametrize(("kind", "name"), METHODS, ids=lambda part: getattr(part, "__name__", part))
def test_an_interrupt_leaves_the_state_before_or_after(kind, name):
    where = interrupted(kind, name, 20)
    assert sum(where.values()) == 20


def test_an_interrupted_save_leaves_the_old_file_or_the_new_one():
    where = files_interrupted(20)
    assert sum(where.values()) == 20


def test_a_predictor_that_was_half_added_is_not_there():
    """Its numbers are in the shared columns, and neither the old state nor the next one reads them."""

    def kept(value, doubt=0):
        return Kept(0, -1, np.full(2, value), value, (0.0, 0.0), np.full(3, value), doubt, math.nan)

    committed = Predictors()
    committed.new_version(np.eye(2))
    committed.add(kept(1.0))
    committed.end_task()
    with pytest.raises(struct.error):
        committed.fork().add(kept(2.0, doubt="broken"))
    following = committed.fork()
    following.add(kept(3.0))
    following.end_task()
    assert (len(committed), committed._used, committed.tasks) == (1, [1], 1)
    assert (len(following), following._used, following.tasks) == (2, [2], 2)
    assert [following.at(index).summary.tolist() for index in range(2)] == [[1.0] * 3, [3.0] * 3]
    assert committed.at(0).coefficients.tolist() == following.at(0).coefficients.tolist() == [1.0, 1.0]
