"""Augmentation of whole batches on the device, as a pure function of images and uniform random numbers.

Images come in as bytes and leave as numbers from 0 to 1; every operation has its own columns of random numbers, so the
same numbers give the same images on every machine, and a recorded CUDA graph needs no random state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class Mixed(NamedTuple):
    """Images, and where they were mixed: every image's partner in the batch and the share that is still its own."""

    images: Tensor
    partner: Tensor | None
    share: Tensor | None


def crop(images: Tensor, u: Tensor, padding: float) -> Tensor:
    """Shift by up to ``padding`` pixels each way; zeros come in."""
    reach, (height, width) = int(padding), images.shape[2:]
    padded = functional.pad(images, [reach] * 4)
    top, left = ((2 * reach + 1) * u[:, :2]).long().clamp_(max=2 * reach).unbind(1)
    rows = top[:, None] + torch.arange(height, device=images.device)
    columns = left[:, None] + torch.arange(width, device=images.device)
    batch = torch.arange(len(images), device=images.device)
    return padded.permute(0, 2, 3, 1)[batch[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def flip(images: Tensor, u: Tensor, probability: float) -> Tensor:
    """Left and right exchanged."""
    return torch.where(_some(u, probability), images.flip(3), images)


def brightness(images: Tensor, u: Tensor, reach: float) -> Tensor:
    """All values times 1 - reach to 1 + reach."""
    return images * _factor(u[:, 0], reach)


def contrast(images: Tensor, u: Tensor, probability: float) -> Tensor:
    """Away from or towards the image's mean, by up to a half, on some images."""
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return torch.where(_some(u, probability), mean + (images - mean) * _factor(u[:, 1], 0.5), images)


def saturation(images: Tensor, u: Tensor, probability: float) -> Tensor:
    """Away from or towards grey, by up to a half, on some images; grey images stay."""
    grey = images.mean(dim=1, keepdim=True)
    return torch.where(_some(u, probability), grey + (images - grey) * _factor(u[:, 1], 0.5), images)


def turn(images: Tensor, u: Tensor, degrees: float) -> Tensor:
    """Turned by up to so many degrees either way; zeros come in."""
    angle = math.radians(degrees) * (2.0 * u[:, 0] - 1.0)
    return _moved(images, angle, torch.zeros_like(angle), torch.ones_like(angle))


def affine(images: Tensor, u: Tensor, probability: float) -> Tensor:
    """Turned by up to 15 degrees, sheared by up to 0.15, scaled by up to 15%, on some images; zeros come in."""
    angle, shear = math.radians(15.0) * (2.0 * u[:, 1] - 1.0), 0.15 * (2.0 * u[:, 2] - 1.0)
    scale = 1.0 + 0.15 * (2.0 * u[:, 3] - 1.0)
    return torch.where(_some(u, probability), _moved(images, angle, shear, scale), images)


def cutout(images: Tensor, u: Tensor, probability: float) -> Tensor:
    """A square of half the side greyed out, on some images (DeVries and Taylor 2017)."""
    height, width = images.shape[2:]
    inside = _box(u[:, 1], u[:, 2], torch.full_like(u[:, 0], 0.5), height, width)
    return torch.where(_some(u, probability) & inside, torch.full_like(images, 0.5), images)


def cutmix(images: Tensor, u: Tensor, probability: float) -> Mixed:
    """A box of another image pasted in, on some images; the label's share is the area's (Yun et al. 2019)."""
    height, width = images.shape[2:]
    side = torch.sqrt(u[:, 3])  # the box's area is uniform: a Beta(1, 1) share
    inside = _box(u[:, 1], u[:, 2], side, height, width) & _some(u, probability)
    partner = torch.arange(len(images), device=images.device).roll(1)
    share = 1.0 - inside.float().mean(dim=(1, 2, 3))
    return Mixed(torch.where(inside, images[partner], images), partner, share)


def _moved(images: Tensor, angle: Tensor, shear: Tensor, scale: Tensor) -> Tensor:
    cosine, sine, zero = angle.cos() * scale, angle.sin() * scale, torch.zeros_like(angle)
    aspect = images.shape[2] / images.shape[3]  # coordinates go from -1 to 1 along both sides
    first = torch.stack([cosine, (shear - sine) * aspect, zero], dim=1)
    matrix = torch.stack([first, torch.stack([sine / aspect, cosine, zero], dim=1)], dim=1)
    grid = functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _some(u: Tensor, probability: float) -> Tensor:
    return (u[:, 0] < probability)[:, None, None, None]


def _factor(u: Tensor, reach: float) -> Tensor:
    return (1.0 + reach * (2.0 * u - 1.0))[:, None, None, None]


def _box(across: Tensor, down: Tensor, side: Tensor, height: int, width: int) -> Tensor:
    """True inside a box of this share of both sides around a random pixel, cut at the edges: (batch, 1, h, w)."""

    def within(centre: Tensor, length: int) -> Tensor:
        pixels, half = torch.arange(length, device=centre.device), (side * length / 2.0)[:, None]
        middle = (centre * length).floor().clamp_(max=length - 1)[:, None]
        return (pixels >= middle - half) & (pixels < middle + half)

    return within(down, height)[:, None, :, None] & within(across, width)[:, None, None, :]


OPERATIONS: dict[str, tuple[Callable[[Tensor, Tensor, float], Tensor], float]] = {
    "crop": (crop, 4.0),
    "flip": (flip, 0.5),
    "brightness": (brightness, 63.0 / 255.0),
    "contrast": (contrast, 0.4),
    "saturation": (saturation, 0.4),
    "turn": (turn, 10.0),
    "affine": (affine, 0.4),
    "cutout": (cutout, 0.4),
}
MOST = {"crop": 64.0, "turn": 180.0}  # of the number behind the colon, where it is not a share
COLUMNS = 4  # random numbers an operation may use
CUTMIX = ("cutmix", 0.5)


@dataclass(frozen=True)
class Augmentation:
    """Operations in a row, from a list of names such as ``["crop:4", "flip", "cutmix:0.5"]``.

    The number behind the colon is the padding of ``crop``, the degrees of ``turn``, the reach of ``brightness``, and
    else the share of images. ``cutmix`` is always done last.

    Examples
    --------
    >>> import torch
    >>> from everspan.deep.augment import Augmentation
    >>> augmentation = Augmentation.parse("crop:1,cutmix:1.0")
    >>> images = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8)
    >>> mixed = augmentation(images, torch.rand(6, augmentation.columns))
    >>> mixed.images.shape, mixed.share.shape
    (torch.Size([6, 3, 8, 8]), torch.Size([6]))
    """

    steps: tuple[tuple[str, float], ...]

    @classmethod
    def parse(cls, names: str | Sequence[str]) -> Augmentation:
        steps: list[tuple[str, float]] = []
        for text in names.split(",") if isinstance(names, str) else names:
            if not text or text == "none":
                continue
            name, _, number = text.partition(":")
            if name not in OPERATIONS and name != "cutmix":
                raise ValueError(f"unknown augmentation {name!r}: take {', '.join([*OPERATIONS, 'cutmix'])} or none")
            default = CUTMIX[1] if name == "cutmix" else OPERATIONS[name][1]
            try:
                value = float(number) if number else default
            except ValueError:
                value = -1.0
            if not 0.0 <= value <= MOST.get(name, 1.0) or (name == "crop" and value != int(value)):
                raise ValueError(
                    f"augmentation {text!r} needs a number from 0 to 1 behind the colon "
                    "(crop: 0 to 64 pixels, turn: 0 to 180 degrees)"
                )
            if name in dict(steps):
                raise ValueError(f"augmentation {name!r} is there twice")
            steps.append((name, value))
        return cls(tuple(sorted(steps, key=lambda step: step[0] == "cutmix")))

    @property
    def columns(self) -> int:
        """Random numbers an image needs."""
        return COLUMNS * len(self.steps)

    @property
    def mixes(self) -> bool:
        """Whether images are mixed, so that one carries two labels."""
        return any(name == "cutmix" for name, _ in self.steps)

    def unmixed(self, u: Tensor) -> Tensor:
        """Random numbers with which no image is mixed, and all else is as it was."""
        u = u.clone()
        u[..., [COLUMNS * place for place, (name, _) in enumerate(self.steps) if name == "cutmix"]] = 1.0
        return u

    def __call__(self, images: Tensor, u: Tensor) -> Mixed:
        """Images (batch, channels, height, width) of bytes, and uniform numbers (batch, ``columns``)."""
        x, partner, share = images.float() / 255.0, None, None
        for place, (name, value) in enumerate(self.steps):
            own = u[:, COLUMNS * place : COLUMNS * (place + 1)]
            if name == "cutmix":
                x, partner, share = cutmix(x, own, value)
            else:
                x = OPERATIONS[name][0](x, own, value).clamp_(0.0, 1.0)
        return Mixed(x, partner, share)
