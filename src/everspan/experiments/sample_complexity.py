"""Labels on demand, counted: how they grow with d, k, 1 / epsilon and m, beside what the theorems say.

The unmodified loop asks for labels until it has proof. Labels of tasks that taught a feature (growth) and of tasks that
were learned on features (reuse) are counted apart: the theorems bound them by different terms. "A reuse" is the mean of
the latter, free of how many of the m tasks they are. An exponent is the slope
of log labels over log size, one a trial; its interval is Student's over trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import stdtrit

from ..estimators import LifelongClassifier, LifelongRegressor
from ..reports import COLORS, house_style, new_figure
from ..scenarios import LinearStream
from ..theory import Bound, Setting, balcan_parameters, theorem_4, theorem_7
from ..threads import one_thread
from ._files import write_results
from ._jobs import each
from .rivals import MOST, RIVALS, labels_needed

Axis = Literal["d", "k", "epsilon", "m"]
AXES: tuple[Axis, ...] = ("d", "k", "epsilon", "m")
SIZES = {"d": "columns d", "k": "shared features k", "epsilon": "1 / epsilon", "m": "tasks m"}
PARTS = ("classification", "parameters", "regression")
LLL_RR, BALCAN = "LLL-RR", "LLL, parameters of Balcan et al."
THEORY: dict[str, Callable[[Setting], Bound]] = {
    LLL_RR: theorem_4,
    BALCAN: theorem_7,
}
METHODS = (*THEORY, *RIVALS)
POWERS: dict[tuple[str, str], dict[Axis, float]] = {
    (LLL_RR, "growth"): {"d": 1.0, "k": 1.5, "epsilon": 1.0, "m": 0.0},
    (LLL_RR, "reuse"): {"d": 0.0, "k": 1.0, "epsilon": 1.0, "m": 1.0},
    (LLL_RR, "a reuse"): {"d": 0.0, "k": 1.0, "epsilon": 1.0, "m": 0.0},
    (BALCAN, "growth"): {"d": 1.0, "k": 2.0, "epsilon": 2.0, "m": 0.0},
    (BALCAN, "reuse"): {"d": 0.0, "k": 1.0, "epsilon": 1.0, "m": 1.0},
    (BALCAN, "a reuse"): {"d": 0.0, "k": 1.0, "epsilon": 1.0, "m": 0.0},
}


@dataclass(frozen=True)
class Settings:
    """What is counted: from this middle, one size at a time is halved, kept, doubled, and taken four times.

    Balcan et al.'s parameters ask for so much accuracy that they are compared in a smaller setting of their own.
    """

    d: int = 60
    k: int = 4
    m: int = 40
    epsilon: float = 0.1
    trials: int = 5
    seed: int = 0
    axes: tuple[Axis, ...] = AXES
    factors: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)
    small_d: int = 40
    small_epsilon: float = 0.2
    small_k: tuple[int, ...] = (2, 3, 4, 6, 8)

    def __post_init__(self) -> None:
        if min(self.d, self.k, self.m, self.trials, self.small_d, *self.small_k) < 1:
            raise ValueError("d, k, m and trials must be at least 1")
        if self.trials < 2:
            raise ValueError("an interval needs 2 trials or more")
        if not self.axes or any(axis not in AXES for axis in self.axes):
            raise ValueError(f"axes must be some of {', '.join(AXES)}, but they are {', '.join(self.axes)}")
        if len(set(self.factors)) < 2 or min(self.factors) <= 0.0:
            raise ValueError(f"factors must be two or more and above zero, but they are {self.factors}")
        for axis in self.axes:
            for value in self.values(axis):
                self.at(axis, value).check()

    def values(self, axis: Axis) -> list[float]:
        """The sizes along an axis; of 1 / epsilon for epsilon."""
        if axis == "epsilon":
            return [factor / self.epsilon for factor in self.factors]
        return sorted({float(max(round(factor * getattr(self, axis)), 1)) for factor in self.factors})

    def at(self, axis: Axis, value: float) -> Place:
        sizes: dict[str, Any] = {name: getattr(self, name) for name in AXES}
        return Place(**(sizes | {axis: 1.0 / value if axis == "epsilon" else int(value)}))

    def small(self) -> list[Place]:
        """Where two ways of choosing parameters are compared: a place a number of features that fits."""
        if "k" not in self.axes:
            return []
        fit = [k for k in self.small_k if k <= min(self.m, self.small_d)]
        return [Place(self.small_d, k, self.m, self.small_epsilon) for k in fit] if len(fit) > 1 else []


@dataclass(frozen=True)
class Place:
    """One size of everything."""

    d: int
    k: int
    m: int
    epsilon: float

    def check(self) -> None:
        Setting(self.d, self.k, self.m, self.epsilon)
        if self.epsilon >= 0.5:
            raise ValueError(f"epsilon must stay below 0.5, but it comes to {self.epsilon}")
        if self.k > self.m:
            raise ValueError(f"{self.m} tasks cannot show {self.k} features: m must be at least k everywhere")


class Piece(NamedTuple):
    """One stream to be counted by one method."""

    part: str
    axis: Axis
    value: float
    place: Place
    method: str
    seed: int


@one_thread
def count(piece: Piece) -> dict[str, float]:
    """Labels of one method on one stream, and the worst task's true error."""
    place = piece.place
    kind: Literal["classification", "regression"] = "regression" if piece.part == "regression" else "classification"
    stream = LinearStream(place.d, place.k, place.m, kind=kind, seed=piece.seed)
    if piece.method in RIVALS:
        needed = labels_needed(piece.method, stream, place.k, place.epsilon)
        return {"labels": math.nan if needed is None else float(needed)}
    return _loop(piece, stream, kind)


