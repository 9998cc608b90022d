"""Small images and small networks for tests."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from everspan.deep.augment import Augmentation
from everspan.deep.engine import Engine
from everspan.deep.memory import ExemplarMemory
from everspan.deep.methods import load_method
from everspan.deep.runs import learn_task
from everspan.scenarios import ClassScenario, ImageSet

GRID = {"widths": (4, 8, 8), "modules": 4, "candidates": 2, "tasks_per_path": 2, "optimiser": "adam"}  # of RPSNet


class Tiny(nn.Module):
    """An encoder with a BatchNorm that trains in no time."""

    feature_size = 8

    def __init__(self, channels=1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 8, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def forward(self, x):
        return self.layers(x)


class Wrong(Tiny):
    """Says that it makes more features than it does."""

    feature_size = 9


class Dictionary(Tiny):
    """Answers as PyCIL's backbones do."""

    def forward(self, x):
        return {"features": super().forward(x)}


class Colour(Tiny):
    """For images of three channels."""

    def __init__(self):
        super().__init__(channels=3)


class Odd(Tiny):
    """Looks at its images' values, has a weight it does not use, and ties two."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(3, 3)
        self.tied = self.layers[0].weight

    def forward(self, x):
        return self.layers(x if x.mean() > 0 else -x)


def image_set(classes=6, each=12, test=5, size=8, channels=1, seed=0):
    """Noisy copies of one random picture a class."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(40, 216, (classes, size, size, channels))

    def part(count):
        labels = rng.permutation(np.repeat(np.arange(classes), count))
        noise = rng.integers(-40, 40, (len(labels), size, size, channels))
        return (pictures[labels] + noise).astype(np.uint8), labels

    return ImageSet(*part(each), *part(test))


def make_engine(scenario, augment="crop:1", **options):
    images = torch.from_numpy(scenario.images.train_images)
    labels = torch.from_numpy(scenario.train_labels)
    channels = images.shape[1]
    defaults = {"mean": [0.5] * channels, "std": [0.25] * channels, "augmentation": Augmentation.parse(augment)}
    return Engine(images, labels, **(defaults | options))


def make_method(name, scenario=None, memory=None, engine=None, **settings):
    scenario = scenario or ClassScenario(image_set(), 2)
    kind = load_method(name)
    own = kind.Settings(**({"epochs": 2, "batch_size": 8, "warmup": 0, "augment": "crop:1"} | settings))
    engine = engine or make_engine(scenario)
    return kind(own, engine, ExemplarMemory(total=12) if memory is None else memory, Tiny), scenario


def learned(name, tasks=2, **settings):
    method, scenario = make_method(name, **settings)
    for task in scenario[:tasks]:
        learn_task(method, task)
    return method, scenario


def begun(name, tasks=1, **settings):
    """A method that has learned some tasks and begun the next, and images of old and new classes."""
    method, scenario = learned(name, tasks, **settings)
    task = scenario[tasks]
    method.engine.begin(tasks, task.seen)
    method.begin(task)
    method.eval()
    return method, torch.rand(6, 1, 8, 8), functional.one_hot(torch.arange(6) % task.seen, task.seen).float()


def broken():
    raise RuntimeError("no weights here")
