"""Joint training: a new network on all images of all classes seen, at every step. The ceiling of every comparison."""

from __future__ import annotations

from typing import cast

from torch import Tensor
from torch.nn import functional

from ...scenarios import ClassTask
from ..network import ExpandableNetwork
from ._base import STRONG, Method
from ._turned import Turned, TurnedSettings


class Joint(Method):
    """What could be reached if nothing had to be given up: all data are there at every step."""

    name = "joint"
    Settings = TurnedSettings
    settings: TurnedSettings
    recipes = {"paper": {}, "best": STRONG | {"rotation": 0.5}}  # noqa: RUF012
    uses_memory = False

    def begin(self, task: ClassTask) -> None:
        self.network = ExpandableNetwork(self.factory).to(self.engine.device)
        super().begin(task)
        if self.settings.rotation:
            head = Turned(self.network.feature_size, task.seen, self.engine.images.shape)
            self.scaffold["turned"] = head.to(self.engine.device)

    def loss(self, images: Tensor, targets: Tensor) -> Tensor:
        if not self.settings.rotation:
            return super().loss(images, targets)
        head = cast(Turned, self.scaffold["turned"])
        upright, turned = head.features(self.network.newest, images)
        loss = functional.cross_entropy(self.network.classifier(upright).float(), targets)
        return loss + self.settings.rotation * head.loss(upright, turned, targets)

    def rows(self, task: ClassTask) -> Tensor:
        return (self.engine.labels < task.seen).nonzero()[:, 0]

    def work(self, task: ClassTask) -> float:
        return len(self.rows(task)) * self.settings.plan(first=not task.index).epochs / self.settings.epochs
