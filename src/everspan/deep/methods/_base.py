"""What a method is: a network, a loss, and what happens at both ends of a task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...scenarios import ClassTask
from ..backbones import BackboneFactory
from ..descent import Plan
from ..engine import Engine
from ..memory import ExemplarMemory
from ..network import ExpandableNetwork

# Training that makes the most of few images; chosen on held-out training images of CIFAR-100 (docs/cifar100.md).
MANY = "crop:4,flip,brightness,affine:0.4,contrast:0.4,saturation:0.4,cutout:0.4"
STRONG: dict[str, Any] = {
    "epochs": 180,
    "batch_size": 256,
    "learning_rate": 0.2,
    "nesterov": True,
    "weight_decay": 1.5e-3,
    "schedule": "cosine",
    "warmup": 5,
    "augment": f"{MANY},cutmix:1.0",
    "first_augment": f"{MANY},cutmix:0.5",
    "unmixed": 0.1,
    "flip_test": True,
    "shift_test": 2,
}

FAST: dict[str, Any] = {  # over STRONG, where there is time for fifty epochs
    "epochs": 52,
    "warmup": 3,
    "weight_decay": 2e-3,
    "augment": "crop:4,flip,brightness,cutmix:0.5",
    "first_augment": None,
}


# Over STRONG, where one network goes on from task to task: what decays is also what it knew. Not so with iCaRL, whose
# classes are means of features (docs/cifar100.md).
GOES_ON: dict[str, Any] = {"weight_decay": 5e-4}


def setting(default: Any, help: str) -> Any:
    """A hyper-parameter: its default, and what ``--help`` says about it."""
    return field(default=default, metadata={"help": help})


def check_counts(settings: Any, *names: str) -> None:
    """Refuse numbers below one or beyond all use."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not 1 <= value <= 1_000_000:
            raise ValueError(f"{name} must be from 1 to 1,000,000, but it is {value}")


def check_amounts(settings: Any, *names: str, above: bool = False) -> None:
    """Refuse numbers that are negative, infinite or none; with ``above``, zero too."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not (0.0 < value < math.inf or (value == 0.0 and not above)):
            raise ValueError(
                f"{name} must be {'above zero' if above else 'zero or more'} and finite, but it is {value}"
            )


def check_milestones(name: str, shares: tuple[float, ...] | None) -> None:
    if not all(0.0 <= share <= 1.0 for share in shares or ()):
        raise ValueError(f"{name} must be shares of the epochs from 0 to 1, but they are {shares}")


@dataclass(frozen=True)
class MethodSettings:
    """Hyper-parameters that every method has; a method's own come in a subclass."""

    backbone: str = setting("resnet18", "encoder: resnet18, resnet32, small, or your own as module:function")
    epochs: int = setting(170, "epochs of a task")
    first_epochs: int | None = setting(None, "epochs of the first task, where it is to have others")
    batch_size: int = setting(128, "images of a step")
    optimiser: Literal["sgd", "adam"] = setting("sgd", "gradient descent with momentum, or Adam")
    learning_rate: float = setting(0.1, "largest learning rate")
    momentum: float = setting(0.9, "momentum of gradient descent, first beta of Adam")
    nesterov: bool = setting(False, "Nesterov's momentum")
    weight_decay: float = setting(5e-4, "weight decay")
    schedule: Literal["steps", "cosine"] = setting("steps", "how the learning rate falls")
    warmup: int = setting(10, "epochs in which the learning rate rises first")
    milestones: tuple[float, ...] = setting((0.65, 0.76), "where steps fall, as shares of the epochs")
    decay: float = setting(0.1, "what the learning rate is multiplied by at a milestone")
    augment: str = setting(
        "crop:4,flip,brightness", "crop, flip, turn, brightness, contrast, saturation, affine, cutout, cutmix, or none"
    )
    first_augment: str | None = setting(None, "augmentation of the first task, where it is to be another")
    unmixed: float = setting(0.0, "share of the epochs, the last ones, that go without cutmix")
    flip_test: bool = setting(False, "average an image and its mirror image at test time")
    shift_test: int = setting(0, "average an image and two copies shifted by so many pixels at test time")

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "first_epochs", "batch_size")
        check_amounts(self, "learning_rate", "momentum", "weight_decay", "warmup", "decay")
        if self.momentum >= 1.0:
            raise ValueError(f"momentum must be below 1, but it is {self.momentum}")
        if self.nesterov and (not self.momentum or self.optimiser != "sgd"):
            raise ValueError("nesterov needs gradient descent (sgd) with momentum above zero")
        check_milestones("milestones", self.milestones)
        if not 0.0 <= self.unmixed <= 1.0:
            raise ValueError(f"unmixed must be a share of the epochs from 0 to 1, but it is {self.unmixed}")
        if not 0 <= self.shift_test <= 64:
            raise ValueError(f"shift_test must be from 0 to 64 pixels, but it is {self.shift_test}")

    def plan(self, first: bool = False, **changes: Any) -> Plan:
        """The plan of a stage of training with these settings, of the first task's where that is asked for."""
        own = {field.name: getattr(self, field.name) for field in fields(Plan)}
        if first and self.first_epochs is not None:
            own["epochs"] = self.first_epochs
        return Plan(**(own | changes))


