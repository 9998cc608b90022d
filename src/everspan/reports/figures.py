"""One look for all figures: readable type, colours that colour-blind readers can tell apart, SVG and PNG."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

# Okabe and Ito's palette: distinct under the common colour-vision deficiencies.
COLORS = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "yellow": "#E69F00",
    "grey": "#666666",
    "sky": "#56B4E9",
}

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#444444",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "everspan",  # the same figure is the same file
}


def house_style() -> AbstractContextManager[None]:
    """The context to build a figure in."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def new_figure(columns: int, *, width: float = 10.0, height: float = 4.0, rows: int = 1) -> tuple[Any, list[Any]]:
    """A figure with rows of panels, drawn without a display; the panels row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


def save_figure(
    figure: Any, folder: Path, name: str = "figure", formats: tuple[str, ...] = ("svg", "png")
) -> list[Path]:
    """Write ``name.svg`` and ``name.png``, without anything that differs from run to run; returns the paths."""
    paths = [folder / f"{name}.{kind}" for kind in formats]
    with house_style():
        for path in paths:
            figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
    return paths
