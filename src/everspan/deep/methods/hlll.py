"""H-LLL, the paper's lifelong learning heuristic for deep networks (Section 2.3).

For task i a separate encoder f_i is learned while f_1, ..., f_{i-1} stay frozen; the representation is the
concatenation v_i(x) = (f_1(x), ..., f_i(x)); the loss is the cross-entropy of one classifier over it, on the new data
D_i and the memory M_i. Then the classifier alone is learned again, with a heated-up softmax on a balanced set.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn import functional

from ...scenarios import ClassTask
from ..network import linear
from ._base import FAST, STRONG, Method, check_amounts, check_counts, distance, setting
from ._turned import Turned, TurnedSettings

BEST = STRONG | {
    "start": "previous",
    "auxiliary": 1.0,
    "rotation": 0.5,
    "balanced_softmax": 1.0,
    "distillation": 1.0,
    "classifier": "kept",
}


@dataclass(frozen=True)
class HLLLSettings(TurnedSettings):
    """Of H-LLL; the defaults are the paper's recipe, its schedule that of DER, which the paper follows."""

    start: Literal["scratch", "previous"] = setting("scratch", "weights a new encoder starts from")
    auxiliary: float = setting(0.0, "weight of the new encoder's own loss: new classes, and one for all old (DER)")
    balanced_softmax: float = setting(0.0, "times the classes' log frequencies, added to the scores in training")
    distillation: float = setting(0.0, "weight of staying near what the network before said of old classes")
    distillation_temperature: float = setting(2.0, "what scores are divided by where they are compared")
    classifier: Literal["heated", "kept"] = setting("heated", "re-train the classifier on a balanced set, or keep it")
    temperature: float = setting(5.0, "what the scores are divided by when the classifier is re-trained")
    classifier_epochs: int = setting(30, "epochs in which it is re-trained")
    classifier_learning_rate: float = setting(0.1, "its learning rate, a tenth of it from half of the epochs on")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amounts(self, "temperature", "distillation_temperature", above=True)
        check_amounts(self, "classifier_learning_rate", "auxiliary", "balanced_softmax", "distillation")
        check_counts(self, "classifier_epochs")


