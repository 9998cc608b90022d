"""The steps of a stage of training, which ask the host for nothing: on a GPU each is one recorded graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from .descent import Descent


class Steps:
    """Steps of gradient descent over some images, epoch after epoch.

    Parameters
    ----------
    rows : tensor of shape (n,)
        Positions of the images.
    batch : (positions, random numbers) -> list of tensors
        Makes the images of several steps ready: they and all else that the loss looks at, image by image.
    loss : (*tensors) -> tensor
        Of the images of one step.
    descent : Descent
        What is trained, and how.
    ahead : int
        Images made ready at once.
    columns : int
        Random numbers that an image needs.
    after : () -> None, optional
        Ends every step.
    """

    def __init__(
        self,
        rows: Tensor,
        batch: Callable[[Tensor, Tensor], list[Tensor]],
        loss: Callable[..., Tensor],
        descent: Descent,
        ahead: int,
        columns: int,
        after: Callable[[], None] | None = None,
    ) -> None:
        self.rows, self.batch, self.loss, self.descent, self.after = rows, batch, loss, descent, after
        device, plan = rows.device, descent.plan
        self.size = min(plan.batch_size, len(rows))
        self.count = len(rows) // self.size  # in an epoch
        self.together = -(-self.count // max(1, round(self.count * self.size / max(ahead, self.size))))
        turns = -(-self.count // self.together)
        self.rates = plan.rates(self.count).to(device)
        self.order = rows[torch.arange(turns * self.together * self.size, device=device) % len(rows)].view(turns, -1)
        self.noise = torch.zeros(*self.order.shape, columns, device=device)
        self.turn, self.place, self.clock = (torch.zeros(1, dtype=torch.long, device=device) for _ in range(3))
        self.total = torch.zeros((), device=device)
        self.ready: list[Tensor] = []
        self.run_make_ready, self.run_step = self.make_ready, self.step

    @property
    def images(self) -> int:
        """Images of an epoch."""
        return self.count * self.size

    def make_ready(self) -> None:
        """The images of the next few steps; places are tensors of one number, as an index that is a scalar waits."""
        parts = self.batch(self.order[self.turn][0], self.noise[self.turn][0])
        if not self.ready:
            self.ready.extend(torch.empty_like(part) for part in parts)
        for kept, part in zip(self.ready, parts, strict=True):
            kept.copy_(part)
        self.turn.add_(1)
        self.place.zero_()

    def step(self) -> None:
        parts = (kept.view(self.together, self.size, *kept.shape[1:])[self.place][0] for kept in self.ready)
        self.descent.rate.copy_(self.rates[self.clock][0])
        value = self.loss(*parts)
        self.descent.step(value)
        if self.after is not None:
            self.after()
        self.total.add_(value.detach())
        self.place.add_(1)
        self.clock.add_(1)

    def record(self, state: Iterable[Tensor]) -> None:
        """Have both as CUDA graphs; ``state`` is what a step changes beside the optimiser's own."""
        self.run_make_ready = recorded(self.make_ready, [self.turn, self.place])
        own = [*self.descent.momentum, self.total, self.place, self.clock]
        self.run_step = recorded(self.step, [*state, *own])

    def epoch(
        self, epoch: int, generator: torch.Generator, change_noise: Callable[[Tensor], Tensor] | None = None
    ) -> float:
        """All steps of this epoch; returns the mean of the loss."""
        device = self.rows.device
        shuffled = self.rows[torch.randperm(len(self.rows), generator=generator, device=device)]
        places = torch.arange(self.order.numel(), device=device) % self.images
        self.order.copy_(shuffled[places].view_as(self.order))
        self.noise.uniform_(generator=generator)
        if change_noise is not None:
            self.noise.copy_(change_noise(self.noise))
        self.turn.zero_()
        self.total.zero_()
        self.clock.fill_(epoch * self.count)
        for index in range(self.count):
            if index % self.together == 0:
                self.run_make_ready()
            self.run_step()
        return float(self.total) / self.count  # waits for the device


@contextmanager
def tried_out() -> Iterator[None]:
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


def recorded(step: Callable[[], None], state: list[Tensor]) -> Callable[[], None]:
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
