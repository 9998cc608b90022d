"""One training loop for all methods: images resident on the device, whole steps without a word to the host.

Nothing random is left to chance: every epoch draws its order and its augmentation from a generator seeded by (seed,
task, stage, epoch), so a run that was stopped goes on as if it had not been.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from .augment import Augmentation

Loss = Callable[..., Tensor]
Parameters = Iterable[nn.Parameter] | Callable[[], Iterable[nn.Parameter]] | None
AHEAD = 1024  # images of so many steps are made at once, on a GPU


@dataclass(frozen=True)
class Plan:
    """How one stage of training goes: stochastic gradient descent, or Adam, with a warm-up and a schedule."""

    epochs: int
    optimiser: Literal["sgd", "adam"] = "sgd"
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 5e-4
    schedule: Literal["steps", "cosine"] = "steps"
    warmup: int = 0
    milestones: tuple[float, ...] = (0.65, 0.76)
    decay: float = 0.1
    unmixed: float = 0.0

    def rates(self, steps: int) -> Tensor:
        """The learning rate of every step: ``steps`` an epoch, for all epochs."""
        epoch = (torch.arange(self.epochs * steps, dtype=torch.float64) + 1.0) / steps
        after = (epoch - self.warmup).clamp(min=0.0) / max(self.epochs - self.warmup, 1)
        if self.schedule == "cosine":
            rates = 0.5 * (1.0 + torch.cos(torch.pi * after))
        else:
            passed = torch.stack([epoch > share * self.epochs for share in self.milestones] or [epoch < 0.0])
            rates = self.decay ** passed.sum(dim=0)
        if self.warmup:
            rates = rates * (epoch / self.warmup).clamp(max=1.0)
        return (self.learning_rate * rates).float()


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
    ) -> None:
        """One stage: minimise a loss of (images, targets) over these rows of the training images.

        Targets are probabilities (batch, classes seen): one-hot, or mixed where CutMix mixed the images. Without
        ``parameters``, all of the method's that ask for a gradient are trained; where which ones depends on what was
        learned, it is a function that says so. ``fixed`` is what of the images does
        not change in this stage, such as the features of frozen encoders: it is computed without a gradient for many
        images at once, and the loss is then one of (images, targets, what ``fixed`` gave).
        """
        try:
            if not self.replaying:
                with _tried_out() if self.device.type == "cuda" else nullcontext():
                    self._stage(method, loss, rows.to(self.device), plan, parameters, fixed)
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
        batch = min(plan.batch_size, len(rows))
        steps = len(rows) // batch
        descent = Descent(trained, plan, self.device)
        if self.keeper:
            self.keeper.restore_momentum(here, descent.momentum)
        if self.compile:
            _compile(method)
        together = -(-steps // max(1, round(steps * batch / max(self.ahead, batch))))  # steps made ready at once
        turns = -(-steps // together)
        rates = plan.rates(steps).to(self.device)
        order = rows[torch.arange(turns * together * batch, device=self.device) % len(rows)].view(turns, -1)
        noise = torch.zeros(*order.shape, self.augmentation.columns, device=self.device)
        turn, place, clock = (torch.zeros(1, dtype=torch.long, device=self.device) for _ in range(3))  # scalars sync
        total = torch.zeros((), device=self.device)
        ready: list[Tensor] = []

        def make_ready() -> None:
            parts = self._batch(order[turn][0], noise[turn][0], fixed)
            if not ready:
                ready.extend(torch.empty_like(part) for part in parts)
            for kept, part in zip(ready, parts, strict=True):
                kept.copy_(part)
            turn.add_(1)
            place.zero_()

        def step() -> None:
            images, *others = (kept.view(together, batch, *kept.shape[1:])[place][0] for kept in ready)
            descent.rate.copy_(rates[clock][0])
            with self._autocast():
                value = loss(images.permute(0, 3, 1, 2), *others)
            descent.step(value)
            total.add_(value.detach())
            place.add_(1)
            clock.add_(1)

        if self.graphs:
            make_ready = _recorded(make_ready, [turn, place])
            step = _recorded(step, [*method.state_dict().values(), *descent.momentum, total, place, clock])
        for epoch in range(first, plan.epochs):
            started, generator = time.perf_counter(), self._reseed(epoch)
            shuffled = rows[torch.randperm(len(rows), generator=generator, device=self.device)]
            order.copy_(shuffled[torch.arange(order.numel(), device=self.device) % (steps * batch)].view_as(order))
            noise.uniform_(generator=generator)
            if epoch >= round((1.0 - plan.unmixed) * plan.epochs):
                noise.copy_(self.augmentation.unmixed(noise))
            turn.zero_()
            total.zero_()
            clock.fill_(epoch * steps)
            for index in range(steps):
                if index % together == 0:
                    make_ready()
                step()
            mean_loss = float(total) / steps  # waits for the device
            self._count(steps * batch, time.perf_counter() - started)
            place_now = Place(self.task, self.stage, epoch + 1)
            if not np.isfinite(mean_loss):
                raise FloatingPointError(
                    f"the loss is no number any more in task {self.task + 1}, epoch {epoch + 1}: "
                    "a smaller --learning-rate or a longer --warmup may help"
                )
            if self.progress:
                seconds = time.perf_counter() - started
                self.progress.epoch(place_now, plan.epochs, mean_loss, steps * batch, seconds)
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

        return self._infer(method, mean_of_views, images, batch_size)

    def features(self, method: nn.Module, rows: Tensor, width: int, batch_size: int = 1000) -> Tensor:
        """The method's features of training images, in float32; zeros while a run is rebuilt."""
        if self.replaying:
            return torch.zeros(len(rows), width, device=self.device)
        features = cast(Callable[[Tensor], Tensor], method.features)
        return self._infer(method, lambda x: features(x).float(), self.images[rows.to(self.device)], batch_size)

    @torch.no_grad()
    def _infer(
        self, method: nn.Module, function: Callable[[Tensor], Tensor], images: Tensor, batch_size: int
    ) -> Tensor:
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


