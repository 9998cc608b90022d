"""The page of a file: how it grew, how well every task does, what features weigh, which tasks are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reports import COLORS, Page, house_style, new_figure, plain
from ..representation import LinearRepresentation
from ..store import StaleError
from ._exporting import _names
from ._opening import open_model
from ._showing import counted, name_of, overview, task_events
from ._writing import whole

_POINTS = 5000  # tasks that are drawn at most
_ALIKE = 40  # tasks whose angles are drawn
_FEATURES, _COLUMNS = 12, 12  # drawn and listed


def report(path: str | Path, out: Path, command: str) -> Path:
    """Write the page of a file."""
    for _ in range(20):
        try:
            return _report(path, out, command)
        except StaleError:  # another process learns into it
            continue
    return _report(path, out, command)


def _report(path: str | Path, out: Path, command: str) -> Path:
    found, events, model = overview(path), task_events(path), open_model(path)
    features = _features(model, _names(model, Path(path)))
    alike = _alike(model, events)
    page = Page(
        title=f"{Path(path).name}: {counted(found['tasks'], 'task')}",
        sentences=_sentences(found),
        figure=lambda columns: _figure(columns, found, events, features, alike),
        caption=_caption(features, alike),
        heading="Tasks that need labels",
        columns=["task", "labels", "about as many would do", "estimated error"],
        rows=[
            [name_of(t["name"]), f"{t['labels']:,}", f"{t['wanted']:,}", _number(t["error"])]
            for t in found["need_labels"]["most"]
        ],
        notes=[] if found["need_labels"]["tasks"] else ["None: every task reached what was asked for."],
        settings=found["parameters"] | {"prior": found["prior"], "format": found["format"], "by": found["library"]},
        command=command,
        tables=_tables(found, features, alike),
    )
    target = out / "report.html" if out.is_dir() else out
    with whole(target, path) as part:
        part.write_text(page.html(), encoding="utf-8")
    return target


def _sentences(found: dict[str, Any]) -> list[str]:
    actions, errors, table = found["actions"], found["errors"], found["table"]
    said = []
    if table is not None:
        said.append(
            f"A model for every {table['task_column']} that predicts {table['target_column']} from "
            f"{counted(len(table['columns']), 'column')}."
        )
    said.append(
        f"{counted(found['tasks'], 'task')} with {counted(found['labels'], 'label')} in all: {actions['grew']:,} "
        f"taught the model a new feature, {actions['reused']:,} did with the features there were, "
        f"{actions['updated']:,} had more rows later. It keeps {counted(found['dimension'], 'dimension')}."
    )
    if errors is not None:
        said.append(
            f"The estimated error of half of the tasks is below {errors['median']:.3g}, of nine in ten below "
            f"{errors['nine_of_ten_below']:.3g}. {found['met']:,} of {found['tasks']:,} reached what was asked for."
        )
    if found["changed"]:
        names = ", ".join(name_of(task["name"]) for task in found["changed"][:5])
        said.append(f"Seem to have changed since they were learned: {names}.")
    return said


def _features(model: Any, names: list[str]) -> tuple[list[str], NDArray[np.float64]] | None:
    """The columns that learned features weigh most, and the features' weights on them, each of length one."""
    known = model.representation_
    if not isinstance(known, LinearRepresentation) or not len(known.features):
        return None
    weights = (
        known.features[:_FEATURES] / np.maximum(np.linalg.norm(known.features[:_FEATURES], axis=1), 1e-300)[:, None]
    )
    chosen = np.argsort(-np.square(weights).sum(axis=0), kind="stable")[:_COLUMNS]
    return [names[column] for column in chosen], weights[:, chosen]


def _alike(model: Any, events: list[dict[str, Any]]) -> tuple[list[str], NDArray[np.float64]] | None:
    """Tasks with the most labels in an order that brings like ones together, and the cosines of their directions."""
    if not hasattr(model, "linear_predictor") or not isinstance(model.representation_, LinearRepresentation):
        return None
    most = sorted(range(len(events)), key=lambda i: (-events[i]["labels_used"], i))[: 3 * _ALIKE]
    names: list[str] = []
    rows = []
    for place in most:
        weights, _ = model.linear_predictor(task=events[place]["name"])
        length = np.linalg.norm(weights[0])
        if len(weights) == 1 and length > 0.0 and len(names) < _ALIKE:
            names.append(name_of(events[place]["name"]))
            rows.append(weights[0] / length)
    if len(names) < 3:
        return None
    cosines = np.clip(np.array(rows) @ np.array(rows).T, -1.0, 1.0)
    order = _ordered(cosines)
    return [names[i] for i in order], cosines[np.ix_(order, order)]


def _ordered(cosines: NDArray[np.float64]) -> list[int]:
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    away = 1.0 - cosines
    np.fill_diagonal(away, 0.0)
    leaves: list[int] = leaves_list(linkage(squareform(away, checks=False), "average", optimal_ordering=True)).tolist()
    return leaves


