"""What a file knows, read without loading its tasks."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators._restoring import event_of
from ..names import decoded, key_of, meanings, shown
from ..store import StoreError, checked_rows, facts_of, format_of, reading, task_rows
from ..tasks import TaskEvent

_LISTED = 20  # tasks that are listed at most, where there is a list of some
_EVENT = [field.name for field in fields(TaskEvent) if field.name not in ("task", "refinement")]


def overview(path: str | Path) -> dict[str, Any]:
    """A file in terms of JSON: what it is, how its tasks went, when it grew, who needs labels, who has changed."""
    with reading(path) as connection:
        facts = facts_of(connection)
        for _ in checked_rows(connection, "tasks"):
            pass  # every checksum is verified before anything is said of the rows
        found = {
            "file": str(path),
            "bytes": Path(path).stat().st_size,
            "format": format_of(connection),
            "library": str(facts.get("library", "everspan")),
            "kind": str(facts["kind"]),
            "columns": int(facts["columns"]),
            "table": _table_of(facts.get("table")),
            "parameters": _changed_parameters(facts["parameters"]),
            "prior": None if facts.get("prior") is None else str(facts["prior"]["kind"]),
        }
        return found | _tasks_of(connection)


def _tasks_of(connection: sqlite3.Connection) -> dict[str, Any]:
    def one(query: str) -> Any:
        return connection.execute(query).fetchone()

    count, labels, met, bounded, dimension = one(
        "SELECT count(*), total(labels_used), total(met), count(error_bound), "
        "(SELECT dimension FROM tasks ORDER BY position DESC LIMIT 1) FROM tasks"
    )
    bounds = np.array(
        [e for (e,) in connection.execute("SELECT error_bound FROM tasks WHERE error_bound IS NOT NULL")], dtype=float
    )
    errors = np.array(
        [e for (e,) in connection.execute("SELECT error FROM tasks WHERE error IS NOT NULL")], dtype=float
    )
    actions = dict.fromkeys(("reused", "grew", "updated"), 0)
    actions |= {str(a): int(n) for a, n in connection.execute("SELECT action, count(*) FROM tasks GROUP BY action")}
    growth, before = [], 0
    for position, name, learned, width in connection.execute(
        "SELECT min(position), name, features_learned, dimension FROM tasks GROUP BY features_learned ORDER BY 1"
    ):
        if int(learned) > before:
            before = int(learned)
            growth.append({"task": position + 1, "name": decoded(name), "features": before, "dimension": int(width)})
    wanting = "FROM tasks WHERE labels_wanted > labels_used"
    return {
        "tasks": int(count),
        "labels": int(labels),
        "met": int(met),
        "bounded": int(bounded),
        "dimension": int(dimension or 0),
        "features": int(before),
        "actions": actions,
        "errors": _quantiles(errors),
        "bounds": _quantiles(bounds),
        "growth": growth,
        "need_labels": {
            "tasks": int(one(f"SELECT count(*) {wanting}")[0]),
            "most": [
                {"name": decoded(name), "labels": int(used), "wanted": int(wanted), "error": float(error)}
                for name, used, wanted, error in connection.execute(
                    f"SELECT name, labels_used, labels_wanted, error {wanting} ORDER BY error DESC, position "
                    f"LIMIT {_LISTED}"
                )
            ],
        },
        "changed": [
            {"name": decoded(name), "error_on_new_rows": float(drift)}
            for name, drift in connection.execute(
                f"SELECT name, drift FROM tasks WHERE drift IS NOT NULL ORDER BY drift DESC LIMIT {_LISTED}"
            )
        ],
    }


def _quantiles(errors: Any) -> dict[str, float] | None:
    if not len(errors):
        return None
    return {
        "median": float(np.median(errors)),
        "nine_of_ten_below": float(np.quantile(errors, 0.9)),
        "largest": float(errors.max()),
    }


def _table_of(facts: Any) -> dict[str, Any] | None:
    if facts is None:
        return None
    return {
        "task_column": str(facts["task_column"]),
        "target_column": str(facts["target_column"]),
        "target": str(facts["target"]),
        "columns": [str(column["name"]) for column in facts["columns"]],
    }


def _changed_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Those that a user would look for."""
    shown = ("epsilon", "goal", "loss", "n_features", "refiner", "representation", "class_weight")
    plain = {name: parameters[name] for name in shown if name in parameters}
    return {
        name: float.fromhex(value["float"]) if isinstance(value, dict) and "float" in value else value
        for name, value in plain.items()
    }


