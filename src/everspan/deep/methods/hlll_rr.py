"""H-LLL with representation refinement (Sections 2.2 and 2.3): at most ``encoders`` encoders after every task.

A task adds an encoder f_t beside the frozen ones, exactly as in H-LLL. When there is one encoder too many, refinement
replaces an old encoder g by an encoder g', and f_t is removed; the old encoders take turns. What is left must know what
all of these knew. The linear theory asks for a small subspace V' near every learned feature. Here it becomes a loss of
three terms:

- the share of the variance of g(x) and f_t(x) that a linear map of g'(x) does not explain (``feature_matching``);
- the distance to the class probabilities of the unrefined network (distillation, Hinton et al. 2015);
- cross-entropy with the labels and a balanced softmax (``refine_labels``).

g' starts from the weights of g, so that it reproduces g before the first step. The images are those of the task and of
the memory, strongly augmented and mixed. The unrefined network answers for the same augmented image (Beyer et al.
2022). With ``refined="all"`` every refinement trains all encoders.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...scenarios import ClassTask
from ..augment import Augmentation
from ..network import ExpandableNetwork, linear
from ._base import FAST, check_amounts, check_counts, distance, setting
from .hlll import BEST, HLLL, HLLLSettings


@dataclass(frozen=True)
class HLLLRRSettings(HLLLSettings):
    """Settings of H-LLL, and of the refinement after every task."""

    encoders: int = setting(2, "encoders that are kept after every task")
    refined: Literal["in-turn", "all"] = setting("in-turn", "encoders that a refinement trains: one in turn, or all")
    refine_epochs: int = setting(170, "epochs of a refinement")
    refine_learning_rate: float = setting(0.1, "largest learning rate of a refinement")
    refine_weight_decay: float = setting(5e-4, "weight decay of a refinement")
    refine_temperature: float = setting(2.0, "temperature at which the two networks' probabilities are compared")
    refine_memory: int = setting(1, "times that a refinement sees an old image per epoch")
    refine_labels: float = setting(1.0, "weight of the cross-entropy with the true labels in a refinement")
    refine_augment: str | None = setting(None, "augmentation of a refinement; none given: that of training")
    feature_matching: float = setting(2.0, "weight of reproducing the old features by a linear map of the new ones")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, "encoders", "refine_epochs", "refine_memory")
        check_amounts(self, "refine_temperature", above=True)
        check_amounts(self, "refine_learning_rate", "refine_weight_decay", "refine_labels", "feature_matching")
        Augmentation.parse(self.refine_augment or "none")


class HLLLRR(HLLL):
    """A new encoder for every task, then a refinement into a fixed number of encoders."""

    name = "hlll-rr"
    Settings = HLLLRRSettings
    recipes = {  # noqa: RUF012
        "paper": {},
        "best": BEST,
        "fast": BEST | FAST | {"rotation": 0.0, "refine_epochs": 52},
    }
    settings: HLLLRRSettings

    def learn(self, task: ClassTask) -> None:
        if not task.index:
            self.scaffold["trainable"] = nn.ModuleList()  # the kept encoders before BatchNorm is folded
        trained = self.network.newest
        super().learn(task)
        trainable = cast(nn.ModuleList, self.scaffold["trainable"])
        if len(self.network.encoders) <= self.settings.encoders:
            trainable.append(copy.deepcopy(trained).requires_grad_(False))
        else:
            self.refine(task, trainable)
        if self.settings.start == "previous":
            self.scaffold["previous"] = trainable[task.index % self.settings.encoders]

    def refine(self, task: ClassTask, trainable: nn.ModuleList) -> None:
        """Replace old encoders g and the newest one f_t by new encoders g' that know what all of these know."""
        kept = self.settings.encoders
        self.places = list(range(kept)) if self.settings.refined == "all" else [task.index % kept]
        self.scaffold["unrefined"] = unrefined = self.network
        self.network = unrefined.without_newest()
        students = [self.network.restart(place, trainable[place]) for place in self.places]
        size = sum(cast(int, student.feature_size) for student in students)
        self.scaffold["map"] = mapping = linear(size, size + cast(int, unrefined.newest.feature_size))
        with torch.no_grad():
            mapping.weight[:size], mapping.weight[size:] = torch.eye(size), 0.0  # g' is g, and knows nothing of f_t
        mapping.bias.requires_grad_(False)  # means are not compared
        mapping.to(self.engine.device)
        unrefined.requires_grad_(False)
        if self.settings.refine_augment is not None:
            self.engine.augmentation = Augmentation.parse(self.settings.refine_augment)
        rows = torch.cat([torch.from_numpy(task.train), self.memory.positions().repeat(self.settings.refine_memory)])
        self.count(rows)
        trained = [p for module in (*students, self.network.classifier, mapping) for p in module.parameters()]
        plan = self.settings.plan(
            epochs=self.settings.refine_epochs,
            learning_rate=self.settings.refine_learning_rate,
            weight_decay=self.settings.refine_weight_decay,
        )
        self.engine.train(self, self.refining_loss, rows, plan, trained, fixed=unrefined.features)
        for place, student in zip(self.places, students, strict=True):
            trainable[place] = copy.deepcopy(student).requires_grad_(False)
            self.network.freeze(place)
        del self.scaffold["unrefined"], self.scaffold["map"]

    def refining_loss(self, images: Tensor, targets: Tensor, unrefined: Tensor) -> Tensor:
        """Distance between what the refined and the unrefined network say of the same images."""
        teacher = cast(ExpandableNetwork, self.scaffold["unrefined"])
        sizes = [cast(int, encoder.feature_size) for encoder in teacher.encoders]
        *features, newest = torch.split(unrefined, sizes, dim=1)
        with torch.no_grad():
            wanted = teacher.classifier(unrefined).float()
        wanted_features = [*(features[place] for place in self.places), newest]
        for place in self.places:
            features[place] = self.network.encoders[place](images)
        scores = self.network.classifier(torch.cat(features, dim=1)).float()
        temperature = self.settings.refine_temperature
        loss = temperature**2 * distance(scores, wanted, temperature)
        if self.settings.feature_matching:
            refined = torch.cat([standardised(features[place]) for place in self.places], dim=1)
            found = torch.split(self.scaffold["map"](refined), [part.shape[1] for part in wanted_features], dim=1)
            pairs = zip(found, map(standardised, wanted_features), strict=True)
            parts = [(f - w).square().sum(dim=1).mean() for f, w in pairs]
            loss = loss + self.settings.feature_matching * torch.stack(parts).sum()
        if self.settings.refine_labels:
            corrected = scores + self.settings.balanced_softmax * self.log_frequencies
            loss = loss + self.settings.refine_labels * functional.cross_entropy(corrected, targets)
        return loss

    def stages(self, task: ClassTask) -> list[int]:
        refined = [self.settings.refine_epochs] if task.index >= self.settings.encoders else []
        return [*super().stages(task), *refined]

    def work(self, task: ClassTask) -> float:
        frozen = min(task.index, self.settings.encoders)
        learned = super().work(task) * (1.0 + frozen / 7.0) / (1.0 + task.index / 7.0)
        refined = self.settings.refine_epochs / self.settings.epochs if task.index >= self.settings.encoders else 0.0
        return learned * (1.0 + refined)


def standardised(features: Tensor) -> Tensor:
    """Features with a mean of zero and a total variance of one over the batch.

    The squared error of a linear map between standardised features is the share of the variance that it leaves
    unexplained. Its curvature is at most 2, whatever the scales of the two encoders.
    """
    centred = features.float() - features.float().mean(dim=0)
    variance = centred.square().sum(dim=1).mean()
    return centred * variance.clamp(min=1e-6 * features.shape[1]).rsqrt()  # at least: an encoder may be dead
