"""The lower bound as something one can run (Section 4, Theorems 2 and 6).

A learner that misses every feature by exactly what it may, all along one hidden coordinate, sits in the unmodified
loop. The first k tasks are e_1, ..., e_k; then come sums of a random half of them. Features that were learned to
epsilon_acc are too far from the sums where epsilon_acc is beyond the order of epsilon / sqrt k, and learning a sum
teaches nothing: what the learner answers is in the span of what it has answered before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators import LifelongClassifier
from ..reports import COLORS, house_style, new_figure
from ..tasks import Array
from ..theory import HiddenCoordinate, hidden_angle, hidden_task_angle, subspace_angle, trimmed
from ._files import write_results

RATIOS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)


@dataclass(frozen=True)
class Settings:
    """Of the experiment."""

    k: tuple[int, ...] = (8, 16, 32)
    epsilon: float = 0.1
    tasks: int = 40
    n: int = 1000
    ratios: tuple[float, ...] = RATIOS
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.k or min(self.k) < 2:
            raise ValueError(f"k must be 2 or more, but it is {self.k}")
        if not 0.0 < self.epsilon < 0.5:
            raise ValueError(f"epsilon must lie between 0 and 0.5, but it is {self.epsilon}")
        if min(self.tasks, self.n) < 1:
            raise ValueError(f"tasks and n must be at least 1, but they are {self.tasks} and {self.n}")
        most = max(self.ratios) * self.epsilon / math.sqrt(min(self.k))
        if not self.ratios or min(self.ratios) <= 0.0 or most >= 0.25:
            raise ValueError(f"epsilon_acc must lie between 0 and 0.25, but ratios {self.ratios} make it {most:.3g}")


def run(settings: Settings, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Share of failing tasks by accuracy, in the loop and by Lemma 8; and why combinations are of 0 and 1."""
    curves, steps = {}, len(settings.k) * len(settings.ratios)
    for i, k in enumerate(settings.k):
        points = []
        for j, ratio in enumerate(settings.ratios):
            points.append(_stream(settings, k, ratio))
            if progress:
                progress(i * len(settings.ratios) + j + 1, steps)
        curves[str(k)] = points
    record = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items()}
    return {"settings": record, "curves": curves, "combinations": _combinations(settings)}


def _errors(settings: Settings, k: int, ratio: float, rng: np.random.Generator) -> Array:
    """Tangents by which the features are missed: none by more than epsilon_acc, some by a little less."""
    accuracy = ratio * settings.epsilon / math.sqrt(k)
    return np.asarray(np.tan(math.pi * accuracy * rng.uniform(0.8, 1.0, k)))  # error = angle / pi for Gaussian rows


def _stream(settings: Settings, k: int, ratio: float) -> dict[str, Any]:
    rng = np.random.default_rng([settings.seed, k])
    errors = _errors(settings, k, ratio, rng)
    kept = trimmed(errors)
    learner = HiddenCoordinate(errors)
    accuracy = ratio * settings.epsilon / math.sqrt(k)
    model = LifelongClassifier(
        settings.epsilon,
        epsilon_acc=accuracy,
        n_features=k,
        refiner="sdp",
        learner=learner,
        fit_intercept=False,
        prior=None,
    )
    found, lemma, angles, again = [], [], [], 0
    for i in range(k + settings.tasks):
        truth = np.zeros(k + 1)
        if i < k:
            truth[i] = 1.0
        else:
            while not truth.any():
                truth[kept] = rng.integers(0, 2, len(kept))
        learner.truth = truth
        X = rng.standard_normal((settings.n, k + 1))
        before = learner.answers
        model.learn_task(X, np.where(X @ truth > 0.0, 1, -1), task=i)
        again += i >= k and learner.answers > before
        if i >= k - 1:
            angles.append(subspace_angle(np.eye(k, k + 1), model.representation_.basis.T))
        if i >= k:
            weights = model.linear_predictor(task=i)[0][0]
            cosine = abs(float(weights @ truth)) / float(np.linalg.norm(weights) * np.linalg.norm(truth))
            found.append(math.acos(min(cosine, 1.0)) / math.pi)
            lemma.append(hidden_task_angle(errors, truth[:k]) / math.pi)
    return {
        "ratio": ratio,
        "epsilon_acc": accuracy,
        "failing": float(np.mean(np.array(found) > settings.epsilon)),
        "failing_by_lemma_8": float(np.mean(np.array(lemma) > settings.epsilon)),
        "asked_again": again,
        "angle": angles[0],
        "angle_by_lemma_7": hidden_angle(errors),
        "angle_after_all_tasks": angles[-1],
        "dimension": int(model.representation_.dimension),
    }


