"""When a model grew, and what it cost: the picture of a history."""

from __future__ import annotations

from typing import Any

from ..tasks import History
from .figures import COLORS, house_style, new_figure, plain


def growth_figure(history: History, *, epsilon: float | None = None, title: str = "Growth") -> Any:
    """Features and dimensions after every task, and every task's error beside epsilon.

    Parameters
    ----------
    history : History
        The ``history_`` of an estimator.
    epsilon : float, optional
        The error asked for, drawn as a line.
    title : str
        Title of the left panel.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``everspan.reports.save_figure`` or its own ``savefig``.
    """
    events = list(history)
    positions = range(1, len(events) + 1)
    with house_style():
        figure, (left, right) = new_figure(2, height=3.6)
        learned, dimension = ([getattr(event, name) for event in events] for name in ("features_learned", "dimension"))
        left.step(positions, learned, where="mid", color=COLORS["orange"], label="features learned")
        left.step(positions, dimension, where="mid", color=COLORS["blue"], lw=2, label="dimensions kept")
        left.set(title=plain(title), xlabel="tasks", ylim=(0, 1.08 * max([1, *learned])))
        left.yaxis.get_major_locator().set_params(integer=True)
        left.legend(loc="lower right")
        for action, color, marker in (("grew", "orange", "^"), ("reused", "blue", "o")):
            chosen = [(i, event) for i, event in zip(positions, events, strict=True) if event.action == action]
            style = {"color": COLORS[color], "marker": marker, "s": 22, "label": action}
            right.scatter([i for i, _ in chosen], [event.error for _, event in chosen], **style)
        if epsilon is not None:
            right.axhline(epsilon, color=COLORS["grey"], ls="--", lw=1)
            right.annotate("epsilon", (1, epsilon), (0, 4), textcoords="offset points", fontsize=9)
        highest = max([event.error for event in events] + [epsilon or 0.0]) or 1.0
        right.set(title="Estimated error of every task", xlabel="tasks", ylim=(-0.03 * highest, 1.3 * highest))
        right.legend(loc="upper right", ncols=2)
    return figure
