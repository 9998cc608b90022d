"""What experiments leave on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..reports import Page, save_figure


def write_results(folder: Path, results: dict[str, Any], figure: Any) -> list[Path]:
    """``results.json``, ``figure.svg`` and ``figure.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "results.json"
    data.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return [data, *save_figure(figure, folder)]


def write_report(folder: Path, results: dict[str, Any], figure: Any, page: Page) -> list[Path]:
    """The same and ``report.html``."""
    written, report = write_results(folder, results, figure), folder / "report.html"
    report.write_text(page.html(), encoding="utf-8")
    return [*written, report]
