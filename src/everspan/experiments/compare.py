"""Class-incremental runs side by side: the two panels of the paper's CIFAR-100 figure (Section 5.2) and a table."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..metrics import IncrementalResult, checked_results
from ..reports import COLORS, Page, house_style, new_figure, plain, save_figure
from ..untrusted import one_line, parse_json, read_whole

_MOST_BYTES = 1 << 25  # of a results.json: one of 1,000 tasks has about 20 MB

_SAID = 2  # settings that a label says, where there are many more
_LINES = ("-", "--", "-.", ":")
_LEGEND = {"handlelength": 4.2, "numpoints": 2}  # a line so long, and free between its ends, that one sees which it is
_PROTOCOL = ("data", "increment", "first", "memory_total", "memory_per_class", "held_out")
_EVERYWHERE = ("digits", "cifar10", "cifar100")  # the same images wherever they lie
NAMES = {
    "bic": "BiC",
    "finetune": "Finetune",
    "hlll": "H-LLL",
    "hlll-rr": "H-LLL-RR",
    "icarl": "iCaRL",
    "joint": "Joint",
    "replay": "Replay",
    "rpsnet": "RPSNet",
    "wa": "WA",
}
FIGURES = {
    "average_incremental_accuracy": "average incremental accuracy",
    "last_accuracy": "last accuracy",
    "forgetting": "forgetting",
    "parameters": "parameters",
    "exemplars": "exemplars",
    "seconds": "seconds",
    "images_per_second": "images/s",
}


def read_runs(folders: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """Results by label: runs that differ in nothing but seed and class order, and in how far they are, are trials."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for file in dict.fromkeys(_results_of(path).resolve() for path in folders):
        results = _read(file)
        same = {name: value for name, value in results["settings"].items() if name not in ("seed", "class_order")}
        same["data"] = _images(results)
        groups.setdefault(json.dumps([same, results["tasks_done"]], sort_keys=True), []).append(results)
    return dict(zip(_labels(list(groups.values())), groups.values(), strict=True))


def _results_of(path: Path) -> Path:
    file = path / "results.json" if path.is_dir() else path
    if not file.exists():
        if (path / "settings.json").exists():
            raise ValueError(f"the run in {path} has done no task yet: there is nothing to compare")
        raise ValueError(f"{path} holds no results of a run (no results.json)")
    return file


def _images(results: dict[str, Any]) -> Any:
    """What images a run saw: the same folder or file may have another name, and another one the same."""
    data = results["settings"].get("data")
    return data if data in _EVERYWHERE else results.get("images_digest", data)


def _read(file: Path) -> dict[str, Any]:
    try:
        results = parse_json(read_whole(file, _MOST_BYTES))
    except ValueError as error:
        raise ValueError(f"{file} cannot be read: {one_line(error)}") from error
    try:
        return checked_results(results)
    except ValueError as error:
        raise ValueError(f"{file} holds no results of everspan incremental: {one_line(error)}") from error


