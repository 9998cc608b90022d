"""One self-contained page a run: no network, opens from a file, light and dark, wide and narrow."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .figures import house_style

_STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5a6068; --paper: #ffffff; --line: #d9dde2; --code: #f4f5f7 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ea; --soft: #a3abb5; --paper: #16181c; --line: #343a42; --code: #22262c }
  .light { display: none } .dark { display: block }
}
@media (prefers-color-scheme: light) { .dark { display: none } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, sans-serif }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem }
p, li { max-width: 46rem } figure { margin: 1.5rem 0 } figure svg { width: 100%; height: auto; display: block }
figcaption { color: var(--soft); font-size: .9rem; margin-top: .5rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); text-align: right }
th:first-child, td:first-child { text-align: left }
th { color: var(--soft); font-weight: 600; white-space: normal; vertical-align: bottom }
pre { background: var(--code); padding: .7rem .9rem; border-radius: 6px; overflow-x: auto; font-size: .9rem }
@media (max-width: 40rem) {
  .broad { display: none } table { font-size: .74rem; white-space: normal } th, td { padding-right: .35rem }
}
@media (min-width: 40.01rem) { .narrow { display: none } }
"""
_DARK: dict[Any, Any] = {
    "axes.edgecolor": "#8a929c",
    "axes.facecolor": "none",
    "axes.labelcolor": "#e6e8ea",
    "axes.titlecolor": "#e6e8ea",
    "figure.facecolor": "none",
    "grid.color": "#8a929c",
    "legend.labelcolor": "#e6e8ea",
    "text.color": "#e6e8ea",
    "xtick.color": "#c3c9d0",
    "ytick.color": "#c3c9d0",
}


@dataclass
class Page:
    """What a run has to say: sentences first, then the picture, the table, the settings, the command that made it."""

    title: str
    sentences: Sequence[str]
    figure: Callable[[int], Any]
    """A function that draws the figure in so many columns: two for wide screens, one for narrow ones."""
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    settings: dict[str, Any]
    command: str
    notes: Sequence[str] = field(default_factory=tuple)
    heading: str = "Final values"
    tables: Sequence[tuple[str, str, Sequence[str], Sequence[Sequence[str]]]] = field(default_factory=tuple)
    """More tables behind the first: heading, a sentence, columns, rows."""

    def html(self) -> str:
        """The whole page."""
        view = "<meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'>"
        head = f"{view}<title>{_text(self.title)}</title>"
        parts = [f"<!doctype html><html lang=en><head>{head}<style>{_STYLE}</style></head><body><main>"]
        parts.append(f"<h1>{_text(self.title)}</h1>")
        parts += [f"<p>{_text(sentence)}</p>" for sentence in self.sentences]
        parts.append(f"<figure role=img aria-label='{_text(self.caption)}'>")
        for columns, width in ((2, "broad"), (1, "narrow")):
            for colors, shade in (({}, "light"), (_DARK, "dark")):
                drawn = _svg(partial(self.figure, columns), colors, f"{width}-{shade}")
                parts.append(f"<div class={width}><div class={shade}>{drawn}</div></div>")
        parts.append(f"<figcaption>{_text(self.caption)}</figcaption></figure>")
        parts.append(f"<h2>{_text(self.heading)}</h2>" + _table(self.columns, self.rows))
        parts += [f"<p>{_text(note)}</p>" for note in self.notes]
        for heading, sentence, names, rows in self.tables:
            parts.append(f"<h2>{_text(heading)}</h2><p>{_text(sentence)}</p>" + _table(names, rows))
        settings = [[name, str(value)] for name, value in self.settings.items()]
        parts.append("<h2>Settings</h2>" + _table(["setting", "value"], settings))
        parts.append(f"<h2>Made by</h2><pre>{_text(self.command)}</pre>")
        parts.append("</main></body></html>\n")
        return "\n".join(parts)


def _text(value: str) -> str:
    return html.escape(value, quote=True)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _svg(draw: Callable[[], Any], colors: dict[Any, Any], prefix: str) -> str:
    """The figure as an element; names get a prefix, as two drawings on a page must not share them."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context(colors):  # new figures take the colours, and saving does too
        figure = draw()
        with house_style(), rc_context(colors):
            figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=bool(colors))
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", svg)
