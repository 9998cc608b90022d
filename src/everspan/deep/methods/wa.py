"""WA: "Maintaining Discrimination and Fairness in Class Incremental Learning" (Zhao et al., CVPR 2020).

A network trained with few old images gives new classes longer weights, and so higher scores. Distillation keeps old
classes apart from each other; then the new classes' weights are made as long, in the mean, as the old ones'. Features
are never negative, so where no weight is either (``positive_weights``), long weights are large scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...scenarios import ClassTask
from ._base import GOES_ON, STRONG, setting
from ._distilled import Distilled, DistilledSettings


@dataclass(frozen=True)
class WASettings(DistilledSettings):
    """Of WA."""

    positive_weights: bool = setting(False, "let no weight of the classifier fall below zero while it is trained")


class WA(Distilled):
    """Distillation, then weight aligning."""

    name = "wa"
    Settings = WASettings
    settings: WASettings
    recipes = {  # noqa: RUF012
        "paper": {"milestones": (100 / 170, 120 / 170)},
        "strong": STRONG | GOES_ON | {"positive_weights": True},
    }

    def learn(self, task: ClassTask) -> None:
        plan, clip = self.settings.plan(first=not task.index), self.clip if self.settings.positive_weights else None
        self.engine.train(self, self.loss, self.rows(task), plan, fixed=self.taught, after=clip)
        if self.old:
            self.align()

    @torch.no_grad()
    def clip(self) -> None:
        """A weight below zero becomes zero."""
        self.network.classifier.weight.clamp_(min=0.0)

    @torch.no_grad()
    def align(self) -> None:
        """W_new becomes W_new * mean |w_old| / mean |w_new|."""
        weights = self.network.classifier.weight
        lengths = torch.linalg.vector_norm(weights, dim=1)
        weights[self.old :] *= lengths[: self.old].mean() / lengths[self.old :].mean().clamp(min=1e-12)
