"""Linear representation refinement (Section 2.2) of a finished H-LLL network on CIFAR-100: accuracy against dimension.

The 5,120 features of ten encoders are functions of an image. As vectors, the feature phi_j has one coordinate for every
image in the memory: its value there, minus its mean over the memory, divided by the root of the number of images. The
length of such a vector is the feature's standard deviation, and a distance is a root mean square over images.
``refine`` finds a subspace V' of q dimensions near all of them, and every feature is replaced by its projection on V'.
Two classifiers are judged: the network's own on the projected features, and a logistic regression learned again on the
memory.

Two sets of functions are refined:

- ``features``: all 5,120 of them, by the singular value decomposition (the semidefinite program is for hundreds);
- ``scores``: the 100 class scores of the network, by the semidefinite program. They are the learned directions w~_i of
  Section 2.1: one per class.

Beside each accuracy stands its certificate: ``max_distance``, the largest distance of a function to V', and
``lower_bound``: no subspace of k dimensions has a smaller one. Both are relative to the largest standard deviation.

There are two steps. The first needs a GPU, with torch, numpy and safetensors alone; it learns the run where it is not
finished. The second needs everspan's own dependencies and a few minutes of a CPU.

    python benchmarks/cifar100_refine.py collect hlll-best-1993 --data-dir D --work W --features F
    python benchmarks/cifar100_refine.py measure hlll-best-1993 --features F

All accuracies are those of the mean over the run's views of a test image, on the first 20 test images of every class:
so many features fit into three files of 14 MB.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
from pathlib import Path

import cifar100
import numpy as np

PARTS = 3  # files of features, so that each is small enough to be copied from a machine that is lent
TEST_IMAGES = 20  # of every class
FEATURES = (8, 16, 32, 64, 128, 256, 512, 1024)
SCORES = (5, 10, 20, 30, 40, 50, 60, 80, 95)


def collect(name, arguments):
    """Save the features of the memory and of some test images, after the run's last task."""
    import torch

    from everspan.deep import IncrementalModel
    from everspan.scenarios import load_images

    results = cifar100.run_one(name, arguments)
    model = IncrementalModel.load(arguments.work / name, allow_code=True)
    images = load_images("cifar100", arguments.data_dir)
    order = {label: i for i, label in enumerate(results["class_order"])}
    place = np.array([order[label] for label in images.names])
    memory_rows = np.concatenate([np.array(rows, dtype=int) for rows in model.method.memory.rows])
    test = place[images.test_labels]
    test_rows = np.concatenate([np.flatnonzero(test == c)[:TEST_IMAGES] for c in range(len(place))])
    head = model.method.network.classifier
    found = {
        "memory": seen(model.method, torch.from_numpy(images.train_images[memory_rows])),
        "test": seen(model.method, torch.from_numpy(images.test_images[test_rows])),
        "weight": head.weight.detach().float().cpu().numpy(),
    }
    small = {
        "memory_labels": place[images.train_labels[memory_rows]],
        "test_labels": test[test_rows],
        "bias": head.bias.detach().float().cpu().numpy(),
    }
    arguments.features.mkdir(parents=True, exist_ok=True)
    columns = np.array_split(np.arange(found["weight"].shape[1]), PARTS)
    for i, own in enumerate(columns):
        part = {key: values[:, own].astype(np.float16) for key, values in found.items()}
        np.savez(part_file(arguments.features, name, i), **part, **small)
    kept = ("settings", "curve", "average_incremental_accuracy", "last_accuracy", "known_task", "parameters", "timing")
    facts = {key: results[key] for key in kept if key in results}
    cifar100.result_file(arguments.features, name).write_text(json.dumps(facts, indent=1) + "\n")


def part_file(folder, name, part):
    return cifar100.result_file(folder, name).with_suffix(f".{part}.npz")


def seen(method, images):
    """The mean over the views of an image of all encoders' features."""
    import torch

    from everspan.deep.engine import views

    engine = method.engine

    def mean_of_views(x):
        looks = views(x, engine.flip_test, engine.shift_test)
        return torch.stack([method.features(view).float() for view in looks]).mean(dim=0)

    return engine.infer(method, mean_of_views, images).cpu().numpy()


