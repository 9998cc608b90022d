"""One thread: these networks are too small for more, and results are the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra deep is not installed")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def data(tmp_path):
    """A file of small images."""
    from ._common import image_set

    images = image_set()
    parts = {name: getattr(images, name) for name in ("train_images", "train_labels", "test_images", "test_labels")}
    arrays = {name: np.moveaxis(part, 1, -1) if part.ndim == 4 else part for name, part in parts.items()}
    np.savez(tmp_path / "images.npz", **arrays)
    return str(tmp_path / "images.npz")
