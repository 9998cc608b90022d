"""The paper's linear figure (Section 5.1): average and minimal accuracy, features, angle, task by task.

Tasks y = sign(c_i . W x) with Gaussian c_i, W and x. After every task, for all tasks seen so far and by the model as it
is then: the mean and the least accuracy (exact: one minus the angle to the target over pi), the number of features, and
the largest principal angle between the learned and the true subspace (90 degrees where fewer than k features are kept).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..estimators import LifelongClassifier, RepresentationWarning
from ..learners import BayesPoint
from ..reports import COLORS, Page, house_style, new_figure
from ..scenarios import LinearStream, NamedTask
from ..tasks import Rows
from ..threads import one_thread
from ._files import write_report
from ._jobs import each
from .joint import joint_training

Array = NDArray[np.float64]
PANELS = {
    "average_accuracy": "Average accuracy of the tasks seen",
    "minimum_accuracy": "Least accuracy of a task seen",
    "dimension": "Number of features",
    "angle_degrees": "Largest angle to the true subspace",
}
STYLES = {
    "LLL": ("orange", "--"),
    "LLL-RR": ("yellow", "-."),
    "LLL-RR certified": ("blue", "-"),
    "Independent": ("grey", ":"),
    "Joint": ("green", "-"),
}
HIDDEN = {("dimension", "Independent")}  # as many as tasks: it would hide the others


@dataclass(frozen=True)
class Settings:
    """What is simulated; the defaults are the paper's."""

    d: int = 100
    k: int = 5
    m: int = 100
    n: int = 200
    epsilon: float = 0.1
    trials: int = 10
    seed: int = 0
    regime: Literal["paper", "theory"] = "paper"

    def __post_init__(self) -> None:
        for name in ("d", "k", "m", "n", "trials"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        if self.k > self.d:
            raise ValueError(f"k must be at most d, but k={self.k} and d={self.d}")
        if not 0.0 < self.epsilon < 1.0:
            raise ValueError(f"epsilon must be between 0 and 1, but it is {self.epsilon}")


def lifelong_methods(settings: Settings) -> dict[str, LifelongClassifier]:
    """Basic LLL and LLL-RR by the paper's letter, and LLL-RR with our checks; no constant, as in the paper."""
    common: dict[str, Any] = {"epsilon": settings.epsilon, "fit_intercept": False}
    letter: dict[str, Any] = {"old_tasks": "freeze", "prior": None}
    if settings.regime == "paper":
        letter |= {"check": "train", "learner": "logistic"}
    else:
        common["accept"] = "bound"
    k = settings.k
    return {
        "LLL": LifelongClassifier(refiner=None, **common, **letter),
        "LLL-RR": LifelongClassifier(n_features=k, refiner="sdp", rounding="paper", **common, **letter),
        "LLL-RR certified": LifelongClassifier(n_features=k, refiner="sdp", **common),
    }


@one_thread
def trial(settings: Settings, index: int) -> dict[str, dict[str, list[float]]]:
    """All methods on one stream: a value a task for every panel."""
    stream = LinearStream(settings.d, settings.k, settings.m, settings.n, seed=settings.seed * 100_003 + index)
    tasks = list(stream)
    curves = {name: _lifelong(model, stream, tasks, settings) for name, model in lifelong_methods(settings).items()}
    curves["Independent"] = _independent(stream, tasks)
    curves["Joint"] = _joint(stream, tasks)
    return curves


def _lifelong(
    model: LifelongClassifier, stream: LinearStream, tasks: list[NamedTask], settings: Settings
) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {name: [] for name in (*PANELS, "labels")}
    directions: Array = np.zeros((0, settings.d))
    representation = None
    for i, (_, X, y) in enumerate(tasks):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepresentationWarning)  # features are less accurate than asked: the figure
            if settings.regime == "paper":
                event = model.learn_task(X, y, task=i)
            else:
                event = model.learn_task(stream.source(i), task=i)
        if model.old_tasks == "freeze" or model.representation_ is representation:  # old tasks are as they were
            directions = np.vstack([directions, model.linear_predictor(task=i)[0]])
        else:
            directions = np.vstack([model.linear_predictor(task=j)[0] for j in range(i + 1)])
        representation = model.representation_
        _measure(curves, stream, directions, representation.basis)
        curves["labels"].append(float(event.labels_used))
    return curves


