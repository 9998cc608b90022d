"""What RPSNet's distillation looks at decides what it remembers: four kinds, on small pictures.

Measured on 2 cores (AMD EPYC), 2026-11-18, one run each, raw numbers in results/rpsnet_small.json:

| distillation looks at | average | last |
|---|---|---|
| old classes alone | 24.81 | 8.76 |
| and labels as scores of new ones | 29.39 | 14.04 |
| and zeros for classes to come | 30.67 | 20.30 |
| the positive terms of that | 30.72 | 19.58 |
| recipe strong, with zeros | 39.90 | 30.12 |

On small_pictures.py's images of CIFAR-100, ten tasks of ten classes, judged on training images left out; a grid of six
layers of 12 to 48 channels, 20 epochs in batches of 64, one candidate at a switch. Run it (about half an hour on 2
cores) with

    EVERSPAN_DATA=PARENT_OF_CIFAR python benchmarks/rpsnet_small.py
"""

# isort: off
from small_pictures import GRID, LIGHT, learn_all, line  # first: it sets one thread before numpy is loaded
# isort: on

import torch
from torch.nn import functional

from everspan.deep.methods.rpsnet import RPSNet


class OldAlone(RPSNet):
    """The distance to the teacher over old classes."""

    name = "rpsnet"

    def loss(self, images, targets, taught=None):
        scores = self(images).float()
        loss = functional.cross_entropy(scores, targets)
        return loss + self.controller() * self.forgotten(scores, taught) if self.old else loss


class Positive(RPSNet):
    """The positive terms alone of the divergence over all outputs, as in the authors' code."""

    name = "rpsnet"

    def loss(self, images, targets, taught=None):
        scores = self(images).float()
        loss = functional.cross_entropy(scores, targets)
        if not self.old:
            return loss
        wanted = torch.cat([taught.float(), targets[:, self.old :]], dim=1)
        to_come = (0, self.settings.outputs - scores.shape[1])
        goal, found = (
            functional.log_softmax(functional.pad(x, to_come) / self.settings.temperature, dim=1)
            for x in (wanted, scores)
        )
        terms = goal.exp() * (goal - found)
        return loss + self.controller() * terms.clamp(min=0.0).sum() / len(scores)


KINDS = {
    "old classes alone": {"method": "rpsnet_small:OldAlone"},
    "and labels as scores of new ones": {"method": "rpsnet"},
    "and zeros for classes to come": {"method": "rpsnet", "outputs": 100},
    "the positive terms of that": {"method": "rpsnet_small:Positive", "outputs": 100},
    "recipe strong, with zeros": {"method": "rpsnet", "outputs": 100, "recipe": "strong", **LIGHT},
}
CASES = {name: GRID | {"augment": "crop:2,flip,turn"} | given for name, given in KINDS.items()}


def main():
    runs = learn_all("rpsnet_small", CASES, __doc__)
    for name in CASES:
        print(line(name, runs[name]))


if __name__ == "__main__":
    main()
