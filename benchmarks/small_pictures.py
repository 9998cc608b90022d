"""CIFAR-100 made small enough for two cores, for what is to be seen before a GPU is asked; no test image is looked at.

Pictures are 16 x 16; 200 training images a class are learned, and 50 others of the training set are judged on. Ten
tasks of ten classes of order 1993, 800 exemplars.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
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


def small_pictures(classes=100):
    images = load_images("cifar100")
    pixels = images.train_images.reshape(-1, images.train_images.shape[1], 16, 2, 16, 2)
    pixels = pixels.mean(axis=(3, 5)).round().astype(np.uint8)
    rng, train, judged = np.random.default_rng(0), [], []
    for label in range(classes):
        own = rng.permutation(np.flatnonzero(images.train_labels == label))
        train.extend(own[:200])
        judged.extend(own[200:250])
    pixels, labels = np.moveaxis(pixels, 1, -1), images.train_labels
    return ImageSet(pixels[train], labels[train], pixels[judged], labels[judged])


def learn(given, classes=100):
    """A whole run on one thread, and what is kept of it."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        settings = resolve(PROTOCOL | given)
        results = run(*settings, Path(folder), images=small_pictures(classes), every=1e9, note=lambda line: None)
    kept = ("average_incremental_accuracy", "last_accuracy", "forgetting", "curve", "accuracy_matrix", "settings")
    return {key: results[key] for key in kept} | {"seconds": results["timing"]["seconds"]}


def learn_all(file, cases, about, classes=100):
    """The runs of all cases, which are settings by name; what is in the results' file already is not learned again."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="learn all of them anew")
    arguments = parser.parse_args()
    runs = {} if arguments.again else common.read(file).get("runs", {})
    with ProcessPoolExecutor(arguments.jobs) as pool:
        waiting = {pool.submit(learn, given, classes): name for name, given in cases.items() if name not in runs}
        for done in as_completed(waiting):
            runs[waiting[done]] = done.result()
            common.write(file, {"measured": common.measured(np, torch), "runs": runs})
            print(f"{len(runs)} of {len(cases)} runs are there", flush=True)
    return runs


def line(name, results):
    """What a person looks for first."""
    return (
        f"{name:34s} {results['average_incremental_accuracy']:6.2f} {results['last_accuracy']:6.2f}"
        f" {results['forgetting']:6.2f}   {' '.join(f'{value:.0f}' for value in results['curve'])}"
        f"   {results['seconds']:.0f} s"
    )
