"""iCaRL: "Incremental Classifier and Representation Learning" (Rebuffi et al., CVPR 2017).

The network is trained with distillation on new images and exemplars chosen by herding; an image gets the class whose
exemplars' mean is nearest to it in the space of features scaled to length one. Its losses are of sigmoids, one a class;
later implementations have softmax instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ...scenarios import ClassTask
from ._base import STRONG, setting
from ._distilled import Distilled, DistilledSettings


@dataclass(frozen=True)
class ICaRLSettings(DistilledSettings):
    """Of iCaRL."""

    losses: Literal["sigmoids", "softmax"] = setting("sigmoids", "every class for itself, or one against the others")


class ICaRL(Distilled):
    """Herding, distillation, and the nearest mean of exemplars."""

    name = "icarl"
    Settings = ICaRLSettings
    settings: ICaRLSettings
    recipes = {  # noqa: RUF012
        "paper": {  # the authors' rate of 2 and penalty of 1e-5 go with the mean over 100 classes; this is with the sum
            "epochs": 70,
            "learning_rate": 2.0 / 100,
            "milestones": (49 / 70, 63 / 70),
            "decay": 0.2,
            "weight_decay": 2 * 1e-5 * 100,
            "warmup": 0,
            "augment": "crop:4,flip",
        },
        "softmax": {
            "losses": "softmax",
            "first_epochs": 200,
            "first_milestones": (0.3, 0.6, 0.85),
            "first_weight_decay": 5e-4,
            "epochs": 170,
            "milestones": (80 / 170, 120 / 170),
            "weight_decay": 2e-4,
            "warmup": 0,
        },
        "strong": STRONG | {"losses": "softmax"},
    }
    means: Tensor

    def loss(self, images: Tensor, targets: Tensor, taught: Tensor | None = None) -> Tensor:
        """New classes are what the labels say, old ones are what the teacher says, of old images too.

        With softmax: cross-entropy over all classes and the distance to the teacher, both in full.
        """
        scores = self.trained_scores(images)
        taught = self.taught(images) if taught is None else taught
        if self.settings.losses == "sigmoids":
            targets = torch.cat([taught.float().sigmoid(), targets[:, self.old :]], dim=1)
            return functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum") / len(images)
        loss = functional.cross_entropy(scores, targets)
        return loss + self.forgotten(scores, taught) if self.old else loss

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