class Method(nn.Module):
    """A class-incremental method.

    A subclass says what happens when a task begins (``begin``), what is minimised on which images (``loss``, ``rows``,
    or all of ``learn``), and what happens at the end (``end``, when the memory holds the new classes too). All that
    it learns must be parameters, buffers or submodules: they are what is saved; what predicting does not need goes into
    ``scaffold``. All three run again, with all training left out, when a stopped run is rebuilt or its model is loaded
    (then without images), so they must build the same modules every time.
    """

    name: ClassVar[str] = ""
    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    recipes: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}}
    uses_memory: ClassVar[bool] = True
    uses_backbone: ClassVar[bool] = True

    def __init__(
        self, settings: MethodSettings, engine: Engine, memory: ExemplarMemory, factory: BackboneFactory
    ) -> None:
        super().__init__()
        self.settings, self.engine, self.memory, self.factory = settings, engine, memory, factory
        self.network = ExpandableNetwork(factory).to(engine.device)
        self.scaffold = nn.ModuleDict()  # what is needed to learn and not to predict: saved, not counted, not exported

    def begin(self, task: ClassTask) -> None:
        """Make the network ready for a task: here one encoder for all tasks, and outputs for the new classes."""
        if not len(self.network.encoders):
            self.network.grow()
        self.network.widen(task.seen)

    def learn(self, task: ClassTask) -> None:
        """Learn it: here one stage of training with all settings."""
        self.engine.train(self, self.loss, self.rows(task), self.settings.plan(first=not task.index))

    def end(self, task: ClassTask) -> None:
        """What is left to do when the memory holds the new classes too."""

    def rows(self, task: ClassTask) -> Tensor:
        """Positions of the images to train on: the new ones and, where there is a memory, the old ones in it."""
        return torch.cat([torch.from_numpy(task.train), self.memory.positions()])

    def loss(self, images: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy between scores and targets (batch, classes seen)."""
        return functional.cross_entropy(self(images), targets)

    def forward(self, images: Tensor) -> Tensor:
        """Scores of all classes seen."""
        return cast(Tensor, self.network(images))

    def features(self, images: Tensor) -> Tensor:
        """What herding looks at."""
        return self.network.features(images)

    def needed(self) -> Iterator[nn.Parameter]:
        """What predicting needs of all that was learned."""
        return (p for name, p in self.named_parameters() if not name.startswith("scaffold."))

    def stages(self, task: ClassTask) -> list[int]:
        """Epochs of a task's long stages of training, to tell the time left; short ones may come after them."""
        return [self.settings.plan(first=not task.index).epochs]

    def work(self, task: ClassTask) -> float:
        """About how much there is to train in a task, in images of the first: to tell the time left."""
        old = task.labels.start
        images = len(task.train) + (self.memory.share(old) * old if self.uses_memory else 0)
        return images * self.settings.plan(first=not task.index).epochs / self.settings.epochs


def distance(scores: Tensor, wanted: Tensor, temperature: float) -> Tensor:
    """Distillation (Hinton et al. 2015): KL divergence of softmax(scores / T) from softmax(wanted / T).

    The mean over the images; nought, and its gradient too, where both agree.
    """
    found = functional.log_softmax(scores.float() / temperature, dim=1)
    return functional.kl_div(found, functional.softmax(wanted.float() / temperature, dim=1), reduction="batchmean")