def task_events(path: str | Path, name: str | None = None) -> list[dict[str, Any]]:
    """The events of all tasks, or of one."""
    with reading(path) as connection:
        key = None if name is None else _key(connection, name)
        if name is not None and key is None:
            raise StoreError(f"{path}: task {name!r} has not been learned")
        return [_plain(event_of(row)) for row in task_rows(connection, key)]


def _plain(event: TaskEvent) -> dict[str, Any]:
    """An event in terms of JSON."""
    values = {"name": event.task} | {name: getattr(event, name) for name in _EVENT}
    return values | {"error": None if math.isnan(event.error) else event.error}


def _key(connection: sqlite3.Connection, text: str) -> str | None:
    """The key of the task that a user means by a text."""
    keys = map(key_of, meanings(text))
    return next((k for k in keys if connection.execute("SELECT 1 FROM tasks WHERE key = ?", (k,)).fetchone()), None)


def overview_lines(found: dict[str, Any]) -> list[str]:
    """An overview, to be read."""
    table, errors, actions = found["table"], found["errors"], found["actions"]
    what = "classes" if found["kind"] != "LifelongRegressor" else "numbers"
    lines = [f"{found['file']}: {found['kind']}, {size_of(found['bytes'])}, written by {found['library']}"]
    if table is not None:
        lines.append(
            f"predicts {table['target_column']!r} ({what}) of every {table['task_column']!r} from "
            f"{counted(len(table['columns']), 'column')} ({found['columns']} numbers)"
        )
    lines.append(
        f"{counted(found['tasks'], 'task')}, {counted(found['labels'], 'label')}; "
        f"{counted(found['dimension'], 'dimension')} from {counted(found['features'], 'learned feature')}"
    )
    lines.append(f"tasks that {', '.join(f'{action}: {n:,}' for action, n in actions.items() if n) or 'are none'}")
    if errors is not None:
        lines.append(
            f"estimated error: median {errors['median']:.3g}, nine of ten below {errors['nine_of_ten_below']:.3g}, "
            f"largest {errors['largest']:.3g}"
        )
    if found["bounds"] is not None:
        lines.append(
            f"proved of {counted(found['bounded'], 'task')} on rows held out: error at most "
            f"{found['bounds']['median']:.3g} for half of them, {found['bounds']['largest']:.3g} for all"
        )
    for step in found["growth"][:_LISTED]:
        lines.append(
            f"  grew at task {step['task']:,} ({name_of(step['name'])}): {counted(step['features'], 'feature')} "
            f"learned, {counted(step['dimension'], 'dimension')} kept"
        )
    if len(found["growth"]) > _LISTED:
        lines.append(f"  and {len(found['growth']) - _LISTED} times more")
    lines += wanting_lines(found["need_labels"]["tasks"], found["need_labels"]["most"])
    if found["changed"]:
        names = ", ".join(
            f"{name_of(task['name'])} (error {task['error_on_new_rows']:.2g})" for task in found["changed"][:5]
        )
        lines.append(f"seem to have changed: {names}")
    return lines


def wanting_lines(count: int, most: Sequence[dict[str, Any]]) -> list[str]:
    """Who needs labels, in a line."""
    if not count:
        return []
    shown = ", ".join(f"{name_of(t['name'])} (has {t['labels']:,}, about {t['wanted']:,} in all)" for t in most[:4])
    return [f"need more labels: {counted(count, 'task')}: {shown}{', ...' if count > 4 else ''}"]


def event_lines(events: Sequence[dict[str, Any]]) -> list[str]:
    """A table of tasks."""
    head = ("task", "action", "error", "at most", "labels", "wanted", "dimension")
    rows = [head]
    for event in events:
        bound, wanted = event["error_bound"], event["labels_wanted"]
        rows.append(
            (
                name_of(event["name"]),
                event["action"],
                "" if event["error"] is None else f"{event['error']:.3g}",
                "" if bound is None else f"{bound:.3g}",
                f"{event['labels_used']:,}",
                "" if wanted is None else f"{wanted:,}",
                str(event["dimension"]),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                row[1].ljust(widths[1]),
                *(c.rjust(w) for c, w in zip(row[2:], widths[2:], strict=True)),
            ]
        )
        for row in rows
    ]


def name_of(name: Any) -> str:
    """A task's name on one line of a terminal."""
    text = "the task" if name is None else shown(name)
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain if len(plain) <= 40 else f"{plain[:37]}..."


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def size_of(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