def _labels(groups: list[list[dict[str, Any]]]) -> list[str]:
    """The method's name; its recipe and then the settings that tell it from the others, where they are needed.

    ``paper`` goes without saying where a method has no other recipe, and so does what most runs of a recipe have.
    """
    settings = [group[0]["settings"] for group in groups]
    labels = [NAMES.get(s["method"], one_line(s["method"], 60)) for s in settings]
    said: list[list[str]] = []
    for i, own in enumerate(settings):
        others = [other for other in settings if other["recipe"] != own["recipe"]]
        if any(own["recipe"] != "paper" or other["method"] == own["method"] for other in others):
            labels[i] += f" {one_line(own['recipe'], 60)}"
        kind = own["method"], own["recipe"]
        twins = [other for j, other in enumerate(settings) if j != i and (other["method"], other["recipe"]) == kind]
        alike = [group for group in groups if group[0]["settings"] in [own, *twins]]
        names = {name for twin in twins for name in {**own, **twin} if _said(name, twin) != _said(name, own)}
        rare = []
        for name in names - {"seed", "class_order", "recipe"}:
            having = sum(len(group) for group in alike if _said(name, group[0]["settings"]) == _said(name, own))
            if 2 * having <= sum(map(len, alike)):
                rare.append((having, _said(name, own)))
        said.append([text for _, text in sorted(rare)])  # what fewest have comes first
    short = [_joined(label, few, _SAID) for label, few in zip(labels, said, strict=True)]
    labels = [
        _joined(label, few, _SAID if short.count(short[i]) == 1 else len(few))
        for i, (label, few) in enumerate(zip(labels, said, strict=True))
    ]
    for i, group in enumerate(groups):
        if group[0]["tasks_done"] < group[0]["tasks"]:
            labels[i] += f" ({group[0]['tasks_done']} of {group[0]['tasks']} tasks)"
    return [label + " '" * labels[:i].count(label) for i, label in enumerate(labels)]


def _joined(label: str, said: list[str], most: int) -> str:
    """The label and so many of its settings; one more, rather than a word that there is one more."""
    if len(said) > most + 1:
        said = [*said[:most], f"and {len(said) - most} more"]
    return " ".join([label, *said])


def _said(name: str, settings: dict[str, Any]) -> str:
    if name not in settings:
        return f"without {name}"
    value = settings[name]
    if isinstance(value, str | list):
        return f"{name}={one_line(value, 60)}"
    return f"{name}={value:g}" if isinstance(value, float) and float(f"{value:g}") == value else f"{name}={value}"


