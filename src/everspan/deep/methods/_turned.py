"""Images turned by quarters, told apart class by class (Gidaris et al. 2018, Lee et al. 2020): labels for nothing.

A few classes with few images let an encoder look at little; turns of the same images make it look at more, and what it
sees then serves classes that come later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..network import linear
from ._base import MethodSettings, check_amounts, setting

SHARE = 4  # of a batch, every fourth image is seen turned as well


@dataclass(frozen=True)
class TurnedSettings(MethodSettings):
    """Of a method that may look at turned images."""

    rotation: float = setting(0.0, "weight of telling images turned by quarters apart, class by class")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amounts(self, "rotation")


class Turned(nn.Module):
    """A head for every class and turn, which is thrown away in the end."""

    def __init__(self, width: int, classes: int, shape: torch.Size) -> None:
        super().__init__()
        if shape[-2] != shape[-1]:
            raise ValueError(f"rotation needs square images, not {shape[-2]} x {shape[-1]}: take --rotation 0")
        self.head = linear(width, 4 * classes)

    def features(self, encoder: Callable[[Tensor], Tensor], images: Tensor) -> tuple[Tensor, Tensor]:
        """Of the images as they are, and of some of them turned, in one pass."""
        more = _thirds(images, lambda part, quarters: torch.rot90(part, quarters, (2, 3)))
        together = torch.cat([images, more]).contiguous(memory_format=torch.channels_last)
        both = encoder(together)
        return both[: len(images)], both[len(images) :]

    def loss(self, upright: Tensor, turned: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over classes and turns, of those that were turned, as they are and turned."""
        if not len(turned):
            return upright.new_zeros(())
        scores = self.head(torch.cat([upright[: len(turned)], turned])).float()

        def at(part: Tensor, quarters: int) -> Tensor:
            before, after = quarters * part.shape[1], (3 - quarters) * part.shape[1]
            return functional.pad(part, [before, after])

        return functional.cross_entropy(scores, torch.cat([at(targets[: len(turned)], 0), _thirds(targets, at)]))


def _thirds(batch: Tensor, change: Callable[[Tensor, int], Tensor]) -> Tensor:
    """The first quarter of a batch, a third of it changed as befits one quarter turn, the others two and three."""
    part = batch[: len(batch) // SHARE]
    return torch.cat([change(part[turn - 1 :: 3], turn) for turn in (1, 2, 3)])
