"""Task after task on features that are not linear: the figure of ``everspan simulate --representation relu``.

Tasks y = sign(c_i . relu(W x) - b_i) share k ReLU units. After every task, for all tasks seen so far and by the model
as it is then: the mean and the least accuracy on rows that nobody was taught, the dimensions that a new task is tried
on, and the units that are stored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from ..estimators import LifelongClassifier, RepresentationWarning
from ..learners import TwoLayer, activations
from ..reports import Page
from ..scenarios import ReLUStream
from ..tasks import Array, Rows
from ..threads import one_thread
from . import simulate
from ._files import write_report
from ._jobs import each

PANELS = {
    "average_accuracy": "Average accuracy of the tasks seen",
    "minimum_accuracy": "Least accuracy of a task seen",
    "dimension": "Dimensions that a task is tried on",
    "units": "ReLU units stored",
}
STYLES = {
    "LLL": ("orange", "--"),
    "LLL-RR": ("blue", "-"),
    "Independent": ("grey", ":"),
    "Joint": ("green", "-"),
}
HIDDEN = {("dimension", "Independent"), ("units", "Independent"), ("dimension", "Joint")}  # as many as tasks; all units
TEST_ROWS = 1000
_STEPS, _PENALTY = 300, 5.0


@dataclass(frozen=True)
class Settings:
    """What is simulated."""

    d: int = 20
    k: int = 5
    m: int = 60
    n: int = 1000
    epsilon: float = 0.05
    trials: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        simulate.Settings(self.d, self.k, self.m, self.n, self.epsilon, self.trials, self.seed)


@one_thread
def trial(settings: Settings, index: int) -> dict[str, dict[str, list[float]]]:
    """All methods on one stream: a value a task for every panel."""
    s = settings
    stream = ReLUStream(s.d, s.k, s.m, s.n, seed=s.seed * 100_003 + index)
    return {
        "LLL": _lifelong(LifelongClassifier(s.epsilon, representation="relu", refiner=None), stream),
        "LLL-RR": _lifelong(
            LifelongClassifier(s.epsilon, representation="relu", n_features=s.k, refiner="sdp"), stream
        ),
        "Independent": _independent(stream),
        "Joint": _joint(stream, 2 * s.k),
    }


def _lifelong(model: LifelongClassifier, stream: ReLUStream) -> dict[str, list[float]]:
    curves: dict[str, list[float]] = {name: [] for name in (*PANELS, "functions", "grew", "labels")}
    tests = [stream.test(i, TEST_ROWS) for i in range(len(stream))]
    accuracies: list[float] = []
    for i, (_, X, y) in enumerate(stream):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepresentationWarning)
            event = model.learn_task(X, y, task=i)
        first = 0 if event.action == "grew" else i  # old tasks move only when the representation does
        accuracies[first:] = [model.score(tests[j].X, tests[j].y, task=j) for j in range(first, i + 1)]
        known: Any = model.representation_
        _measure(curves, accuracies, event.dimension, known.units)
        curves["functions"].append(float(event.features_learned))
        curves["grew"].append(float(event.action == "grew"))
        curves["labels"].append(float(event.labels_used))
    return curves


def _independent(stream: ReLUStream) -> dict[str, list[float]]:
    """A network a task, on its own rows."""
    curves: dict[str, list[float]] = {name: [] for name in PANELS}
    accuracies: list[float] = []
    units = 0
    for i, (_, X, y) in enumerate(stream):
        fit, test = TwoLayer().fit(Rows(X, y)), stream.test(i, TEST_ROWS)
        accuracies.append(float(np.mean((fit.scores(test.X) >= 0.0) == (test.y > 0.0))))
        units += len(fit.coef)
        _measure(curves, accuracies, i + 1, units)
    return curves


def _joint(stream: ReLUStream, units: int) -> dict[str, list[float]]:
    """One shared layer for all tasks seen, at 1, 2, 5, 10, 20, ... tasks, held between."""
    tasks = list(stream)
    X, y = np.array([task.X for task in tasks]), np.array([task.y for task in tasks])
    tests = [stream.test(i, TEST_ROWS) for i in range(len(stream))]
    curves: dict[str, list[float]] = {name: [] for name in PANELS}
    done = 0
    for mark in simulate.marks(len(stream)):
        weights, biases, combinations, intercepts = joint_network(X[:mark], y[:mark], units)
        accuracies = []
        for test, c, b in zip(tests[:mark], combinations, intercepts, strict=True):
            scores = activations(test.X, weights, biases) @ c + b
            accuracies.append(float(np.mean((scores >= 0.0) == (test.y > 0.0))))
        curve: dict[str, list[float]] = {name: [] for name in PANELS}
        _measure(curve, accuracies, units, units)
        simulate.hold(curves, curve, mark - done)
        done = mark
    return curves


def joint_network(X: Array, y: Array, units: int, starts: int = 2) -> tuple[Array, Array, Array, Array]:
    """One layer of ReLU units shared by m tasks, and a logistic regression a task on it, all fitted together.

    Returns
    -------
    weights, biases, combinations, intercepts : array of shape (units, d), (units,), (m, units), (m,)
    """
    m, n, d = X.shape
    rows, penalty = X.reshape(m * n, d), _PENALTY / (m * n)

    def split(flat: Array) -> tuple[Array, Array, Array, Array]:
        weights, rest = flat[: units * d].reshape(units, d), flat[units * d :]
        return weights, rest[:units], rest[units : units + m * units].reshape(m, units), rest[-m:]

    def loss(flat: Array) -> tuple[float, Array]:
        weights, biases, combinations, intercepts = split(flat)
        before = rows @ weights.T + biases
        outputs = np.maximum(before, 0.0)
        by_task = outputs.reshape(m, n, units)
        margins = y * (np.matmul(by_task, combinations[:, :, None])[:, :, 0] + intercepts[:, None])
        far = np.exp(-np.abs(margins))
        slope = -y * np.where(margins > 0.0, far, 1.0) / (1.0 + far) / (m * n)
        back = (slope[:, :, None] * combinations[:, None, :]).reshape(m * n, units) * (before > 0.0)
        slopes = [
            back.T @ rows + penalty * weights,
            back.sum(axis=0) + penalty * biases,
            np.matmul(slope[:, None, :], by_task)[:, 0] + penalty * combinations,
            slope.sum(axis=1),
        ]
        drawn = float(np.vdot(flat[:-m], flat[:-m]))
        value = float(np.mean(np.log1p(far) - np.minimum(margins, 0.0))) + 0.5 * penalty * drawn
        return value, np.concatenate([part.ravel() for part in slopes])

    found = []
    for start in range(starts):
        rng = np.random.default_rng([start, m])
        first = [rng.standard_normal(units * d) / np.sqrt(d), np.zeros(units), rng.standard_normal(m * units)]
        options: dict[str, Any] = {"maxiter": _STEPS, "maxcor": 20}
        flat = np.concatenate([*first, np.zeros(m)])
        found.append(minimize(loss, flat, jac=True, method="L-BFGS-B", options=options))
    return split(min(found, key=lambda one: float(one.fun)).x)


def _measure(curves: dict[str, list[float]], accuracies: list[float], dimension: int, units: int) -> None:
    curves["average_accuracy"].append(float(np.mean(accuracies)))
    curves["minimum_accuracy"].append(float(np.min(accuracies)))
    curves["dimension"].append(float(dimension))
    curves["units"].append(float(units))


def run(settings: Settings, jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """All trials; the same for every number of jobs."""
    done = each(partial(trial, settings), range(settings.trials), jobs, progress)
    methods = {name: simulate.summary([curves[name] for curves in done]) for name in STYLES}
    return {"settings": asdict(settings) | {"representation": "relu"}, "methods": methods}


def final_values(results: dict[str, Any]) -> list[tuple[str, dict[str, tuple[float, float]]]]:
    """Every method's values after the last task, with their standard errors over trials."""
    return simulate.final_values(results, PANELS)


