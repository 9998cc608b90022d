"""What iCaRL, BiC, WA and RPSNet share: one network, taught by what it was before the task."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor
from torch.nn import functional

from ...scenarios import ClassTask
from ..descent import Plan
from ..network import ExpandableNetwork
from ._base import Method, MethodSettings, check_amounts, check_milestones, distance, setting


@dataclass(frozen=True)
class DistilledSettings(MethodSettings):
    """Of a method with a teacher; the first task, which has none, may be trained in another way."""

    first_milestones: tuple[float, ...] | None = setting(None, "milestones of the first task, where they are others")
    first_weight_decay: float | None = setting(None, "weight decay of the first task, where it is another")
    temperature: float = setting(2.0, "what scores are divided by where teacher and network are compared")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amounts(self, "temperature", above=True)
        check_amounts(self, "first_weight_decay")
        check_milestones("first_milestones", self.first_milestones)

    def plan(self, first: bool = False, **changes: Any) -> Plan:
        own = {"milestones": self.first_milestones, "weight_decay": self.first_weight_decay} if first else {}
        return super().plan(first, **({name: v for name, v in own.items() if v is not None} | changes))


class Distilled(Method):
    """One network for all tasks; a copy of it from before the task says what it knew."""

    Settings = DistilledSettings
    settings: DistilledSettings

    def begin(self, task: ClassTask) -> None:
        self.old = task.labels.start
        if self.old and not self.engine.replaying:  # when a run is rebuilt, ``end`` would drop it at once
            self.scaffold["teacher"] = self.frozen_copy()
        super().begin(task)

    def frozen_copy(self) -> ExpandableNetwork:
        """The network as it is now, for good."""
        network = copy.deepcopy(self.network)
        network.freeze()
        return network.requires_grad_(False)

    def learn(self, task: ClassTask) -> None:
        self.engine.train(self, self.loss, self.rows(task), self.settings.plan(first=not task.index), fixed=self.taught)

    def end(self, task: ClassTask) -> None:
        if "teacher" in self.scaffold:
            del self.scaffold["teacher"]  # it has done its work, and would double the checkpoint

    def taught(self, images: Tensor) -> Tensor:
        """What the network before this task says of the old classes."""
        if not self.old:
            return images.new_zeros(len(images), 0)
        return cast(Tensor, self.scaffold["teacher"](images))

    def loss(self, images: Tensor, targets: Tensor, taught: Tensor | None = None) -> Tensor:
        """Cross-entropy, and the distance to the teacher, weighed by the share of classes it knows."""
        scores = self.trained_scores(images)
        loss = functional.cross_entropy(scores, targets)
        if not self.old:
            return loss
        share = self.old / scores.shape[1]
        return (1.0 - share) * loss + share * self.forgotten(scores, self.taught(images) if taught is None else taught)

    def trained_scores(self, images: Tensor) -> Tensor:
        """The scores that the loss looks at."""
        return cast(Tensor, self.network(images)).float()

    def forgotten(self, scores: Tensor, taught: Tensor) -> Tensor:
        """How far the scores of old classes are from the teacher's."""
        return distance(scores[:, : self.old], taught, self.settings.temperature)

    def work(self, task: ClassTask) -> float:
        return super().work(task) * (1.15 if task.index else 1.0)  # the teacher's forward pass
