"""CIFAR-100 made small enough for two cores, for what is to be seen before a GPU is asked; no test image is looked at.

Pictures are 16 x 16; 200 training images a class are learned, and 50 others of the training set are judged on. Ten
tasks of ten classes of order 1993, 800 exemplars.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

from everspan.deep import resolve, run
from everspan.scenarios import ImageSet, load_images

PROTOCOL = {
    "data": "cifar100 at 16 x 16",
    "increment": 10,
    "memory_total": 800,
    "epochs": 20,
    "batch_size": 64,
    "device": "cpu",
    "threads": 1,
}
LIGHT = {"augment": "crop:2,flip,brightness,cutmix:0.5", "first_augment": None, "learning_rate": 0.1, "shift_test": 1}
GRID = {"widths": (12, 12, 24, 24, 48, 48), "candidates": 1}  # of RPSNet


def small_pictures():
    images = load_images("cifar100")
    pixels = images.train_images.reshape(-1, images.train_images.shape[1], 16, 2, 16, 2)
    pixels = pixels.mean(axis=(3, 5)).round().astype(np.uint8)
    rng, train, judged = np.random.default_rng(0), [], []
    for label in range(images.classes):
        own = rng.permutation(np.flatnonzero(images.train_labels == label))
        train.extend(own[:200])
        judged.extend(own[200:250])
    pixels, labels = np.moveaxis(pixels, 1, -1), images.train_labels
    return ImageSet(pixels[train], labels[train], pixels[judged], labels[judged])


def learn(given):
    """A whole run on one thread, and what is kept of it."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = resolve(PROTOCOL | given)
        results = run(*settings, Path(folder), images=small_pictures(), every=1e9, note=lambda line: None)
    kept = ("average_incremental_accuracy", "last_accuracy", "forgetting", "curve", "accuracy_matrix", "settings")
    return {key: results[key] for key in kept} | {"seconds": results["timing"]["seconds"]}
