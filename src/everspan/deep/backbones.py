"""Encoders: any ``() -> nn.Module`` that maps images to (batch, ``feature_size``); here are the usual ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..untrusted import one_line

BackboneFactory = Callable[[], nn.Module]


def conv(inputs: int, outputs: int, stride: int = 1, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions and a way around them (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv(inputs, outputs, stride, kernel=1), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return cast(Tensor, self.relu(inner + self.shortcut(x)))


class ResNet(nn.Module):
    """A residual network in its CIFAR form: a 3 x 3 stem without stride or pooling, then one stage a width."""

    def __init__(self, blocks: tuple[int, ...], widths: tuple[int, ...], channels: int = 3) -> None:
        super().__init__()
        self.feature_size = widths[-1]
        self.stem = nn.Sequential(conv(channels, widths[0]), nn.BatchNorm2d(widths[0]), nn.ReLU())
        stages, inputs = [], widths[0]
        for stage, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            for block in range(count):
                stages.append(BasicBlock(inputs, width, stride=2 if stage and not block else 1))
                inputs = width
        self.stages = nn.Sequential(*stages)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, BasicBlock):
                nn.init.zeros_(module.bn2.weight)  # every block starts as its shortcut

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.pool(self.stages(self.stem(x))))


def resnet18(channels: int = 3) -> nn.Module:
    """11.17 million parameters, 512 features."""
    return ResNet((2, 2, 2, 2), (64, 128, 256, 512), channels)


def resnet32(channels: int = 3) -> nn.Module:
    """0.46 million parameters, 64 features."""
    return ResNet((5, 5, 5), (16, 32, 64), channels)


def small(channels: int = 1) -> nn.Module:
    """For tiny images such as 8 x 8 digits: 76 thousand parameters, 64 features."""
    return ResNet((1, 1), (32, 64), channels)


BACKBONES: dict[str, Callable[[int], nn.Module]] = {"resnet18": resnet18, "resnet32": resnet32, "small": small}


def why(error: Exception) -> str:
    """What went wrong in code that is not ours, in one line."""
    return one_line(f"{type(error).__name__}: {error}")


def load_own(kind: str, home: str, name: str) -> Any:
    """Something of the user's own; the current folder is looked into last."""
    if "" not in sys.path:
        sys.path.append("")
    try:
        return getattr(import_module(home), name)
    except Exception as error:  # code of the user's own
        raise ValueError(f"{kind} {home}:{name} cannot be loaded: {why(error)}") from error


def backbone_factory(name: str, channels: int) -> BackboneFactory:
    """The factory of a backbone by its name here, or as ``package.module:function`` of your own."""
    if name in BACKBONES:
        return lambda: BACKBONES[name](channels)
    home, _, function = name.partition(":")
    if not function:
        raise ValueError(f"unknown backbone {name!r}: take {', '.join(BACKBONES)}, or your own as module:function")
    factory: BackboneFactory = load_own("backbone", home, function)
    try:
        encoder = factory()
    except TypeError as error:
        raise ValueError(f"backbone {name!r} must be made without arguments ({error})") from error
    except Exception as error:
        raise ValueError(f"backbone {name!r} cannot be made: {why(error)}") from error
    if not isinstance(encoder, nn.Module):
        raise ValueError(f"backbone {name!r} must make a torch.nn.Module, not a {type(encoder).__name__}")
    if not isinstance(getattr(encoder, "feature_size", None), int):
        raise ValueError(f"backbone {name!r} must make a module with an integer attribute feature_size")
    return factory


def check_backbone(name: str, factory: BackboneFactory, shape: Sequence[int]) -> None:
    """See that a backbone takes images (channels, height, width) and gives as many features as it says."""
    encoder, wanted = factory().eval(), "(2, feature_size)"
    try:
        with torch.no_grad():
            answer = encoder(torch.zeros(2, *shape))
    except Exception as error:  # code of the user's own
        raise ValueError(f"backbone {name!r} does not take images of {tuple(shape)}: {why(error)}") from error
    if not isinstance(answer, Tensor):
        raise ValueError(f"backbone {name!r} must give a tensor of features {wanted}, not a {type(answer).__name__}")
    made = tuple(answer.shape)
    if made != (2, cast(int, encoder.feature_size)):
        raise ValueError(f"backbone {name!r} makes {made} of two images, not {wanted} = (2, {encoder.feature_size})")
