"""How weights go down: the plan of a stage of training, and an optimiser whose steps can be recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd


@dataclass(frozen=True)
class Plan:
    """How one stage of training goes: stochastic gradient descent, or Adam, with a warm-up and a schedule."""

    epochs: int
    optimiser: Literal["sgd", "adam"] = "sgd"
    batch_size: int = 128
    learning_rate: float = 0.1
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 5e-4
    schedule: Literal["steps", "cosine"] = "steps"
    warmup: int = 0
    milestones: tuple[float, ...] = (0.65, 0.76)
    decay: float = 0.1
    unmixed: float = 0.0

    def rates(self, steps: int) -> Tensor:
        """The learning rate of every step: ``steps`` an epoch, for all epochs."""
        begun = torch.arange(self.epochs * steps, dtype=torch.float64) / steps
        epoch = begun + 1.0 / steps
        if self.schedule == "cosine":  # by where a step begins: the last one, too, has a rate above zero
            after = (begun - self.warmup).clamp(min=0.0) / max(self.epochs - self.warmup, 1)
            rates = 0.5 * (1.0 + torch.cos(torch.pi * after))
        else:
            passed = torch.stack([epoch > share * self.epochs for share in self.milestones] or [epoch < 0.0])
            rates = self.decay ** passed.sum(dim=0)
        if self.warmup:
            rates = rates * (epoch / self.warmup).clamp(max=1.0)
        return (self.learning_rate * rates).float()


class Descent:
    """Gradient descent with momentum and weight decay, or Adam; its rate is in a tensor that a recorded step can read.

    ``momentum`` is all that it remembers from step to step.
    """

    def __init__(self, parameters: list[nn.Parameter], plan: Plan, device: torch.device) -> None:
        self.parameters: list[Tensor] = list(parameters)
        self.plan = plan
        self.rate = torch.zeros((), device=device)
        self.momentum = [torch.zeros_like(p) for p in parameters]
        if plan.optimiser == "adam":
            self.momentum += [torch.zeros_like(p) for p in parameters]
            self.momentum += [torch.zeros((), device=device) for _ in parameters]  # how many steps it has made

    def step(self, loss: Tensor) -> None:
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        gradients = [_laid_out_as(p, g) for p, g in zip(self.parameters, found, strict=True)]
        rate = cast(float, self.rate)
        how: dict[str, Any] = {"fused": True, "weight_decay": self.plan.weight_decay, "maximize": False, "lr": rate}
        with torch.no_grad():
            if self.plan.optimiser == "sgd":
                how |= {"momentum": self.plan.momentum, "dampening": 0.0, "nesterov": self.plan.nesterov}
                sgd(self.parameters, gradients, cast(list[Tensor | None], self.momentum), **how)
            else:
                count = len(self.parameters)
                first, second, steps = (self.momentum[i * count : (i + 1) * count] for i in range(3))
                how |= {"amsgrad": False, "beta1": self.plan.momentum, "beta2": 0.999, "eps": 1e-8}
                adam(self.parameters, gradients, first, second, [], steps, **how)


def _laid_out_as(parameter: Tensor, gradient: Tensor | None) -> Tensor:
    """A gradient in its parameter's order of memory: fused descent walks through both in the same steps."""
    if gradient is None:
        return torch.zeros_like(parameter)
    same = gradient.stride() == parameter.stride() and gradient.dtype == parameter.dtype
    return gradient if same else torch.empty_like(parameter).copy_(gradient)