def differences(groups: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Sentences about what makes these runs hard to compare."""
    notes = []
    seen = {_images(run): run["settings"].get("data") for runs in groups.values() for run in runs}
    if len(seen) > len(set(seen.values())):
        twice = next(name for name in seen.values() if list(seen.values()).count(name) > 1)
        notes.append(
            f"Not all of these runs saw the same images, though they are called {one_line(twice, 60)} in more than one."
        )
    for name in _PROTOCOL:
        values = {json.dumps(run["settings"].get(name)) for runs in groups.values() for run in runs}
        if len(values) > 1 and (name != "data" or len(seen) > 1):
            notes.append(f"These runs are of different protocols: {name} is {' or '.join(sorted(values))}.")
    for label, runs in groups.items():
        trials = [json.dumps([run["settings"].get("seed"), run["settings"].get("class_order")]) for run in runs]
        if len(set(trials)) < len(trials):
            notes.append(f"Some runs of {label} have the same seed and class order: they are no trials of their own.")
        for run in runs:
            if run["tasks_done"] < run["tasks"]:
                notes.append(f"A run of {label} has done {run['tasks_done']} of {run['tasks']} tasks so far.")
    return notes


def values_of(runs: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and standard error over a label's trials of every figure of the table."""
    found = {}
    for name in FIGURES:
        raw = np.array([run["timing"][name] if name in run["timing"] else run[name] for run in runs], dtype=float)
        error = float(raw.std(ddof=1) / math.sqrt(len(raw))) if len(raw) > 1 else math.nan
        found[name] = float(raw.mean()), error
    return found


def _styles(groups: dict[str, list[dict[str, Any]]]) -> list[tuple[str, str]]:
    """Color and line of every label: a color a method, and a line a recipe or, where one is there twice, a run of it.

    Where that does not tell apart all there are, or every method is there once, both change from label to label.
    """
    colors, settings = list(COLORS.values()), [runs[0]["settings"] for runs in groups.values()]
    methods, recipes = (list(dict.fromkeys(s[name] for s in settings)) for name in ("method", "recipe"))
    places = [(methods.index(s["method"]), recipes.index(s["recipe"])) for s in settings]
    if len(set(places)) < len(places):
        own = [method for method, _ in places]
        places = [(method, own[:i].count(method)) for i, method in enumerate(own)]
    if len(methods) in (1, len(places)) or len(methods) > len(colors) or max(line for _, line in places) >= len(_LINES):
        # Seven colors and four lines have no common divisor: 28 labels look different.
        places = [(i % len(colors), i % len(_LINES)) for i in range(len(places))]
    return [(colors[color], _LINES[line]) for color, line in places]


def draw(groups: dict[str, list[dict[str, Any]]], columns: int = 2) -> Any:
    """Left: accuracy on all classes seen, by method. Right: by the task that brought the classes, for the first run."""
    width, height = (10.0, 4.4) if columns == 2 else (5.4, 8.8)
    below = len(groups) > 6 or max(map(len, groups)) > 30  # where the labels would lie on the curves
    abreast = max(1, int(14.0 * width) // (max(map(len, groups)) + 10))
    if below:
        height += 0.19 * -(-len(groups) // abreast)
    with house_style():
        figure, (left, right) = new_figure(columns, width=width, height=height, rows=2 // columns)
        for (label, runs), (color, line) in zip(groups.items(), _styles(groups), strict=True):
            length = min(len(run["curve"]) for run in runs)
            curves = np.array([run["curve"][:length] for run in runs])
            classes, mean = _classes_seen(runs[0])[:length], curves.mean(axis=0)
            left.plot(classes, mean, color=color, ls=line, marker="o", ms=3.5, lw=1.8, label=_in_legend(label))
            if len(runs) > 1:
                error = 2.0 * curves.std(axis=0, ddof=1) / math.sqrt(len(runs))
                left.fill_between(classes, mean - error, mean + error, color=color, alpha=0.15, lw=0)
        ticks = sorted({classes for runs in groups.values() for classes in _classes_seen(runs[0])})
        left.set(title="Accuracy on all classes seen (%)", xlabel="classes seen", xticks=ticks[:: -(-len(ticks) // 10)])
        if below:
            figure.legend(
                *left.get_legend_handles_labels(),
                fontsize=8,
                **_LEGEND,
                loc="outside lower center",
                ncols=abreast,
            )
        else:
            left.legend(fontsize=9, **_LEGEND)
        label, run = next((label, runs[0]) for label, runs in groups.items())
        _by_task(right, run)
        ticks = _classes_seen(run)
        title = plain(textwrap.fill(f"Accuracy by task, {label} (%)", 46))
        right.set(title=title, xlabel="classes seen", xticks=ticks[:: -(-len(ticks) // 10)])
    return figure


def _in_legend(label: str) -> str:
    """A label for a legend, from which matplotlib leaves out texts that begin with an underscore."""
    text = plain(label)
    return f" {text}" if text.startswith("_") else text


def _by_task(panel: Any, run: dict[str, Any]) -> None:
    from matplotlib import colormaps

    classes, matrix = _classes_seen(run), run["accuracy_matrix"]
    shades = colormaps["viridis"](np.linspace(0.25, 0.85, len(matrix)))
    for j in range(len(matrix)):
        values = [matrix[i][j] for i in range(j, len(matrix))]
        panel.plot(classes[j : len(matrix)], values, color=shades[j], marker="o", ms=3.0, lw=1.3)
    low, high = panel.get_ylim()
    gap = 0.025 * (high - low)
    heights = _apart(matrix[-1], gap)
    lowest = [low + gap * (0.5 + place) for place in range(len(heights))]  # none leaves the panel
    lifted = np.maximum(np.sort(heights), lowest)
    heights = lifted[np.argsort(np.argsort(heights, kind="stable"), kind="stable")].tolist()
    for j, height in enumerate(heights):
        panel.annotate(f" {j + 1}", (classes[len(matrix) - 1], height), fontsize=8, va="center", color=shades[j])


def _apart(values: Sequence[float], gap: float) -> list[float]:
    """Heights near the values, in their order, at least a gap from one another."""
    order = np.argsort(values, kind="stable")
    blocks: list[list[int]] = []  # of values that share a place, each with the mean of its own in the middle

    def bottom(block: list[int]) -> float:
        return float(np.mean([values[i] for i in block])) - 0.5 * gap * (len(block) - 1)

    for i in order.tolist():
        blocks.append([i])
        while len(blocks) > 1 and bottom(blocks[-1]) < bottom(blocks[-2]) + gap * len(blocks[-2]):
            last = blocks.pop()
            blocks[-1] += last
    heights = {i: bottom(block) + gap * place for block in blocks for place, i in enumerate(block)}
    return [heights[i] for i in range(len(values))]


def _classes_seen(run: dict[str, Any]) -> list[int]:
    first = run["settings"]["first"] or run["settings"]["increment"]
    return [first + i * run["settings"]["increment"] for i in range(run["tasks"])]


def table(groups: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """A row a label: the figures with their standard errors where there are several runs."""

    def cell(name: str, mean: float, error: float) -> str:
        digits = 2 if "accuracy" in name or name == "forgetting" else 0
        spread = "" if math.isnan(error) else f" ± {error:.{digits}f}"
        return f"{mean:,.{digits}f}{spread}"

    return [[label, *(cell(name, *value) for name, value in values_of(runs).items())] for label, runs in groups.items()]


def sentences(groups: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the reader sees, in words and numbers of these runs."""
    first = next(iter(groups.values()))[0]
    settings, done = first["settings"], first["tasks_done"]
    start = f"{settings['first']} classes first, then " if settings["first"] else ""
    end = "the last task" if done == first["tasks"] else f"task {done} of {first['tasks']}"

    def rank(label: str) -> tuple[bool, float]:
        """The best first; a mean over the first tasks alone, which are easier, is no match for one over all."""
        run = groups[label][0]
        return run["tasks_done"] < run["tasks"], -values_of(groups[label])["average_incremental_accuracy"][0]

    ranked = sorted(groups, key=rank)
    named = [f"{label} {values_of(groups[label])['average_incremental_accuracy'][0]:.1f}%" for label in ranked]
    result = IncrementalResult(first["correct"], first["totals"])
    judged = "images held out of training" if settings["held_out"] else "test images"
    return [
        f"{first['tasks']} tasks from {settings['data']}: {start}{settings['increment']} classes at a time; "
        f"after every task all classes seen are asked for, and nothing says which task an image is of. Judged on "
        f"{judged}.",
        f"Average incremental accuracy: {', '.join(named)}.",
        f"The right panel is {next(iter(groups))}: after {end} it is right on {result.last_accuracy:.1f}% of "
        f"all classes seen, and has lost {result.forgetting:.1f} points of its best on earlier tasks.",
    ]


def page(groups: dict[str, list[dict[str, Any]]], command: str) -> Page:
    """The report."""
    first = next(iter(groups.values()))[0]
    return Page(
        title="New classes, task after task",
        sentences=[*sentences(groups), *differences(groups)],
        figure=lambda columns: draw(groups, columns),
        caption="Left: accuracy on all classes seen after every task; bands are two standard errors where there are "
        "several runs. Right: the same for the classes of each task alone, numbered by task.",
        columns=["method", *FIGURES.values()],
        rows=table(groups),
        settings=first["settings"],
        command=command,
        notes=[
            "Accuracies in percent; the label is chosen among all classes seen. Forgetting is the mean over tasks of "
            "the best accuracy before the last step minus the last one (Chaudhry et al. 2018). The settings are those "
            "of the first run.",
        ],
    )


def write(folder: Path, groups: dict[str, list[dict[str, Any]]], command: str) -> list[Path]:
    """``figure.svg``, ``figure.png`` and ``report.html``."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report.html"
    report.write_text(page(groups, command).html(), encoding="utf-8")
    return [*save_figure(draw(groups), folder), report]
