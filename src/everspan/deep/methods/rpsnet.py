"""RPSNet: "Random Path Selection for Incremental Learning" (Rajasegaran et al., NeurIPS 2019).

The network is a grid: some layers, in each a few modules of the same shape. A path takes one module of every layer.
Every few tasks some random paths are tried and the best is kept; its modules are trained until the next switch and then
stay as they are. An image goes through all modules of all paths so far, whose outputs are added up in every layer.
Distillation weighs the more, the more tasks there are: that is the controller.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from ...scenarios import ClassTask
from ..backbones import conv
from ..network import ExpandableNetwork, linear, written
from ._base import FAST, STRONG, check_amounts, check_counts, distance, setting
from ._distilled import Distilled, DistilledSettings

PAPER: dict[str, Any] = {
    "epochs": 100,
    "optimiser": "adam",
    "learning_rate": 1e-3,
    "milestones": (0.2, 0.4, 0.6, 0.8),
    "decay": 0.5,
    "weight_decay": 0.0,
    "warmup": 0,
    "augment": "crop:4,flip,turn",
}
TRIED = {"epochs": 50, "trial_epochs": 5}  # a sixth of the cost


@dataclass(frozen=True)
class RPSNetSettings(DistilledSettings):
    """Of RPSNet; its network is its own, and ``backbone`` is not looked at."""

    widths: tuple[int, ...] = setting((64, 64, 64, 128, 128, 256, 256, 512, 512), "channels of the layers")
    modules: int = setting(8, "modules of a layer")
    candidates: int = setting(8, "random paths that are tried at a switch")
    trial_epochs: int | None = setting(
        None, "epochs of a trial; the best path is then trained in full, on all images (none: every trial is in full)"
    )
    tasks_per_path: int = setting(2, "tasks from one switch to the next")
    held_out_share: float = setting(0.1, "share of the images that candidates are judged on")
    rigidness: float = setting(2.5, "how fast the weight of distillation grows with the tasks")
    outputs: int | None = setting(
        None,
        "outputs that distillation compares: classes still to come count with scores of 0 (none: only classes seen)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "modules", "candidates", "trial_epochs", "tasks_per_path", "outputs")
        check_amounts(self, "rigidness")
        if not self.widths or min(self.widths) < 1:
            raise ValueError(f"widths must be numbers of channels, but they are {self.widths}")
        if not 0.0 < self.held_out_share < 1.0:
            raise ValueError(f"held_out_share must lie between 0 and 1, but it is {self.held_out_share}")


def module(inputs: int, outputs: int, first: bool) -> nn.Sequential:
    """One module: a convolution in the first layer, a residual one of two convolutions elsewhere."""
    layers: list[nn.Module] = [conv(inputs, outputs), nn.BatchNorm2d(outputs), nn.ReLU()]
    if not first:
        layers += [conv(outputs, outputs), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers)


def total(tensors: Sequence[Tensor]) -> Tensor:
    return reduce(torch.add, tensors)


class Merged:
    """The sum of modules that no longer change, as one module that is as wide as all of them.

    BatchNorm is folded into the convolutions; then first convolutions side by side, and second ones that add up over
    their inputs, say what the modules say one by one, in two large steps instead of many small ones.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self.modules = list(modules)
        self.made_of: list[list[tuple[int, int]]] = []
        self.convolutions: list[tuple[Tensor, Tensor]] = []

    def __call__(self, x: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # an export has no memory to look at
            return total([cast(Tensor, one(x)) for one in self.modules])
        if (now := [written(one) for one in self.modules]) != self.made_of:
            self.convolutions, self.made_of = self.merge(), now
        (weight, bias), *second = self.convolutions
        x = functional.relu(functional.conv2d(x, weight, bias, padding="same"))
        if second:
            return functional.conv2d(x, *second[0], padding="same")
        return total(x.chunk(len(self.modules), dim=1))  # modules of the first layer

    @torch.no_grad()
    def merge(self) -> list[tuple[Tensor, Tensor]]:
        folded = [_folded(cast(nn.Sequential, one)) for one in self.modules]
        merged = [(torch.cat([one[0][0] for one in folded]), torch.cat([one[0][1] for one in folded]))]
        if len(folded[0]) > 1:
            merged.append((torch.cat([one[1][0] for one in folded], dim=1), total([one[1][1] for one in folded])))
        return [(weight.contiguous(memory_format=torch.channels_last), bias) for weight, bias in merged]


def _folded(one: nn.Sequential) -> list[tuple[Tensor, Tensor]]:
    """Weight and bias of every convolution of a module, with the BatchNorm behind it made part of it."""
    layers = [layer for layer in one if not isinstance(layer, nn.ReLU)]
    both = [
        fuse_conv_bn_eval(cast(nn.Conv2d, a), cast(nn.BatchNorm2d, b))
        for a, b in zip(layers[::2], layers[1::2], strict=True)
    ]
    return [(fused.weight, cast(Tensor, fused.bias)) for fused in both]


class Grid(nn.Module):
    """Layers of modules, some of which are at work.

    ``path`` and ``fixed`` (layers, modules) say which modules the present path takes and which are at work from paths
    before; both are saved with the weights.
    """

    path: Tensor
    fixed: Tensor

    def __init__(self, widths: Sequence[int], modules: int, channels: int) -> None:
        super().__init__()
        self.feature_size, self.still = widths[-1], False
        sides = list(pairwise((channels, *widths)))
        self.layers = nn.ModuleList(
            nn.ModuleList(module(a, b, first=not place) for _ in range(modules)) for place, (a, b) in enumerate(sides)
        )
        wider = [place for place, (a, b) in enumerate(sides) if place and a != b]
        self.shortcuts = nn.ModuleDict(
            {
                str(place): nn.Sequential(conv(*sides[place]), nn.BatchNorm2d(sides[place][1]), nn.ReLU())
                for place in wider
            }
        )
        self.pooled = set(wider[1:])  # layers before which an image is made smaller
        self.classifier = linear(0, 0)
        for name in ("path", "fixed"):
            self.register_buffer(name, torch.zeros(len(widths), modules, dtype=torch.bool))
        self.register_load_state_dict_post_hook(lambda grid, _: grid.look())  # type: ignore[no-untyped-call]
        self.look()

    def look(self) -> None:
        """Read which modules are at work and which are trained: a recorded step cannot ask."""
        fixed = self.path | self.fixed if self.still else self.fixed
        self.trained = [row.nonzero()[:, 0].tolist() for row in self.path & ~fixed]
        self.merged: list[Merged | None] = []
        for modules, trained, row in zip(self.layers, self.trained, fixed, strict=True):
            for place, one in enumerate(cast(nn.ModuleList, modules)):
                one.requires_grad_(place in trained)
            fixed_ones = [cast(nn.ModuleList, modules)[i] for i in row.nonzero()[:, 0].tolist()]
            self.merged.append(Merged(fixed_ones) if fixed_ones else None)
        # What takes an image past the modules of a wider layer is trained with the first path, and stays with it.
        self.first = not fixed.any()
        self.shortcuts.requires_grad_(self.first)
        self.past = {name: one if self.first else Merged([one]) for name, one in self.shortcuts.items()}
        self.train(self.training)

    def take(self, path: Tensor) -> None:
        """From now on train this path."""
        self.path.copy_(path)
        self.look()

    def keep(self) -> None:
        """The present path stays as it is for good."""
        self.fixed.logical_or_(self.path)
        self.look()

    def train(self, mode: bool = True) -> Grid:
        """Modules that are not trained keep the statistics of their BatchNorm, too."""
        super().train(mode := mode and not self.still)
        self.shortcuts.train(mode and self.first)
        for modules, trained in zip(self.layers, self.trained, strict=True):
            for place, one in enumerate(cast(nn.ModuleList, modules)):
                one.train(mode and place in trained)
        return self

    def copy(self) -> Grid:
        """The grid as it is now, for good."""
        found = copy.deepcopy(self)
        found.still = True
        found.requires_grad_(False).look()
        return found

    def widen(self, classes: int) -> None:
        """Give the classifier outputs for so many classes; those there are keep their weights."""
        old = self.classifier
        self.classifier = linear(self.feature_size, classes).to(old.weight.device)
        with torch.no_grad():
            if old.out_features:
                self.classifier.weight[: old.out_features] = old.weight
                self.classifier.bias[: old.out_features] = old.bias

    def features(self, x: Tensor) -> Tensor:
        for place, (modules, trained, merged) in enumerate(zip(self.layers, self.trained, self.merged, strict=True)):
            if place in self.pooled and min(x.shape[2:]) > 1:
                x = functional.max_pool2d(x, 2)
            outputs = [cast(nn.ModuleList, modules)[i](x) for i in trained]
            if merged is not None:
                outputs.append(merged(x))
            if place:
                outputs.append(self.past[str(place)](x) if str(place) in self.past else x)
            x = functional.relu(total(outputs))
        return x.mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.classifier(self.features(x)))