class Descent:
    """Gradient descent with momentum and weight decay, or Adam; its rate is in a tensor that a recorded step can read.

    ``momentum`` is all that it remembers from step to step.
    """

    def __init__(self, parameters: list[nn.Parameter], plan: Plan, device: torch.device) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.plan = plan
        self.rate = torch.zeros((), device=device)
        self.momentum = [torch.zeros_like(p) for p in parameters]
        if plan.optimiser == "adam":
            self.momentum += [torch.zeros_like(p) for p in parameters]
            self.momentum += [torch.zeros((), device=device) for _ in parameters]  # how many steps it has made

    def step(self, loss: Tensor) -> None:
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        gradients = [_laid_out_as(p, g) for p, g in zip(self.parameters, found, strict=True)]
        rate = cast(float, self.rate)
        how: dict[str, Any] = {"fused": True, "weight_decay": self.plan.weight_decay, "maximize": False, "lr": rate}
        with torch.no_grad():
            if self.plan.optimiser == "sgd":
                how |= {"momentum": self.plan.momentum, "dampening": 0.0, "nesterov": self.plan.nesterov}
                sgd(self.parameters, gradients, cast(list[Tensor | None], self.momentum), **how)
            else:
                count = len(self.parameters)
                first, second, steps = (self.momentum[i * count : (i + 1) * count] for i in range(3))
                how |= {"amsgrad": False, "beta1": self.plan.momentum, "beta2": 0.999, "eps": 1e-8}
                adam(self.parameters, gradients, first, second, [], steps, **how)


def _laid_out_as(parameter: Tensor, gradient: Tensor | None) -> Tensor:
    """A gradient in its parameter's order of memory: fused descent walks through both in the same steps."""
    if gradient is None:
        return torch.zeros_like(parameter)
    same = gradient.stride() == parameter.stride() and gradient.dtype == parameter.dtype
    return gradient if same else torch.empty_like(parameter).copy_(gradient)


def _compile(method: nn.Module) -> None:
    """Have the encoders that are trained compiled when they are first called; all of a kind share what comes out."""
    for encoder in cast(Iterable[nn.Module], getattr(getattr(method, "network", None), "encoders", ())):
        if encoder.training and any(p.requires_grad for p in encoder.parameters()):
            encoder.compile(dynamic=False)


def _uncompiled() -> AbstractContextManager[object]:
    """No compiling for batches of any size that are seen once."""
    return torch.compiler.set_stance("force_eager") if hasattr(torch.compiler, "set_stance") else nullcontext()


@contextmanager
def _tried_out() -> Iterator[None]:
    """Have cuDNN time its ways of a convolution and take the fastest: the shapes of a stage come again and again.

    Where the same bits are asked for (``torch.backends.cudnn.deterministic``) it does not choose by the clock.
    """
    flags = torch.backends.cudnn
    before = flags.benchmark
    flags.benchmark = before or not flags.deterministic
    try:
        yield
    finally:
        flags.benchmark = before


def _recorded(step: Callable[[], None], state: list[Tensor]) -> Callable[[], None]:
    """A step as one CUDA graph; what trying it out changed is put back."""
    saved = [tensor.clone() for tensor in state]

    def put_back() -> None:
        for tensor, value in zip(state, saved, strict=True):
            if not torch.equal(tensor, value):  # what is frozen must not look as if it had been written to
                tensor.copy_(value)

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
            put_back()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    put_back()
    return graph.replay
