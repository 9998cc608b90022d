"""BiC: "Large Scale Incremental Learning" (Wu et al., CVPR 2019).

A few of the old and of the new images are held out. The network is trained on the rest, with distillation; then a layer
of two numbers, score -> alpha * score + beta for the new classes alone, is fitted on the held-out ones, of which every
class has as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...scenarios import ClassTask
from ._base import GOES_ON, STRONG, check_amounts, check_counts, setting
from ._distilled import Distilled, DistilledSettings


@dataclass(frozen=True)
class BiCSettings(DistilledSettings):
    """Of BiC."""

    held_out_share: float = setting(0.1, "share of the memory that is held out to fit the bias")
    bias_epochs: int = setting(200, "epochs in which the bias is fitted")
    bias_learning_rate: float = setting(0.1, "its learning rate")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.held_out_share < 1.0:
            raise ValueError(f"held_out_share must lie between 0 and 1, but it is {self.held_out_share}")
        check_counts(self, "bias_epochs")
        check_amounts(self, "bias_learning_rate")


class Bias(nn.Module):
    """alpha * score + beta, for the classes of one task."""

    def __init__(self, classes: range) -> None:
        super().__init__()
        self.classes = classes
        self.alpha, self.beta = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(()))

    def forward(self, scores: Tensor) -> Tensor:
        own = self.alpha * scores[:, self.classes.start : self.classes.stop] + self.beta
        return torch.cat([scores[:, : self.classes.start], own, scores[:, self.classes.stop :]], dim=1)


class BiC(Distilled):
    """Distillation, then a correction of the new classes' scores."""

    name = "bic"
    Settings = BiCSettings
    settings: BiCSettings
    recipes = {  # noqa: RUF012
        "paper": {"epochs": 170, "milestones": (60 / 170, 100 / 170, 140 / 170), "weight_decay": 2e-4, "warmup": 0},
        "strong": STRONG | GOES_ON,
    }

    def begin(self, task: ClassTask) -> None:
        if not task.index:
            self.biases = nn.ModuleList()
        super().begin(task)
        self.biases.append(Bias(task.labels).to(self.engine.device))

    def learn(self, task: ClassTask) -> None:
        rows, held_out = self.rows(task), self.held_out(task)
        rows = rows[~torch.isin(rows, held_out)]
        plan = self.settings.plan(first=not task.index)
        self.engine.train(self, self.loss, rows, plan, self.network.parameters(), fixed=self.taught)
        if len(held_out):
            self.fit_bias(held_out)

    def held_out(self, task: ClassTask) -> Tensor:
        """As many images of every class, old and new: a share of what the memory has of an old one.

        None where a class has one image only: there is no bias then to be fitted.
        """
        if not self.old or self.engine.replaying:
            return torch.zeros(0, dtype=torch.long)
        labels, memory = self.engine.labels.cpu(), self.memory.positions()
        fewest = int(torch.bincount(labels[memory], minlength=self.old).min())
        fewest = min([fewest, *(int((labels == label).sum()) for label in task.labels)])
        each = max(1, int(self.settings.held_out_share * fewest)) if fewest > 1 else 0
        chosen = []
        for label in range(task.seen):
            own = memory[labels[memory] == label] if label < self.old else (labels == label).nonzero()[:, 0]
            chosen.append(own[torch.randperm(len(own))[:each]])
        return torch.cat(chosen)

    def fit_bias(self, held_out: Tensor) -> None:
        """Stage two: alpha and beta of the new classes, with everything else as it is."""
        scores_of = self.frozen_copy()
        plan = self.settings.plan(
            epochs=self.settings.bias_epochs,
            learning_rate=self.settings.bias_learning_rate,
            weight_decay=0.0,
            schedule="cosine",
            warmup=0,
            unmixed=1.0,  # a mixed image says little about the bias of one that is not
        )

        def loss(images: Tensor, targets: Tensor, scores: Tensor) -> Tensor:
            return functional.cross_entropy(self.corrected(scores.float()), targets)

        self.engine.train(self, loss, held_out, plan, self.biases[-1].parameters(), fixed=scores_of)

    def corrected(self, scores: Tensor) -> Tensor:
        """The scores, every task's through its own two numbers."""
        for bias in self.biases:
            scores = bias(scores)
        return scores

    def forward(self, images: Tensor) -> Tensor:
        return self.corrected(cast(Tensor, self.network(images)))

    def trained_scores(self, images: Tensor) -> Tensor:
        return self.forward(images).float()

    def taught(self, images: Tensor) -> Tensor:
        scores = super().taught(images)
        for bias in list(self.biases)[:-1]:
            scores = bias(scores)
        return scores
