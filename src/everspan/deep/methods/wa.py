"""WA: "Maintaining Discrimination and Fairness in Class Incremental Learning" (Zhao et al., CVPR 2020).

A network trained with few old images gives new classes longer weights, and so higher scores. Distillation keeps old
classes apart from each other; then the new classes' weights are made as long, in the mean, as the old ones'. The
authors also keep all weights of the classifier positive while it is trained; here they are free.
"""

from __future__ import annotations

import torch

from ...scenarios import ClassTask
from ._base import GOES_ON, STRONG
from ._distilled import Distilled


class WA(Distilled):
    """Distillation, then weight aligning."""

    name = "wa"
    recipes = {  # noqa: RUF012
        "paper": {"milestones": (100 / 170, 120 / 170)},
        "strong": STRONG | GOES_ON,
    }

    def learn(self, task: ClassTask) -> None:
        super().learn(task)
        if self.old:
            self.align()

    @torch.no_grad()
    def align(self) -> None:
        """W_new becomes W_new * mean |w_old| / mean |w_new|."""
        weights = self.network.classifier.weight
        lengths = torch.linalg.vector_norm(weights, dim=1)
        weights[self.old :] *= lengths[: self.old].mean() / lengths[self.old :].mean().clamp(min=1e-12)