def _combinations(settings: Settings) -> dict[str, Any]:
    """Theorem 6: the median error of random combinations when every feature is missed by epsilon / sqrt k."""
    rng, sizes = np.random.default_rng(settings.seed), [4, 8, 16, 32, 64, 128, 256]
    medians: dict[str, list[float]] = {"0 and 1": [], "+1 and -1": []}
    for k in sizes:
        errors = np.full(k, math.tan(math.pi * settings.epsilon / math.sqrt(k)))
        for name, values in (("0 and 1", (0.0, 1.0)), ("+1 and -1", (-1.0, 1.0))):
            tasks = rng.choice(values, (401, k))
            tasks = tasks[np.abs(tasks).sum(axis=1) > 0.0]
            medians[name].append(float(np.median([hidden_task_angle(errors, task) for task in tasks])) / math.pi)
    return {"k": sizes, "median_error": medians}


def draw(results: dict[str, Any]) -> Any:
    """Left: failing tasks against epsilon_acc sqrt k / epsilon. Right: combinations of 0 and 1, and of +1 and -1."""
    with house_style():
        figure, (left, right) = new_figure(2)
        for color, (k, points) in zip(COLORS.values(), results["curves"].items(), strict=False):
            ratios = [point["ratio"] for point in points]
            left.plot(ratios, [100 * p["failing_by_lemma_8"] for p in points], color=color, lw=1.5)
            left.plot(ratios, [100 * p["failing"] for p in points], "o", color=color, ms=5, label=f"k = {k}")
        left.axvline(math.sqrt(2.0), color=COLORS["grey"], ls="--", lw=1)
        left.set(title="Tasks that fail (%)", xlabel="accuracy of a feature, times sqrt k / epsilon", ylim=(-4, 104))
        left.legend(fontsize=9, loc="lower right")
        combinations, epsilon = results["combinations"], results["settings"]["epsilon"]
        for color, (name, medians) in zip(COLORS.values(), combinations["median_error"].items(), strict=False):
            right.plot(combinations["k"], medians, "o-", color=color, ms=4, label=f"combinations of {name}")
        right.axhline(epsilon, color=COLORS["grey"], ls="--", lw=1)
        right.set(title="Median error at accuracy epsilon / sqrt k", xlabel="k", xscale="log", ylim=(0, None))
        right.legend(fontsize=9)
    return figure


def lines(results: dict[str, Any]) -> list[str]:
    """A table."""
    text = [
        "accuracy is epsilon_acc sqrt k / epsilon; the angle is that of the features to the truth",
        "   k  accuracy  tasks that fail  by Lemma 8  learned in vain  angle before  after all  by Lemma 7",
    ]
    for k, points in results["curves"].items():
        for p in points:
            text.append(
                f"{int(k):4d}  {p['ratio']:8.2f}  {p['failing']:15.0%}  {p['failing_by_lemma_8']:10.0%}  "
                f"{p['asked_again']:15d}  {p['angle']:12.4f}  {p['angle_after_all_tasks']:9.4f}  "
                f"{p['angle_by_lemma_7']:10.4f}"
            )
    return text


def write(folder: Path, results: dict[str, Any]) -> list[Path]:
    """``results.json``, ``figure.svg`` and ``figure.png``."""
    return write_results(folder, results, draw(results))
