"""A small run, in one process, and what it left behind."""

from __future__ import annotations

import json

import torch

from everspan.deep.checkpoint import read_checkpoint
from everspan.deep.runs import run
from everspan.deep.settings import resolve

FAST = {
    "increment": 2,
    "memory_total": 12,
    "backbone": "tests.deep._common:Tiny",
    "epochs": 4,
    "batch_size": 12,
    "warmup": 1,
    "augment": "crop:1",
    "threads": 1,
    "device": "cpu",
}


def outcome(folder):
    """Everything outside ``timing``, and every weight."""
    results = json.loads((folder / "results.json").read_text())
    del results["timing"]
    newest = max(folder.glob("checkpoint-*.safetensors"))
    tensors, facts = read_checkpoint(newest)
    return (
        results,
        {name: tensor.reshape(-1).view(torch.uint8).tolist() for name, tensor in tensors.items()},
        facts["memory"],
    )


def finished(data, folder, notes=None, every=0.0, **changes):
    """A whole run, from wherever it was."""
    settings, own = resolve({"data": data, **FAST, **changes})
    lines = [] if notes is None else notes
    return run(settings, own, folder, every=every, note=lines.append)


class Stop(Exception):
    pass


def stopped_after(epochs):
    """Progress that stops the run after so many epochs."""

    def made(scenario, method):
        class Watch:
            left = epochs

            def epoch(self, place, epochs, loss, images, seconds):
                self.left -= 1
                if self.left < 0:
                    raise Stop

        return Watch()

    return made