def _figure(columns: int, found: dict[str, Any], events: list[dict[str, Any]], features: Any, alike: Any) -> Any:
    panels = 2 + (features is not None) + (alike is not None)
    rows = -(-panels // columns)
    with house_style():
        figure, axes = new_figure(columns, width=5.0 * columns, height=3.9 * rows, rows=rows)
        _growth(axes[0], found, events)
        _errors(axes[1], found, events)
        rest = list(axes[2:])
        if features is not None:
            names, weights = features
            labels = [f"feature {i + 1}" for i in range(len(weights))]
            _heat(figure, rest.pop(0), "What features weigh", weights.T, labels, names)
        if alike is not None:
            names, cosines = alike
            shown = names if len(names) <= 20 else []
            _heat(figure, rest.pop(0), "Tasks alike (cosine of their weights)", cosines, shown, shown)
        for axis in rest:
            axis.set_axis_off()
    return figure


def _growth(axis: Any, found: dict[str, Any], events: list[dict[str, Any]]) -> None:
    positions = range(1, len(events) + 1)
    learned, kept = ([event[name] for event in events] for name in ("features_learned", "dimension"))
    axis.step(positions, kept, where="post", color=COLORS["blue"], lw=2.5, label="dimensions kept")
    axis.step(positions, learned, where="post", color=COLORS["orange"], ls="--", label="features learned")
    axis.set(title="Growth", xlabel="tasks", ylim=(0, 1.15 * max([1, *learned])))
    axis.yaxis.get_major_locator().set_params(integer=True)
    axis.legend(loc="lower right")


def _errors(axis: Any, found: dict[str, Any], events: list[dict[str, Any]]) -> None:
    step = -(-len(events) // _POINTS)
    drawn = [(i + 1, event) for i, event in enumerate(events) if event["error"] is not None][:: max(1, step)]
    for action, color, marker in (("reused", "blue", "o"), ("updated", "green", "s"), ("grew", "orange", "^")):
        chosen = [(i, event) for i, event in drawn if event["action"] == action]
        if chosen:
            style = {"color": COLORS[color], "marker": marker, "s": 14, "label": action, "alpha": 0.7, "lw": 0}
            axis.scatter([i for i, _ in chosen], [event["error"] for _, event in chosen], **style)
    bounded = [(i, event["error"], event["error_bound"]) for i, event in drawn if event["error_bound"] is not None]
    if bounded:
        axis.vlines(*zip(*bounded, strict=True), color=COLORS["grey"], lw=0.8, label="to the bound")
    axis.set(title="Estimated error of every task", xlabel="tasks")
    axis.set_ylim(bottom=0)
    if drawn:
        axis.legend(loc="upper right", ncols=2, fontsize=8)


def _heat(figure: Any, axis: Any, title: str, values: Any, across: list[str], down: list[str]) -> None:
    drawn = axis.imshow(values, cmap="RdBu_r", vmin=-1.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axis.set(title=title)
    axis.grid(False)
    turned = 90 if len(across) > 4 else 0
    axis.set_xticks(range(len(across)), [_short(name) for name in across], rotation=turned, fontsize=7)
    axis.set_yticks(range(len(down)), [_short(name) for name in down], fontsize=7)
    figure.colorbar(drawn, ax=axis, fraction=0.04)


def _short(name: str) -> str:
    return plain(name if len(name) <= 22 else f"{name[:19]}...")


def _caption(features: Any, alike: Any) -> str:
    said = (
        "Features learned and dimensions kept, task after task; the estimated error of every task, with a line up to "
    )
    said += "its bound where there is one"
    if features is not None:
        said += "; the weights of learned features on the columns they weigh most (all on one scale)"
    if alike is not None:
        said += f"; how alike the {len(alike[0])} tasks with the most labels are, like ones side by side"
    return said + "."


def _tables(found: dict[str, Any], features: Any, alike: Any) -> list[Any]:
    tables: list[Any] = [
        (
            "Growth",
            "The tasks that taught the model a new feature.",
            ["task", "place in the stream", "features learned", "dimensions kept"],
            [
                [name_of(step["name"]), f"{step['task']:,}", str(step["features"]), str(step["dimension"])]
                for step in found["growth"][:50]
            ],
        )
    ]
    if features is not None:
        names, weights = features
        rows = []
        for place, row in enumerate(weights):
            best = np.argsort(-np.abs(row), kind="stable")[:4]
            rows.append([f"feature {place + 1}", ", ".join(f"{names[i]} {row[i]:+.2f}" for i in best)])
        tables.append(("Features", "The columns that each weighs most.", ["feature", "weights"], rows))
    if alike is not None:
        tables.append(
            ("Tasks most alike", "By the angle between their weights.", ["task", "and", "degrees"], _pairs(*alike))
        )
    return tables


def _pairs(names: list[str], cosines: NDArray[np.float64]) -> list[list[str]]:
    first, second = np.triu_indices(len(names), 1)
    order = np.argsort(-cosines[first, second], kind="stable")[:10]
    angles = np.degrees(np.arccos(cosines[first, second]))
    return [[names[first[i]], names[second[i]], f"{angles[i]:.0f}"] for i in order]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.3g}"
