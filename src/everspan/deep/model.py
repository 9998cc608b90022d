"""A run's model on its own: predict, and export for where there is no everspan."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..scenarios import ClassTask
from .checkpoint import write_whole
from .engine import Engine, views
from .methods import Method
from .runs import build, read_settings, replay
from .settings import from_record
from .state import State


class CannotExport(ValueError):
    """A network that ``torch.export`` cannot follow; it is a network all the same."""


class IncrementalModel:
    """The network of a run, for images as bytes.

    Examples
    --------
    >>> from everspan.deep import IncrementalModel
    >>> model = IncrementalModel.load("RUN")  # doctest: +SKIP
    >>> model.predict(images)                 # doctest: +SKIP
    """

    def __init__(self, method: Method, names: list[str], shape: tuple[int, int, int]) -> None:
        self.method, self.names, self.shape = method, names, shape

    @classmethod
    def load(cls, folder: Path | str) -> IncrementalModel:
        """The model of a run as its newest whole checkpoint has it; the run's images are not needed."""
        folder = Path(folder)
        if not (folder / "settings.json").exists():
            raise ValueError(f"{folder} holds no run (it has no settings.json)")
        record = read_settings(folder / "settings.json")
        settings, own = from_record(record)
        state = State(folder, record, note=lambda line: print(line, file=sys.stderr))
        if not state.find() or (state.place.stage, state.place.epoch) != (0, 0):
            raise ValueError(
                f"{folder} is in the middle of a task: let it end first (the same command goes on with it)"
            )
        data, done = state.data, _without_images(state.data["sizes"][: state.place.task])
        channels, height, width = data["shape"]
        nothing = torch.zeros(0, channels, height, width, dtype=torch.uint8)
        if not torch.cuda.is_available():
            settings = replace(settings, device="cpu")
        method = build(settings, own, data, nothing, torch.zeros(0, dtype=torch.long))
        replay(method, done)
        method.memory.rows = state.memory_rows
        state.load(method)
        return cls(method, data["names"][: done[-1].seen], (height, width, channels))

    def predict_proba(self, images: Any) -> NDArray[np.float32]:
        """Probabilities (n, classes) of images (n, height, width) or (n, height, width, channels) of bytes."""
        pixels = np.asarray(images)
        pixels = pixels[..., None] if pixels.ndim == 3 else pixels
        if pixels.dtype != np.uint8 or pixels.shape[1:] != self.shape:
            wanted = "(n, {}, {}, {})".format(*self.shape)
            raise ValueError(f"images must be bytes of shape {wanted}, not {pixels.dtype} of {pixels.shape}")
        tensor = torch.from_numpy(np.moveaxis(pixels, -1, 1).copy())
        scores = self.method.engine.scores(self.method, tensor).softmax(dim=1)
        return scores.cpu().numpy()

    def predict(self, images: Any) -> list[str]:
        """The names of the most probable classes."""
        return [self.names[i] for i in self.predict_proba(images).argmax(axis=1)]

    def export(self, path: Path) -> None:
        """Write the model with ``torch.export``: bytes (n, channels, height, width) in, probabilities out.

        The file is there whole, or as it was before; `CannotExport` where ``torch.export`` cannot follow the network.
        """
        engine = self.method.engine
        whole = Deployed(self.method, engine).eval()
        whole.to("cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        height, width, channels = self.shape
        example = (torch.zeros(2, channels, height, width, dtype=torch.uint8),)
        dynamic = ({0: torch.export.Dim("batch", min=1)},)
        content = io.BytesIO()
        try:
            torch.export.save(torch.export.export(whole, example, dynamic_shapes=dynamic), content)
        except Exception as error:  # it ends in as many ways as there are networks
            raise CannotExport(f"torch.export cannot follow the network: {error}") from error
        finally:
            self.method.to(engine.device)
        write_whole(path, content.getvalue())


class Deployed(nn.Module):
    """Normalisation, network and softmax in one."""

    mean: Tensor
    std: Tensor

    def __init__(self, method: Method, engine: Engine) -> None:
        super().__init__()
        self.method, self.flips, self.shift = method, engine.flip_test, engine.shift_test
        method.scaffold = nn.ModuleDict()
        self.register_buffer("mean", engine.mean.clone())
        self.register_buffer("std", engine.std.clone())

    def forward(self, images: Tensor) -> Tensor:
        x = (images.float() / 255.0 - self.mean) / self.std
        scores = torch.stack([self.method(view) for view in views(x, self.flips, self.shift)]).mean(dim=0)
        return torch.softmax(scores, dim=1)


def _without_images(sizes: Sequence[int]) -> list[ClassTask]:
    """Tasks of so many classes that have no images: enough to build what they built."""
    ends, none = list(accumulate(sizes)), np.zeros(0, dtype=np.int64)
    labels = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    return [ClassTask(i, tuple(own), own, none, none) for i, own in enumerate(labels)]
