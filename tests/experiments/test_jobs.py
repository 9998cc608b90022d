"""Pieces of work on several processes."""

from __future__ import annotations

import threading

import pytest

from everspan.experiments._jobs import each


def forever(piece):
    if piece:
        threading.Event().wait()
    return piece


def test_who_is_told_to_end_does_not_wait_for_pieces_that_are_left():
    """If it did, this test would not end."""

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        each(forever, [0, 1, 1, 1], jobs=2, progress=stop)
