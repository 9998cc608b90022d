"""Whatever is interrupted, a model is as it was before or as it is after, to the bit."""

from __future__ import annotations

import pytest

from .interrupting import METHODS, files_interrupted, interrupted


@pytest.mark.parametrize(("kind", "name"), METHODS, ids=lambda part: getattr(part, "__name__", part))
def test_an_interrupt_leaves_the_state_before_or_after(kind, name):
    where = interrupted(kind, name, 20)
    assert sum(where.values()) == 20


def test_an_interrupted_save_leaves_the_old_file_or_the_new_one():
    where = files_interrupted(20)
    assert sum(where.values()) == 20