def loaded(name, folder):
    """What ``collect`` saved, in float64."""
    parts = [np.load(part_file(folder, name, i)) for i in range(PARTS)]
    wide = {key: np.hstack([part[key] for part in parts]).astype(float) for key in ("memory", "test", "weight")}
    return wide | {key: parts[0][key] for key in ("memory_labels", "test_labels", "bias")}


def linear_step(memory, test, weight, bias, k, method):
    """Refine functions, given by their values on the memory, and project test images; returns what there is to judge.

    ``coordinates`` are those of images in V', in a basis that is orthonormal over the memory.
    """
    from everspan.refinement import refine

    mean, count = memory.mean(axis=0), len(memory)
    W = (memory - mean).T / np.sqrt(count)  # one function a row
    refined = refine(W, k, method=method)
    B = refined.basis
    # The least combination C of the functions with W' C = B gives the coordinates of any image, in memory or not.
    values, vectors = np.linalg.eigh(W.T @ W)
    large = values > 1e-10 * values[-1]
    C = W @ (vectors[:, large] / values[large]) @ (vectors[:, large].T @ B)
    coordinates = [(part - mean) @ C for part in (memory, test)]
    scores = (mean + coordinates[1] @ (W @ B).T) @ weight.T + bias
    largest = np.sqrt((W**2).sum(axis=1).max())
    certificate = {
        "dimension": refined.dimension,
        "max_distance": float(refined.max_distance / largest),
        "lower_bound": float(refined.lower_bound / largest),
    }
    return coordinates, scores, certificate


def refitted(coordinates, labels, test_coordinates):
    """Predictions of a logistic regression that is learned on the memory, with coordinates of unit variance."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.1, max_iter=300).fit(coordinates, labels)
    return model.predict(test_coordinates)


def measure(name, arguments):
    """Accuracy against dimension, with certificates, for both sets of functions."""
    given = loaded(name, arguments.features)
    labels, test_labels = given["memory_labels"], given["test_labels"]
    scores = {key: given[key] @ given["weight"].T + given["bias"] for key in ("memory", "test")}
    classes = given["weight"].shape[0]
    sets = {
        "features": (given["memory"], given["test"], given["weight"], given["bias"], "svd", FEATURES),
        "scores": (scores["memory"], scores["test"], np.eye(classes), np.zeros(classes), "sdp", SCORES),
    }
    whole = 100.0 * np.mean(scores["test"].argmax(axis=1) == test_labels)
    rows = []
    print(f"all {given['weight'].shape[1]} features: accuracy {whole:.2f}")
    print("refined    k     q  projected  refitted  max_distance  lower_bound")
    for kind, (memory, test, weight, bias, method, ks) in sets.items():
        for k in ks:
            if k >= min(memory.shape):
                continue
            (own, new), projected, certificate = linear_step(memory, test, weight, bias, k, method)
            right = [projected.argmax(axis=1) == test_labels, refitted(own, labels, new) == test_labels]
            accuracy = dict(zip(("projected", "refitted"), (100.0 * float(np.mean(r)) for r in right), strict=True))
            rows.append({"functions": kind, "k": k, **certificate, **accuracy})
            row = rows[-1]
            print(
                f"{kind:8s} {k:4d}  {row['dimension']:4d}  {row['projected']:9.2f}  {row['refitted']:8.2f}  "
                f"{row['max_distance']:12.4f}  {row['lower_bound']:11.4f}",
                flush=True,
            )
    facts = json.loads(cifar100.result_file(arguments.features, name).read_text())
    results = common.read("cifar100_refine")
    results[name] = {"measured": common.measured(np), "run": facts, "all_features": whole, "rows": rows}
    common.write("cifar100_refine", results)


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("collect", "measure"))
    parser.add_argument("name", metavar="RUN", help="METHOD-RECIPE-ORDER[-SETTING=VALUE ...]")
    parser.add_argument("--features", type=Path, required=True, help="the folder of the features")
    cifar100.add_options(parser)
    arguments = parser.parse_args(given)
    {"collect": collect, "measure": measure}[arguments.step](arguments.name, arguments)


if __name__ == "__main__":
    main()
