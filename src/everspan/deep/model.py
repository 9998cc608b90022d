"""A run's model on its own: predict, and export for where there is no everspan."""

from __future__ import annotations

import io
import math
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
from torch.overrides import TorchFunctionMode

from ..scenarios import ClassTask
from .backbones import why
from .checkpoint import write_whole
from .engine import Engine, views
from .methods import Method, MethodSettings
from .runs import build, read_settings, replay
from .settings import RunSettings, from_record, outside_code
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
    def load(cls, folder: Path | str, allow_code: bool = False) -> IncrementalModel:
        """The model of a run as its newest whole checkpoint has it; the run's images are not needed.

        Parameters
        ----------
        folder : Path or str
            The run. It may come from a stranger: nothing in it is unpickled or run.
        allow_code : bool
            Import a method or a backbone outside everspan that the run's settings name. This runs their code.
        """
        folder = Path(folder)
        if not (folder / "settings.json").exists():
            raise ValueError(f"{folder} holds no run (it has no settings.json)")
        record = read_settings(folder / "settings.json")
        try:
            settings, own = from_record(record, allow_code)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error
        state = _newest(folder, record)
        try:
            method = _rebuilt(settings, own, state, trusted=bool(outside_code(record)))
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from error
        except Exception as error:  # code of the user's own, or settings that a method cannot take
            raise ValueError(f"{folder}: the network cannot be built again: {why(error)}") from error
        channels, height, width = state.data["shape"]
        return cls(method, state.data["names"][: method.engine.classes], (height, width, channels))

    def predict_proba(self, images: Any) -> NDArray[np.float32]:
        """Probabilities (n, classes) of images (n, height, width) or (n, height, width, channels) of bytes."""
        pixels = np.asarray(images)
        pixels = pixels[..., None] if pixels.ndim == 3 else pixels
        if pixels.dtype != np.uint8 or pixels.shape[1:] != self.shape:
            wanted = "(n, {}, {}, {})".format(*self.shape)
            raise ValueError(f"images must be bytes of shape {wanted}, not {pixels.dtype} of {pixels.shape}")
        tensor = torch.from_numpy(np.moveaxis(pixels, -1, 1).copy())
        scores = self.method.engine.scores(self.method, tensor)
        if not torch.isfinite(scores).all():
            raise ValueError("the network's scores are not finite numbers: its weights are damaged")
        return scores.softmax(dim=1).cpu().numpy()

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


def _newest(folder: Path, record: dict[str, Any]) -> State:
    """What the newest whole checkpoint of a run holds, which must be the end of a task."""
    notes: list[str] = []
    state = State(folder, record, note=notes.append)
    if not state.find():
        refused = f": {notes[0]}" if notes else " yet: let the run begin first"
        raise ValueError(f"{folder} holds no checkpoint that can be used{refused}".removesuffix(_THEN))
    if (state.place.stage, state.place.epoch) != (0, 0) or not state.place.task:
        raise ValueError(f"{folder} is in the middle of a task: let it end first (the same command goes on with it)")
    for line in notes:
        print(line, file=sys.stderr)
    return state


_THEN = "; looking for the one before"


def _rebuilt(settings: RunSettings, own: MethodSettings, state: State, trusted: bool) -> Method:
    """The method as it was at the end of a task, its weights filled in.

    Unless its code is the user's own, the network may be no larger than the checkpoint: what settings claim takes no
    memory before it is compared with what the file holds.
    """
    data, tensors = state.data, state.tensors
    held = sum(tensor.numel() for name, tensor in tensors.items() if not name.startswith("@"))
    channels, height, width = data["shape"]
    nothing = torch.zeros(0, channels, height, width, dtype=torch.uint8)
    if not torch.cuda.is_available():
        settings = replace(settings, device="cpu")
    with Bounded(trusted, held):
        method = build(settings, own, data, nothing, torch.zeros(0, dtype=torch.long))
    for task in _without_images(data["sizes"][: state.place.task]):
        with Bounded(trusted, held):
            replay(method, [task])
        if not trusted and sum(tensor.numel() for tensor in method.state_dict().values()) > 2 * held + 100_000:
            raise ValueError(_TOO_SMALL)
    method.memory.rows = state.memory_rows
    state.load(method)
    state.tensors = {}
    blank = method.engine.scores(method, torch.zeros(1, channels, height, width, dtype=torch.uint8))
    if blank.shape != (1, method.engine.classes) or not torch.isfinite(blank).all():
        raise ValueError("the network has no finite scores for a blank image: its weights are damaged")
    return method


_TOO_SMALL = "its settings ask for a larger network than its checkpoint holds"


class Bounded(TorchFunctionMode):
    """Refuse to make tensors that have a few times more numbers than a checkpoint holds."""

    def __init__(self, trusted: bool, held: int) -> None:
        super().__init__()
        self.left = math.inf if trusted else 4 * held + 100_000

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if function in (torch.empty, torch.zeros, torch.ones):  # empty memory is not taken before it is written to
            self.left -= made.numel()
            if self.left < 0:
                raise ValueError(_TOO_SMALL)
        return made


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