def _loop(piece: Piece, stream: LinearStream, kind: str) -> dict[str, float]:
    """The unmodified loop on labels on demand."""
    place = piece.place
    given: dict[str, Any] = {"n_features": place.k, "refiner": "sdp", "accept": "bound", "fit_intercept": False}
    given["max_labels"] = MOST
    if piece.method == BALCAN:
        accuracy = balcan_parameters(place.epsilon, place.k)[1]
        if kind == "regression":  # the same proof in squared distances, with c1 = c2 = 1
            accuracy = (place.epsilon / (16.0 * place.k)) ** 2
        given |= {"refiner": None, "epsilon_acc": accuracy}
    model = (LifelongRegressor if kind == "regression" else LifelongClassifier)(place.epsilon, **given)
    labels, tasks, worst = {"grew": 0, "reused": 0}, {"grew": 0, "reused": 0}, 0.0
    for i in range(len(stream)):
        event = model.learn_task(stream.source(i), task=i)
        labels[event.action] += event.labels_used
        tasks[event.action] += 1
    for i, target in enumerate(stream.targets):
        if isinstance(model, LifelongRegressor):
            error = float(np.square(model.predict(np.eye(place.d), task=i) - target).sum())
        else:
            direction = model.linear_predictor(task=i)[0][0]
            error = math.acos(min(float(direction @ target) / float(np.linalg.norm(direction)), 1.0)) / math.pi
        worst = max(worst, error)
    return {
        "growth": float(labels["grew"]),
        "reuse": float(labels["reused"]),
        "a reuse": labels["reused"] / max(tasks["reused"], 1),
        "labels": float(labels["grew"] + labels["reused"]),
        "features": float(len(model.representation_.features)),
        "worst_error": worst,
    }


def pieces(settings: Settings) -> list[Piece]:
    """All that is to be counted, the longest first so that no process waits for one at the end."""
    found = []
    for trial in range(settings.trials):
        seed = settings.seed * 100_003 + trial
        for axis in dict.fromkeys(settings.axes):
            for value in settings.values(axis):
                place = settings.at(axis, value)
                found.append(Piece("classification", axis, value, place, LLL_RR, seed))
                found += [Piece("regression", axis, value, place, name, seed) for name in METHODS]
        for place in settings.small():
            found += [Piece("parameters", "k", float(place.k), place, name, seed) for name in (LLL_RR, BALCAN)]
    return sorted(found, key=_effort, reverse=True)


