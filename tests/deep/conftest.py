"""One thread: these networks are too small for more, and results are the same on every machine."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra deep is not installed")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