def draw(results: dict[str, Any], columns: int = 2) -> Any:
    """The four panels."""
    return simulate.draw(results, columns, PANELS, STYLES, HIDDEN)


def sentences(results: dict[str, Any]) -> list[str]:
    """What the reader sees, in words and numbers of this run."""
    s, final = results["settings"], dict(final_values(results))
    ours = results["methods"]["LLL-RR"]
    grew = np.array(ours["per_trial"]["grew"])
    last = {name: {panel: value[0] for panel, value in values.items()} for name, values in final.items()}
    return [
        f"{s['m']} classification tasks arrive one after another, with {s['n']} labels each. All of them are "
        f"combinations of the same {s['k']} unknown ReLU units of {s['d']} columns. Means of {s['trials']} trials.",
        f"LLL-RR learns {ours['functions'][-1]:.1f} functions, {grew[:, : s['m'] // 4].sum(axis=1).mean():.1f} of them "
        f"in the first {s['m'] // 4} tasks, and refines them into {last['LLL-RR']['dimension']:.1f} dimensions made of "
        f"{last['LLL-RR']['units']:.1f} units: {last['LLL-RR']['average_accuracy']:.3f} on average.",
        f"A network a task reaches {last['Independent']['average_accuracy']:.3f} from the same labels; one shared "
        f"layer, fitted to all rows of all tasks together, {last['Joint']['average_accuracy']:.3f}.",
    ]


def page(results: dict[str, Any], command: str) -> Page:
    """The report."""
    rows = [
        [name, *(simulate.cell(panel, *values[panel]) for panel in PANELS)] for name, values in final_values(results)
    ]
    return Page(
        title="Task after task on features that are not linear",
        sentences=sentences(results),
        figure=lambda columns: draw(results, columns),
        caption="After every task: the mean and the least accuracy of all tasks seen, the dimensions that a new task "
        "is tried on, and the units stored. Bands: two standard errors over trials.",
        columns=["method", "average accuracy", "least accuracy", "dimensions", "units"],
        rows=rows,
        settings=results["settings"],
        command=command,
        notes=[
            'LLL and LLL-RR are LifelongClassifier(representation="relu"), without and with refinement. A task that '
            "the functions do not serve is tried on all units, and learns a network of its own where these do not "
            f"serve it either. Joint has {2 * results['settings']['k']} units. Accuracies are of {TEST_ROWS:,} new "
            "rows a task.",
        ],
    )


def write(folder: Path, results: dict[str, Any], command: str) -> list[Path]:
    """``results.json``, ``figure.svg``, ``figure.png`` and ``report.html``."""
    return write_report(folder, results, draw(results), page(results, command))