def _effort(piece: Piece) -> float:
    place = piece.place
    accuracy = place.epsilon / math.sqrt(place.k) if piece.method == LLL_RR else place.epsilon**2 / place.k
    return place.d**2 * place.k / accuracy


def run(settings: Settings, jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """Everything counted, and the exponents; the same for every number of jobs."""
    todo = pieces(settings)
    counted = each(count, todo, jobs, progress)
    parts: dict[str, Any] = {}
    for piece, found in sorted(zip(todo, counted, strict=True), key=lambda pair: (pair[0].value, pair[0].seed)):
        where = parts.setdefault(piece.part, {}).setdefault(piece.axis, {})
        points = where.setdefault(piece.method, {})
        points.setdefault(piece.value, {})[piece.seed] = found
    tables = {
        part: {axis: _tables(parts[part][axis]) for axis in AXES if axis in parts[part]}
        for part in PARTS
        if part in parts
    }
    record = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items()}
    return {"settings": record, "parts": tables, "exponents": exponents(settings, tables)}


def _tables(methods: dict[str, dict[float, dict[int, dict[str, float]]]]) -> dict[str, Any]:
    """Values along the axis; for every method and quantity a row a value with a number a trial."""
    values = sorted(next(iter(methods.values())))
    return {
        "values": values,
        "methods": {
            name: {
                what: [[_number(points[value][seed][what]) for seed in sorted(points[value])] for value in values]
                for what in next(iter(points[values[0]].values()))
            }
            for name, points in ((name, methods[name]) for name in METHODS if name in methods)
        },
    }


def _number(value: float) -> float | None:
    """None where there is no number: JSON has nothing else for it."""
    return None if math.isnan(value) else value