def _independent(stream: LinearStream, tasks: list[NamedTask]) -> dict[str, list[float]]:
    """Every task on its own, by the best learner of one halfspace; its features are all the tasks' directions."""
    curves: dict[str, list[float]] = {name: [] for name in PANELS}
    d = stream.targets.shape[1]
    directions, basis = np.zeros((0, d)), np.zeros((d, 0))
    for _, X, y in tasks:
        fit = BayesPoint(fit_intercept=False).fit(Rows(X, y))
        directions = np.vstack([directions, fit.coef])
        basis = _widened(basis, fit.coef)
        _measure(curves, stream, directions, basis)
    return curves


def _widened(basis: Array, direction: Array) -> Array:
    """The basis with one more column, where a direction has something new in it."""
    rest = direction
    for _ in range(2):  # once more, for what rounding left
        rest = rest - basis @ (basis.T @ rest)
    length = float(np.linalg.norm(rest))
    if basis.shape[1] == len(basis) or length <= 1e-9 * float(np.linalg.norm(direction)):
        return basis
    return np.column_stack([basis, rest / length])


def marks(m: int) -> list[int]:
    """1, 2, 5, 10, 20, 50, ... and m: where joint training is done anew."""
    steps = [step * 10**power for power in range(len(str(m))) for step in (1, 2, 5)]
    return sorted({*[step for step in steps if step < m], m})


def _joint(stream: LinearStream, tasks: list[NamedTask]) -> dict[str, list[float]]:
    """Joint training on all tasks seen, at the marks, held between: the last fit's directions stand until the next."""
    k = stream.subspace.shape[1]
    X, y = np.array([task.X for task in tasks]), np.array([task.y for task in tasks])
    curves: dict[str, list[float]] = {name: [] for name in PANELS}
    done, start = 0, None
    for mark in marks(len(stream)):
        basis, directions = joint_training(X[:mark], y[:mark], k, start)
        start = basis
        curve: dict[str, list[float]] = {name: [] for name in PANELS}
        _measure(curve, stream, directions, basis)
        hold(curves, curve, mark - done)
        done = mark
    return curves


def hold(curves: dict[str, list[float]], mark: dict[str, list[float]], tasks: int) -> None:
    """Go on by so many tasks: values are held from the mark before, except that this mark has its own."""
    for name, values in curves.items():
        held = values[-1:] or mark[name]
        values += held * (tasks - 1) + mark[name]


def _measure(curves: dict[str, list[float]], stream: LinearStream, directions: Array, basis: Array) -> None:
    targets = stream.targets[: len(directions)]
    lengths = np.linalg.norm(directions, axis=1)
    cosines = np.einsum("ij,ij->i", directions, targets) / np.where(lengths > 0.0, lengths, 1.0)
    accuracies = 1.0 - np.arccos(np.clip(cosines, -1.0, 1.0)) / math.pi
    curves["average_accuracy"].append(float(accuracies.mean()))
    curves["minimum_accuracy"].append(float(accuracies.min()))
    curves["dimension"].append(float(basis.shape[1]))
    curves["angle_degrees"].append(largest_angle(stream.subspace, basis))


def largest_angle(subspace: Array, basis: Array) -> float:
    """The largest principal angle between a subspace and the part of a basis nearest to it, in degrees."""
    if basis.shape[1] < subspace.shape[1]:
        return 90.0
    cosines = np.linalg.svd(subspace.T @ basis, compute_uv=False)
    return float(np.degrees(np.arccos(min(1.0, float(cosines[-1])))))


