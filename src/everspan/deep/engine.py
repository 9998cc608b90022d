"""One training loop for all methods: images resident on the device, whole steps without a word to the host.

Nothing random is left to chance: every epoch draws its order and its augmentation from a generator seeded by (seed,
task, stage, epoch), so a run that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .augment import Augmentation
from .descent import Descent, Plan
from .steps import Steps, tried_out

Loss = Callable[..., Tensor]
Parameters = Iterable[nn.Parameter] | Callable[[], Iterable[nn.Parameter]] | None
AHEAD = 1024  # images of so many steps are made at once, on a GPU


@dataclass(frozen=True)
class Place:
    """Where a run is: before this epoch of this stage of this task."""

    task: int
    stage: int = 0
    epoch: int = 0


class Keeper(Protocol):
    """Who saves the state of a run and gives it back."""

    def restore(self, place: Place, method: nn.Module) -> int | None:
        """Fill in the weights of this stage and return its next epoch; None where the stage was over already."""

    def restore_momentum(self, place: Place, momentum: list[Tensor]) -> None:
        """Fill in the momentum, where this stage was under way."""

    def save(self, place: Place, method: nn.Module, momentum: list[Tensor]) -> None:
        """Save, where it is time to."""

    def stage_ended(self, place: Place, method: nn.Module) -> None:
        """Remember, or fill in, the weights with which a stage ended: what comes next may look at them."""


class Progress(Protocol):
    def epoch(self, place: Place, epochs: int, loss: float, images: int, seconds: float) -> None: ...


class Engine:
    """Training and inference on one device.

    Parameters
    ----------
    images : uint8 tensor of shape (n, channels, height, width)
        All training images; they stay on the device.
    labels : long tensor of shape (n,)
        Their labels in the order of arrival.
    mean, std : sequence of float
        Of the channels, on the scale from 0 to 1.
    augmentation : Augmentation
        What training images go through.
    first_augmentation : Augmentation, optional
        What those of the first task go through, where it is to be something else.
    seed : int
        Of everything random.
    device : torch.device
        Where it runs.
    bf16 : bool
        Mixed precision: bfloat16 inside, float32 where it matters.
    graphs : bool
        Record a whole step as one CUDA graph, where there is CUDA.
    compile : bool
        Compile the encoders that are trained (``torch.compile``), where there is CUDA.
    flip_test : bool
        Average the scores of an image and of its mirror image at test time.
    shift_test : int
        Average the scores of an image and of two copies shifted by so many pixels along both sides at test time.
    ahead : int, optional
        Images augmented, and passed through all that is frozen, at once: those of several steps. A thousand on a GPU,
        where large batches are cheaper, and one step's elsewhere.
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        mean: Iterable[float],
        std: Iterable[float],
        augmentation: Augmentation,
        first_augmentation: Augmentation | None = None,
        seed: int = 0,
        device: torch.device | None = None,
        bf16: bool = False,
        graphs: bool = True,
        compile: bool = False,
        flip_test: bool = False,
        shift_test: int = 0,
        ahead: int | None = None,
        keeper: Keeper | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.device = device or torch.device("cpu")
        self.images, self.labels = images.to(self.device), labels.to(self.device)
        self.mean, self.std = (torch.tensor(list(v), device=self.device).view(1, -1, 1, 1) for v in (mean, std))
        self.augmentations = (first_augmentation or augmentation, augmentation)
        self.augmentation, self.seed, self.bf16 = self.augmentations[0], seed, bf16
        self.flip_test, self.shift_test = flip_test, shift_test
        on_gpu = self.device.type == "cuda"
        self.graphs, self.compile = graphs and on_gpu, compile and on_gpu
        self.ahead = (AHEAD if on_gpu else 1) if ahead is None else ahead
        self.keeper, self.progress = keeper, progress
        self.replaying = False  # rebuild what tasks before built, without their training
        self.task = self.stage = self.classes = 0
        self.trained_images, self.training_seconds = 0, 0.0

    def begin(self, task: int, classes: int) -> None:
        """A task with so many classes seen, its own among them."""
        self.task, self.stage, self.classes = task, 0, classes
        self.augmentation = self.augmentations[min(task, 1)]
        self._reseed(0)

    def _reseed(self, epoch: int) -> torch.Generator:
        """Seed everything random; returns the generator of this epoch."""
        state = np.random.SeedSequence([self.seed, self.task, self.stage, epoch]).generate_state(2, np.uint64)
        torch.manual_seed(int(state[0] >> np.uint64(1)))  # initial weights, dropout
        return torch.Generator(self.device).manual_seed(int(state[1] >> np.uint64(1)))

    # Training ---------------------------------------------------------------------------------------------------------

    def train(
        self,
        method: nn.Module,
        loss: Loss,
        rows: Tensor,
        plan: Plan,
        parameters: Parameters = None,
        fixed: Callable[[Tensor], Tensor] | None = None,
        after: Callable[[], None] | None = None,
    ) -> None:
        """One stage: minimise a loss of (images, targets) over these rows of the training images.

        Targets are probabilities (batch, classes seen): one-hot, or mixed where CutMix mixed the images. Without
        ``parameters``, all of the method's that ask for a gradient are trained; where which ones depends on what was
        learned, it is a function that says so. ``fixed`` is what of the images does not change in this stage, such as
        the features of frozen encoders: it is computed without a gradient for many images at once, and the loss is then
        one of (images, targets, what ``fixed`` gave). ``after`` ends every step and is recorded with it: it changes
        weights in place, without a word to the host.
        """
        try:
            if not self.replaying:
                with tried_out() if self.device.type == "cuda" else nullcontext():
                    self._stage(method, loss, rows.to(self.device), plan, parameters, fixed, after)
                if self.keeper:
                    self.keeper.stage_ended(Place(self.task, self.stage), method)
        finally:
            self.stage += 1
            self._reseed(0)

    def _stage(
        self,
        method: nn.Module,
        loss: Loss,
        rows: Tensor,
        plan: Plan,
        parameters: Parameters,
        fixed: Callable[[Tensor], Tensor] | None,
        after: Callable[[], None] | None,
    ) -> None:
        if not len(rows):
            raise ValueError(f"there is no image to train on in task {self.task + 1}")
        here = Place(self.task, self.stage)
        first = self.keeper.restore(here, method) if self.keeper else 0
        if first is None:
            return
        method.train()
        given = parameters() if callable(parameters) else parameters
        trained = [p for p in (method.parameters() if given is None else given) if p.requires_grad]
        descent = Descent(trained, plan, self.device)
        if self.keeper:
            self.keeper.restore_momentum(here, descent.momentum)
        if self.compile:
            _compile(method)

        def batch(picked: Tensor, noise: Tensor) -> list[Tensor]:
            return self._batch(picked, noise, fixed)

        def loss_of(images: Tensor, *others: Tensor) -> Tensor:
            with self._autocast():
                return loss(images.permute(0, 3, 1, 2), *others)

        steps = Steps(rows, batch, loss_of, descent, self.ahead, self.augmentation.columns, after)
        if self.graphs:
            steps.record(method.state_dict().values())
        for epoch in range(first, plan.epochs):
            started = time.perf_counter()
            unmixed = self.augmentation.unmixed if epoch >= round((1.0 - plan.unmixed) * plan.epochs) else None
            mean_loss = steps.epoch(epoch, self._reseed(epoch), unmixed)
            self._count(steps.images, time.perf_counter() - started)
            place_now = Place(self.task, self.stage, epoch + 1)
            if not np.isfinite(mean_loss):
                raise FloatingPointError(
                    f"the loss is no number any more in task {self.task + 1}, epoch {epoch + 1}: "
                    "a smaller --learning-rate or a longer --warmup may help"
                )
            if self.progress:
                seconds = time.perf_counter() - started
                self.progress.epoch(place_now, plan.epochs, mean_loss, steps.images, seconds)
            if self.keeper:
                self.keeper.save(place_now, method, descent.momentum)

    def _count(self, images: int, seconds: float) -> None:
        self.trained_images += images
        self.training_seconds += seconds

    @torch.no_grad()
    def _batch(self, rows: Tensor, noise: Tensor, fixed: Callable[[Tensor], Tensor] | None = None) -> list[Tensor]:
        """Images with their channels last, targets, and what is fixed about the images."""
        mixed = self.augmentation(self.images[rows], noise)
        targets = functional.one_hot(self.labels[rows], self.classes).float()
        if mixed.partner is not None and mixed.share is not None:
            share = mixed.share[:, None]
            targets = share * targets + (1.0 - share) * targets[mixed.partner]
        images = self._normalised(mixed.images)
        parts = [images.permute(0, 2, 3, 1), targets]
        if fixed is not None:
            with self._autocast():
                parts.append(fixed(images))
        return parts

    def _normalised(self, images: Tensor) -> Tensor:
        return ((images - self.mean) / self.std).contiguous(memory_format=torch.channels_last)

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)

    # Inference --------------------------------------------------------------------------------------------------------

    def scores(self, method: nn.Module, images: Tensor, batch_size: int = 1000, one_view: bool = False) -> Tensor:
        """The method's scores of images given as bytes, averaged over the views of an image that are asked for."""

        def mean_of_views(x: Tensor) -> Tensor:
            seen = [x] if one_view else views(x, self.flip_test, self.shift_test)
            return torch.stack([cast(Tensor, method(view)).float() for view in seen]).mean(dim=0)

        return self.infer(method, mean_of_views, images, batch_size)

    def features(self, method: nn.Module, rows: Tensor, width: int, batch_size: int = 1000) -> Tensor:
        """The method's features of training images, in float32; zeros while a run is rebuilt."""
        if self.replaying:
            return torch.zeros(len(rows), width, device=self.device)
        features = cast(Callable[[Tensor], Tensor], method.features)
        return self.infer(method, lambda x: features(x).float(), self.images[rows.to(self.device)], batch_size)

    @torch.no_grad()
    def infer(
        self, method: nn.Module, function: Callable[[Tensor], Tensor], images: Tensor, batch_size: int = 1000
    ) -> Tensor:
        """A function of normalised images, applied batch by batch to images given as bytes."""
        method.eval()
        with self._autocast(), _uncompiled() if self.compile else nullcontext():
            batches = torch.split(images, batch_size)
            parts = [function(self._normalised(batch.to(self.device).float() / 255.0)) for batch in batches]
        return torch.cat(parts)


def views(images: Tensor, flips: bool, shift: int) -> list[Tensor]:
    """What is looked at of images at test time: they themselves, shifted to two corners, and all of it mirrored."""
    found = [images]
    if shift:
        padded = functional.pad(images, [shift] * 4, mode="replicate")
        height, width = images.shape[2:]
        found += [padded[:, :, :height, :width], padded[:, :, -height:, -width:]]
    return [*found, *(view.flip(3) for view in found)] if flips else found


def _compile(method: nn.Module) -> None:
    """Have the encoders that are trained compiled when they are first called; all of a kind share what comes out."""
    for encoder in cast(Iterable[nn.Module], getattr(getattr(method, "network", None), "encoders", ())):
        if encoder.training and any(p.requires_grad for p in encoder.parameters()):
            encoder.compile(dynamic=False)


def _uncompiled() -> AbstractContextManager[object]:
    """No compiling for batches of any size that are seen once."""
    return torch.compiler.set_stance("force_eager") if hasattr(torch.compiler, "set_stance") else nullcontext()
