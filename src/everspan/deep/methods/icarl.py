"""iCaRL: "Incremental Classifier and Representation Learning" (Rebuffi et al., CVPR 2017).

The network is trained with distillation on new images and exemplars chosen by herding; an image gets the class whose
exemplars' mean is nearest to it in the space of features scaled to length one. The paper's losses are of sigmoids;
these are of softmax, as in later implementations.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ...scenarios import ClassTask
from ._base import STRONG
from ._distilled import Distilled


class ICaRL(Distilled):
    """Herding, distillation, and the nearest mean of exemplars."""

    name = "icarl"
    recipes = {  # noqa: RUF012
        "paper": {
            "first_epochs": 200,
            "first_milestones": (0.3, 0.6, 0.85),
            "first_weight_decay": 5e-4,
            "epochs": 170,
            "milestones": (80 / 170, 120 / 170),
            "weight_decay": 2e-4,
            "warmup": 0,
        },
        "strong": STRONG,
    }
    means: Tensor

    def loss(self, images: Tensor, targets: Tensor, taught: Tensor | None = None) -> Tensor:
        """Cross-entropy and the distance to the teacher, both in full."""
        scores = self.trained_scores(images)
        loss = functional.cross_entropy(scores, targets)
        if self.old:
            loss = loss + self.forgotten(scores, self.taught(images) if taught is None else taught)
        return loss

    def end(self, task: ClassTask) -> None:
        """The mean of every class's exemplars, all of them seen with the features there are now."""
        super().end(task)
        width = self.network.feature_size
        means = torch.zeros(task.seen, width, device=self.engine.device)
        for label, rows in enumerate(self.memory.rows):
            if rows:
                features = self.engine.features(self, torch.tensor(rows), width)
                means[label] = functional.normalize(features, dim=1).mean(dim=0)
        self.register_buffer("means", functional.normalize(means, dim=1))

    def forward(self, images: Tensor) -> Tensor:
        """Minus the squared distance to every class's mean."""
        features = functional.normalize(self.features(images).float(), dim=1)
        lengths = features.square().sum(dim=1, keepdim=True) + self.means.square().sum(dim=1)
        return 2.0 * features @ self.means.T - lengths