def run(settings: Settings, jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """All trials, on so many processes; everything outside ``timing`` is the same for every number of jobs."""
    started = time.perf_counter()
    done = each(partial(trial, settings), range(settings.trials), jobs, progress)
    methods = {name: summary([curves[name] for curves in done]) for name in STYLES}
    seconds = time.perf_counter() - started
    return {"settings": asdict(settings), "methods": methods, "timing": {"seconds": seconds, "jobs": jobs}}


def summary(trials: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Means over trials, a value a task; all trials beside them."""
    means = {name: np.mean([one[name] for one in trials], axis=0).tolist() for name in trials[0]}
    return means | {"per_trial": {name: [one[name] for one in trials] for name in trials[0]}}


def final_values(
    results: dict[str, Any], panels: dict[str, str] = PANELS
) -> list[tuple[str, dict[str, tuple[float, float]]]]:
    """Every method's values after the last task, with their standard errors over trials."""
    rows = []
    for name, method in results["methods"].items():
        values: dict[str, tuple[float, float]] = {}
        for panel in panels:
            last = np.array([one[-1] for one in method["per_trial"][panel]])
            error = float(last.std(ddof=1) / math.sqrt(len(last))) if len(last) > 1 else math.nan
            values[panel] = float(last.mean()), error
        rows.append((name, values))
    return rows


def draw(
    results: dict[str, Any],
    columns: int = 2,
    panels_of: dict[str, str] = PANELS,
    styles: dict[str, tuple[str, str]] = STYLES,
    hidden: set[tuple[str, str]] = HIDDEN,
) -> Any:
    """The four panels in so many columns, with bands of two standard errors over trials."""
    width, height = (10.0, 7.2) if columns == 2 else (5.4, 14.6)
    with house_style():
        figure, panels = new_figure(columns, width=width, height=height, rows=len(panels_of) // columns)
        for panel, (key, title) in zip(panels, panels_of.items(), strict=True):
            for name, method in results["methods"].items():
                if (key, name) not in hidden:
                    _curve(panel, np.array(method["per_trial"][key]), name, styles[name])
            panel.set(title=title, xlabel="tasks seen")
            if "accuracy" in key:
                panel.set_ylim(top=1.0)
            else:
                panel.set_ylim(bottom=0.0)
        lines, names = panels[0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside upper left", ncols=5 if columns == 2 else 2, fontsize=10)
    return figure


def _curve(panel: Any, trials: Array, name: str, style: tuple[str, str]) -> None:
    color, line = COLORS[style[0]], style[1]
    tasks, mean = np.arange(1, trials.shape[1] + 1), trials.mean(axis=0)
    panel.plot(tasks, mean, color=color, ls=line, lw=1.8, label=name)
    if len(trials) > 1:
        error = 2.0 * trials.std(axis=0, ddof=1) / math.sqrt(len(trials))
        panel.fill_between(tasks, mean - error, mean + error, color=color, alpha=0.15, lw=0)


def sentences(results: dict[str, Any]) -> list[str]:
    """What the reader sees, in words and numbers of this run."""
    settings, final = results["settings"], dict(final_values(results))
    ours, basic, ceiling = final["LLL-RR certified"], final["LLL"], final["Joint"]

    def of(values: dict[str, tuple[float, float]], panel: str) -> float:
        return values[panel][0]

    labels = f"{settings['n']} labels each" if settings["regime"] == "paper" else "labels on demand"
    return [
        f"{settings['m']} classification tasks arrive one after another, with {labels}. All of them depend on the same "
        f"{settings['k']} unknown directions out of {settings['d']} columns. Means of {settings['trials']} trials.",
        f"Basic LLL keeps every feature it learns: {of(basic, 'dimension'):.1f} of them by the end, with an average "
        f"accuracy of {of(basic, 'average_accuracy'):.3f} and {of(basic, 'minimum_accuracy'):.3f} for the worst task.",
        f"LLL-RR certified refines them into {of(ours, 'dimension'):.1f} dimensions and moves old tasks along: "
        f"{of(ours, 'average_accuracy'):.3f} on average and {of(ours, 'minimum_accuracy'):.3f} for the worst task.",
        f"Joint training, which keeps all rows of all tasks and fits them together, is the ceiling: "
        f"{of(ceiling, 'average_accuracy'):.3f} and {of(ceiling, 'minimum_accuracy'):.3f}.",
    ]


def cell(panel: str, mean: float, error: float) -> str:
    """A mean and its standard error, as the table of the report has them."""
    digits = 3 if "accuracy" in panel else 1
    spread = "" if math.isnan(error) else f" ± {error:.{digits}f}"
    return f"{mean:.{digits}f}{spread}"


def page(results: dict[str, Any], command: str) -> Page:
    """The report."""
    rows = [[name, *(cell(panel, *values[panel]) for panel in PANELS)] for name, values in final_values(results)]
    return Page(
        title="Task after task on linear features",
        sentences=sentences(results),
        figure=lambda columns: draw(results, columns),
        caption="After every task: the mean and the least accuracy of all tasks seen, the number of features, and the "
        "largest angle between the learned and the true subspace. Bands: two standard errors over trials.",
        columns=["method", "average accuracy", "least accuracy", "features", "angle in degrees"],
        rows=rows,
        settings=results["settings"],
        command=command,
        notes=[
            "LLL and LLL-RR follow the paper's letter (training error, frozen tasks, 2k - 1 dimensions); LLL-RR "
            "certified is LifelongClassifier's defaults with k given. Independent learns every task alone. Joint is "
            "fitted at 1, 2, 5, 10, 20, ... tasks and held between. Values are means ± standard errors.",
        ],
    )


def write(folder: Path, results: dict[str, Any], command: str = "everspan simulate") -> list[Path]:
    """``results.json``, ``figure.svg``, ``figure.png`` and ``report.html``."""
    return write_report(folder, results, draw(results), page(results, command))