class RPSNet(Distilled):
    """Random paths through a grid of modules, the best one kept every few tasks."""

    name = "rpsnet"
    uses_backbone = False
    Settings = RPSNetSettings
    settings: RPSNetSettings
    recipes = {"paper": PAPER, "short": PAPER | TRIED, "strong": STRONG | FAST | TRIED}  # noqa: RUF012

    @property
    def grid(self) -> Grid:
        """The network."""
        return cast(Grid, self.network)

    def begin(self, task: ClassTask) -> None:
        self.old = task.labels.start
        self.session = task.index
        if not self.session:
            shape = self.settings.widths, self.settings.modules, self.engine.mean.numel()
            grid = Grid(*shape).to(self.engine.device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.network = cast(ExpandableNetwork, grid)
        if self.old and not self.engine.replaying:  # the network before this task: teacher, and every candidate's start
            self.scaffold["teacher"] = self.grid.copy()
        self.grid.widen(task.seen)

    def learn(self, task: ClassTask) -> None:
        if self.engine.replaying:
            return  # no path makes a module: which modules are at work comes with the weights
        if not task.index:
            self.grid.take(self.first_path())
            self.train_path(self.rows(task))
        elif task.index % self.settings.tasks_per_path:
            self.train_path(self.rows(task))
        else:
            self.switch(task)

    def first_path(self) -> Tensor:
        path = torch.zeros_like(self.grid.path)
        path[:, 0] = True
        return path

    def random_path(self) -> Tensor:
        """One module of every layer; one that is at work already is taken as it is."""
        layers, modules = self.grid.path.shape
        return functional.one_hot(torch.randint(modules, (layers,)), modules).bool().to(self.engine.device)

    def switch(self, task: ClassTask) -> None:
        """Try some random paths from where the network is, and go on with the one that does best on held-out images.

        Where trials are short, the best path is then trained in full, on the held-out images too.
        """
        everything, trial_epochs = self.rows(task), self.trial_epochs()
        judged_on, rows = self.split(everything) if self.settings.candidates > 1 else (None, everything)
        best, highest = None, -1.0
        for _ in range(self.settings.candidates):
            path = self.random_path()
            self.start_over()
            self.grid.keep()
            self.grid.take(path)
            self.train_path(rows, trial_epochs)
            if judged_on is not None:
                reached = self.judge(judged_on)
                if reached > highest:
                    best, highest = {name: t.clone() for name, t in self.network.state_dict().items()}, reached
        if best is not None:
            self.network.load_state_dict(best)
        if trial_epochs:
            self.train_path(everything)

    def trial_epochs(self) -> int | None:
        """Epochs of a short trial; none where trials are in full, or there is nothing to choose."""
        short = self.settings.trial_epochs
        return min(short, self.settings.epochs) if short and self.settings.candidates > 1 else None

    def start_over(self) -> None:
        """Everything but the outputs for new classes becomes what it was before the task."""
        before = cast(Grid, self.scaffold["teacher"])
        state = {name: t for name, t in before.state_dict().items() if not name.startswith("classifier.")}
        self.network.load_state_dict(state, strict=False)
        with torch.no_grad():
            for mine, old in (
                (self.grid.classifier.weight, before.classifier.weight),
                (self.grid.classifier.bias, before.classifier.bias),
            ):
                mine[: self.old] = old
                nn.init.zeros_(mine[self.old :])

    def split(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A share of every class's images, and the rest."""
        labels = self.engine.labels.cpu()[rows]
        held = torch.zeros(len(rows), dtype=torch.bool)
        for label in set(labels.tolist()):
            own = (labels == label).nonzero()[:, 0]
            if len(own) < 2:
                continue  # its only image is for learning
            held[own[torch.randperm(len(own))[: max(1, int(self.settings.held_out_share * len(own)))]]] = True
        return rows[held], rows[~held]

    def judge(self, rows: Tensor) -> float:
        """The mean of the classes' accuracies."""
        rows = rows.to(self.engine.device)
        labels = self.engine.labels[rows]
        right = (self.engine.scores(self, self.engine.images[rows]).argmax(dim=1) == labels).double()
        counts = torch.bincount(labels)
        return float((torch.bincount(labels, weights=right)[counts > 0] / counts[counts > 0]).mean())

    def train_path(self, rows: Tensor, epochs: int | None = None) -> None:
        changes = {"epochs": epochs, "warmup": min(self.settings.warmup, epochs // 4)} if epochs else {}
        plan = self.settings.plan(first=not self.session, **changes)
        self.engine.train(self, self.loss, rows, plan, self.network.parameters, fixed=self.taught)

    def loss(self, images: Tensor, targets: Tensor, taught: Tensor | None = None) -> Tensor:
        """Cross-entropy, and the distance to the teacher's scores of old classes with the labels as scores of new ones.

        The labels, which are small beside scores, keep new classes from outgrowing old ones; so do the zeros of classes
        to come, where the network is to have outputs for them.
        """
        scores = self(images).float()
        loss = functional.cross_entropy(scores, targets)
        if self.old:
            wanted = self.taught(images) if taught is None else taught
            wanted = torch.cat([wanted.float(), targets[:, self.old :]], dim=1)
            to_come = (0, max((self.settings.outputs or 0) - scores.shape[1], 0))
            both = functional.pad(scores, to_come), functional.pad(wanted, to_come)
            loss = loss + self.controller() * distance(*both, self.settings.temperature)
        return loss

    def controller(self) -> float:
        """The weight of distillation: one at first, then the larger the more tasks there were."""
        later = self.session - self.settings.tasks_per_path
        return 1.0 if later <= 0 else self.settings.rigidness * later

    def needed(self) -> Iterator[nn.Parameter]:
        """Without the modules that are on no path."""
        idle = set[nn.Parameter]()
        for modules, row in zip(self.grid.layers, (self.grid.path | self.grid.fixed).tolist(), strict=True):
            for one, at_work in zip(cast(nn.ModuleList, modules), row, strict=True):
                idle |= set() if at_work else set(one.parameters())
        return (parameter for parameter in super().needed() if parameter not in idle)

    def stages(self, task: ClassTask) -> list[int]:
        full = super().stages(task)
        if not task.index or task.index % self.settings.tasks_per_path:
            return full
        short = self.trial_epochs()
        return self.settings.candidates * [short] + full if short else self.settings.candidates * full

    def work(self, task: ClassTask) -> float:
        paths = 1 + task.index // self.settings.tasks_per_path
        return super().work(task) * sum(self.stages(task)) / sum(super().stages(task)) * (1 + paths) / 2