class HLLL(Method):
    """A new encoder a task beside frozen ones."""

    name = "hlll"
    Settings = HLLLSettings
    recipes = {"paper": {}, "best": BEST, "fast": BEST | FAST | {"rotation": 0.0}}  # noqa: RUF012
    settings: HLLLSettings
    log_frequencies: Tensor

    def begin(self, task: ClassTask) -> None:
        if self.settings.distillation and task.index:
            self.scaffold["teacher"] = copy.deepcopy(self.network.classifier).requires_grad_(False)
        if self.settings.start == "previous" and task.index:
            self.network.grow(start=self.scaffold["previous"])
        else:
            self.network.grow()
        self.network.widen(task.seen)
        self.old = task.labels.start
        width, own = cast(int, self.network.newest.feature_size), len(task.labels) + bool(self.old)
        if self.settings.auxiliary:
            self.scaffold["auxiliary"] = linear(width, own).to(self.engine.device)
        if self.settings.rotation:
            self.scaffold["turned"] = Turned(width, own, self.engine.images.shape).to(self.engine.device)
        self.register_buffer("log_frequencies", torch.zeros(task.seen, device=self.engine.device))

    def learn(self, task: ClassTask) -> None:
        rows = self.rows(task)
        self.count(rows)
        self.engine.train(self, self.loss, rows, self.settings.plan(first=not task.index), fixed=self.old_features)
        if self.settings.start == "previous":
            self.scaffold["previous"] = copy.deepcopy(self.network.newest).requires_grad_(False)
        self.network.freeze()
        if self.settings.classifier == "heated" and task.index:
            self.retrain_classifier(task)

    def count(self, rows: Tensor) -> None:
        """Take the class frequencies of balanced softmax from the images of a stage of training."""
        labels = self.engine.labels[rows.to(self.engine.device)]
        counts = torch.bincount(labels, minlength=len(self.log_frequencies))
        self.log_frequencies.copy_((counts / counts.sum()).log())

    def old_features(self, images: Tensor) -> Tensor:
        """f_1(x), ..., f_{i-1}(x), which stay as they are."""
        features = [encoder(images) for encoder in list(self.network.encoders)[:-1]]
        return torch.cat(features, dim=1) if features else images.new_zeros(len(images), 0)

    def loss(self, images: Tensor, targets: Tensor, old_features: Tensor | None = None) -> Tensor:
        if self.settings.rotation:
            new, turned = cast(Turned, self.scaffold["turned"]).features(self.network.newest, images)
        else:
            new, turned = self.network.newest(images), None
        old = self.old_features(images) if old_features is None else old_features
        scores = self.network.classifier(torch.cat([old, new], dim=1)).float()
        loss = functional.cross_entropy(scores + self.settings.balanced_softmax * self.log_frequencies, targets)
        own = targets[:, self.old :]
        if self.old:
            own = torch.cat([targets[:, : self.old].sum(dim=1, keepdim=True), own], dim=1)
        if self.settings.auxiliary:
            own_scores = self.scaffold["auxiliary"](new).float()
            loss = loss + self.settings.auxiliary * functional.cross_entropy(own_scores, own)
        if turned is not None:
            loss = loss + self.settings.rotation * cast(Turned, self.scaffold["turned"]).loss(new, turned, own)
        if self.settings.distillation and self.old:
            loss = loss + self.settings.distillation * self.forgetting(scores[:, : self.old], old)
        return loss

    def forgetting(self, scores: Tensor, old_features: Tensor) -> Tensor:
        """How far the old classes' probabilities are from those of the network before this task, by its share."""
        temperature = self.settings.distillation_temperature
        with torch.no_grad():
            wanted = self.scaffold["teacher"](old_features).float()
        share = self.old / len(self.log_frequencies)
        return share * temperature**2 * distance(scores, wanted, temperature)

    def retrain_classifier(self, task: ClassTask) -> None:
        """Learn W_cls again, on as many images of every class (Castro et al. 2018), at a higher temperature."""
        self.network.new_classifier()
        plan = self.settings.plan(
            epochs=self.settings.classifier_epochs,
            learning_rate=self.settings.classifier_learning_rate,
            schedule="steps",
            warmup=0,
            milestones=(0.5,),
        )
        trained = self.network.classifier.parameters()
        self.engine.train(self, self.heated_loss, self.balanced(task), plan, trained, fixed=self.features)

    def heated_loss(self, images: Tensor, targets: Tensor, features: Tensor | None = None) -> Tensor:
        """Cross-entropy of softmax(W_cls v(x) / temperature) (Zhang et al. 2018)."""
        scores = self.network.classifier(self.features(images) if features is None else features).float()
        return functional.cross_entropy(scores / self.settings.temperature, targets)

    def balanced(self, task: ClassTask) -> Tensor:
        """The memory, and as many images of every new class as it has of an old one."""
        if self.engine.replaying:
            return torch.zeros(0, dtype=torch.long)
        labels = self.engine.labels.cpu()
        old = self.memory.positions()
        counts = torch.bincount(labels[old], minlength=task.seen)[: task.labels.start]
        fewest = int(min([*counts.tolist(), *(int((labels == label).sum()) for label in task.labels)]))
        chosen = [old[labels[old] == label][:fewest] for label in range(task.labels.start)]
        for label in task.labels:
            rows = (labels == label).nonzero()[:, 0]
            chosen.append(rows[torch.randperm(len(rows))[:fewest]])
        return torch.cat(chosen)

    def work(self, task: ClassTask) -> float:
        return super().work(task) * (1.0 + task.index / 7.0)  # a frozen forward takes about a seventh of a step