def exponent(values: Sequence[float], labels: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """The slope of log labels over log values, and its 95% interval over trials (labels: a row a value).

    Examples
    --------
    >>> from everspan.experiments.sample_complexity import exponent
    >>> [round(number, 6) for number in exponent([1, 2, 4], [[3, 5], [12, 20], [48, 80]])]
    [2.0, 2.0, 2.0]
    """
    across = np.log(np.asarray(values, dtype=float))
    across = across - across.mean()
    slopes = across @ np.log(np.asarray(labels, dtype=float)) / float(across @ across)
    mean, trials = float(slopes.mean()), len(slopes)
    margin = float(stdtrit(trials - 1, 0.975)) * float(slopes.std(ddof=1)) / math.sqrt(trials)
    return mean, mean - margin, mean + margin


def exponents(settings: Settings, tables: dict[str, Any]) -> list[dict[str, Any]]:
    """Of all quantities that are counted, beside those of the theorems over the same sizes."""
    found = []
    for part, axes in tables.items():
        for axis, table in axes.items():
            for method, quantities in table["methods"].items():
                for what in ("labels",) if part == "regression" else ("growth", "reuse", "a reuse"):
                    if not np.min(np.asarray(quantities[what], dtype=float)) > 0.0:
                        continue  # none of this kind, or more than were looked for: there is no logarithm
                    slope, low, high = exponent(table["values"], quantities[what])
                    places = partial(_places, settings, part, axis)
                    found.append(
                        {
                            "part": part,
                            "axis": axis,
                            "method": method,
                            "what": what,
                            "exponent": slope,
                            "interval": [low, high],
                            "theory": POWERS[method, what][axis] if part != "regression" else None,
                            "theory_over_this_range": None
                            if part == "regression"
                            else _by_theory(method, what, table["values"], places),
                        }
                    )
    return found


def _places(settings: Settings, part: str, axis: Axis, value: float) -> Place:
    if part == "parameters":
        return next(place for place in settings.small() if place.k == value)
    return settings.at(axis, value)


def _by_theory(method: str, what: str, values: list[float], place: Callable[[float], Place]) -> float:
    """The slope of the theorem's own formula, logarithms included where it has them."""
    numbers = []
    for value in values:
        at = place(value)
        bound = THEORY[method](Setting(at.d, at.k, at.m, at.epsilon))
        own = {"growth": bound.growth_labels, "reuse": bound.reuse_labels}
        numbers.append((own | {"a reuse": bound.reuse_labels / at.m})[what])
    return exponent(values, [[number, number] for number in numbers])[0]


STYLES = {
    LLL_RR: ("blue", "o-"),
    BALCAN: ("orange", "s--"),
    "all at once (Du et al.)": ("green", "^-."),
    "moments (Tripuraneni et al.)": ("purple", "v:"),
    "every task by itself": ("grey", "x:"),
}


def draw(results: dict[str, Any]) -> Any:
    """A column an axis: labels of the loop (above), of all methods on regression (below); last, both parameters."""
    parts, axes = results["parts"], list(dict.fromkeys(results["settings"]["axes"]))
    columns = len(axes) + ("parameters" in parts)
    with house_style():
        figure, panels = new_figure(columns, width=3.3 * columns, height=6.6, rows=2)
        for place, axis in enumerate(axes):
            _panel(panels[place], results, "classification", axis, ("growth", "reuse"))
            _panel(panels[columns + place], results, "regression", axis, ("labels",))
        if "parameters" in parts:
            _panel(panels[columns - 1], results, "parameters", "k", ("growth",))
            panels[2 * columns - 1].axis("off")
        panels[0].set_ylabel("classification: labels to grow, to reuse")
        panels[columns].set_ylabel("regression: all labels")
        handles: dict[str, Any] = {}
        for panel in panels:
            lines, names = panel.get_legend_handles_labels()
            handles |= dict(zip(names, lines, strict=True))
        figure.legend(handles.values(), handles, loc="outside upper left", ncols=4, fontsize=9)
    return figure


def _panel(panel: Any, results: dict[str, Any], part: str, axis: Axis, quantities: Sequence[str]) -> None:
    table = results["parts"][part][axis]
    for method, counted in table["methods"].items():
        color, style = STYLES[method]
        for what in quantities:
            means = np.mean(np.asarray(counted[what], dtype=float), axis=1)
            shade = COLORS["yellow"] if what == "reuse" else COLORS[color]
            name = f"{method}, reuse" if what == "reuse" else method
            panel.plot(table["values"], means, style, color=shade, ms=4, lw=1.5, label=name)
    panel.set(xscale="log", yscale="log", xlabel=SIZES[axis], xticks=table["values"])
    panel.set_xticklabels([f"{value:g}" for value in table["values"]])
    panel.minorticks_off()
    from matplotlib.ticker import FuncFormatter, LogLocator

    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    if part == "parameters":
        panel.set_title("Two choices of accuracy", fontsize=10)


def lines(results: dict[str, Any]) -> list[str]:
    """A table of exponents."""
    text = [
        "labels grow as size^exponent; theory: its power, and its formula's slope here, logarithms included",
        f"{'':15s} {'of':8s} {'method':32s} {'labels':7s} exponent  {'95% interval':14s}  theory  slope",
    ]
    for one in results["exponents"]:
        low, high = one["interval"]
        size = "1/eps" if one["axis"] == "epsilon" else one["axis"]
        power = "" if one["theory"] is None else f"{one['theory']:.1f}"
        slope = "" if one["theory_over_this_range"] is None else f"{one['theory_over_this_range']:.2f}"
        text.append(
            f"{one['part']:15s} {size:8s} {one['method']:32s} {one['what']:7s} {one['exponent']:8.2f}  "
            f"{low:5.2f} to {high:5.2f}  {power:>6s}  {slope:>5s}"
        )
    return text


def write(folder: Path, results: dict[str, Any]) -> list[Path]:
    """``results.json``, ``figure.svg`` and ``figure.png``."""
    return write_results(folder, results, draw(results))
