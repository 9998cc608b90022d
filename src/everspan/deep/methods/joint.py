"""Joint training: a new network on all images of all classes seen, at every step. The ceiling of every comparison."""

from __future__ import annotations

from torch import Tensor

from ...scenarios import ClassTask
from ..network import ExpandableNetwork
from ._base import STRONG, Method


class Joint(Method):
    """What could be reached if nothing had to be given up: all data are there at every step."""

    name = "joint"
    recipes = {"paper": {}, "best": STRONG}  # noqa: RUF012
    uses_memory = False

    def begin(self, task: ClassTask) -> None:
        self.network = ExpandableNetwork(self.factory).to(self.engine.device)
        super().begin(task)

    def rows(self, task: ClassTask) -> Tensor:
        return (self.engine.labels < task.seen).nonzero()[:, 0]

    def work(self, task: ClassTask) -> float:
        return len(self.rows(task)) * self.settings.plan(first=not task.index).epochs / self.settings.epochs
