"""One look for all figures: readable type, colours that colour-blind readers can tell apart, SVG and PNG."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


# Fonts for scripts that matplotlib's own font lacks; those that are installed are used.
_FALLBACKS: tuple[str, ...] = (
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans CJK KR",
    "Source Han Sans",
)
_FALLBACKS += ("WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Hiragino Sans", "PingFang SC")
_FALLBACKS += ("Apple SD Gothic Neo", "Yu Gothic", "Microsoft YaHei", "Malgun Gothic", "Arial Unicode MS")
_FALLBACKS += ("Noto Sans Arabic", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Unifont")


@contextmanager
def house_style() -> Iterator[None]:
    """The context to build and to save a figure in. A character that no font has is drawn as a box, without a word."""
    from matplotlib import rc_context

    with warnings.catch_warnings(), rc_context(_STYLE | {"font.family": _families()}):
        warnings.filterwarnings("ignore", "Glyph .* missing from|Matplotlib currently does not support")
        yield


@cache
def _families() -> list[str]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return ["sans-serif", *(name for name in _FALLBACKS if name in installed)]


def plain(text: str) -> str:
    r"""Text of users for a figure, where every character stands for itself: a dollar sign begins no formula.

    Examples
    --------
    >>> from everspan.reports import plain
    >>> print(plain("price_$_per_$unit"))
    price_\$_per_\$unit
    """
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in text).replace("$", r"\$")


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
