"""Where the time of a step goes for H-LLL's recipe ``best`` on CIFAR-100, by the number of encoders.

Measured on one H200, raw numbers in results/cifar100_profile.json, table in docs/cifar100.md: with few encoders forward
and backward of the one that is trained (3.7 ms for 256 images, 29% of the card's bf16 peak), from the eighth task on
the frozen ones (0.6 ms each, 59% of the peak).

Images are random, a task has three epochs; every part is then measured by itself, as a recorded graph. Run it (a minute
and a half on one H200; a smaller net and fewer images where there is no GPU) with

    python benchmarks/cifar100_profile.py

It needs torch, numpy and safetensors alone (``PYTHONPATH=src`` from a checkout).
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from everspan.deep.augment import Augmentation
from everspan.deep.backbones import backbone_factory
from everspan.deep.descent import Descent
from everspan.deep.engine import Engine
from everspan.deep.memory import ExemplarMemory
from everspan.deep.methods import load_method
from everspan.deep.runs import learn_task
from everspan.deep.steps import recorded, tried_out
from everspan.scenarios import ClassScenario, ImageSet

FLOPS_FORWARD, PEAK = 1.11e9, 790e12  # of ResNet-18 at 32 x 32, multiply and add; dense bf16 of one H200, measured
ENCODERS = (1, 2, 3, 4, 7, 10)  # with which a step is taken apart
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


def random_scenario():
    rng, each = np.random.default_rng(0), 500 if GPU else 20
    labels = np.repeat(np.arange(100), each)
    pixels = rng.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8)
    fifth = slice(None, None, 5)
    return ClassScenario(ImageSet(pixels, labels, pixels[fifth], labels[fifth]), 10)


def best_method(scenario):
    kind = load_method("hlll")
    changes = {"epochs": 3, "learning_rate": 1e-3} | ({} if GPU else {"backbone": "small", "batch_size": 32})
    own = kind.Settings(**{**kind.recipes["best"], **changes})
    engine = Engine(
        torch.from_numpy(scenario.images.train_images),
        torch.from_numpy(scenario.train_labels),
        mean=[0.5] * 3,
        std=[0.25] * 3,
        augmentation=Augmentation.parse(own.augment),
        device=DEVICE,
        bf16=GPU,
        compile=GPU,
        flip_test=own.flip_test,
        shift_test=own.shift_test,
    )
    return kind(own, engine, ExemplarMemory(total=2000 if GPU else 100), backbone_factory(own.backbone, 3))


def seconds(function, state=()):
    """Of one call, as a recorded graph where there is a GPU."""
    if GPU:
        with tried_out():
            function = recorded(function, list(state))
    waits = torch.cuda.synchronize if GPU else (lambda: None)
    for _ in range(3):
        function()
    waits()
    started, count = time.perf_counter(), 30 if GPU else 3
    for _ in range(count):
        function()
    waits()
    return (time.perf_counter() - started) / count


def seconds_of_training(engine, own, images):
    """Of forward and backward of a new encoder, and of the optimiser."""
    encoder = backbone_factory(own.backbone, 3)().to(DEVICE, memory_format=torch.channels_last)
    if GPU:
        encoder.compile(dynamic=False)
    head = torch.nn.Linear(encoder.feature_size, 10).to(DEVICE)
    parameters = [*encoder.parameters(), *head.parameters()]
    descent = Descent(parameters, own.plan(), DEVICE)
    targets = functional.one_hot(torch.arange(len(images), device=DEVICE) % 10, 10).float()
    kept = []

    def forward_backward():
        with engine._autocast():
            loss = functional.cross_entropy(head(encoder(images)).float(), targets)
        kept[:] = torch.autograd.grad(loss, parameters)

    def sums():
        torch.autograd.grad(sum(p.sum() for p in parameters), parameters)

    def descend():
        descent.step(sum(p.sum() for p in parameters))

    state = [*encoder.state_dict().values(), *head.state_dict().values(), *descent.momentum]
    return seconds(forward_backward, state), seconds(descend, state) - seconds(sums)


def taken_apart(method, task):
    """Milliseconds of the parts of a step."""
    engine, own = method.engine, method.settings
    batch, many = own.batch_size, max(engine.ahead, own.batch_size)  # what is fixed is made ready for many at once
    picked = torch.from_numpy(np.random.default_rng(0).choice(task.train, many)).to(DEVICE)
    noise = torch.rand(many, engine.augmentation.columns, device=DEVICE)
    images = engine._batch(picked, noise)[0].permute(0, 3, 1, 2)

    @torch.no_grad()
    def frozen():
        with engine._autocast():
            for encoder in list(method.network.encoders)[: task.index]:
                encoder(images)

    new, optimiser = seconds_of_training(engine, own, images[:batch])
    return {
        "augmentation_ms": 1e3 * batch / many * seconds(lambda: engine._batch(picked, noise)),
        "frozen_ms": 1e3 * batch / many * seconds(frozen) if task.index else 0.0,
        "new_encoder_ms": 1e3 * new,
        "optimiser_ms": 1e3 * optimiser,
    }


def profile(method, scenario):
    """A row for every number of encoders of interest."""
    engine, test = method.engine, torch.from_numpy(scenario.images.test_images).to(DEVICE)
    for task in scenario:
        engine.trained_images, engine.training_seconds = 0, 0.0
        started = time.perf_counter()
        learn_task(method, task)
        learned = time.perf_counter() - started
        if task.index + 1 not in ENCODERS:
            continue
        speed, trained = engine.trained_images / engine.training_seconds, engine.training_seconds
        started = time.perf_counter()
        engine.scores(method, test).argmax(dim=1).cpu()
        evaluated = time.perf_counter() - started
        yield {
            "encoders": task.index + 1,
            "images_per_second": speed,
            "step_ms": 1e3 * method.settings.batch_size / speed,
            **taken_apart(method, task),
            "evaluation_s": evaluated,
            "beside_training_s": learned - trained,
            "share_of_peak": speed * (3.0 + task.index) * FLOPS_FORWARD / PEAK,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=common.RESULTS, help="the folder that the answer goes to")
    folder, scenario, rows = parser.parse_args().results, random_scenario(), []
    method = best_method(scenario)
    for row in profile(method, scenario):
        rows.append(row)
        print("  ".join(f"{name} {value:,.3f}" for name, value in row.items()), flush=True)
    card = torch.cuda.get_device_name() if GPU else "CPU"
    measured = common.measured(np, torch) | {"device": card}
    found = {"measured": measured, "batch_size": method.settings.batch_size, "rows": rows}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cifar100_profile.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
