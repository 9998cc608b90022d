"""What experiments leave on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..reports import save_figure


def write_results(folder: Path, results: dict[str, Any], figure: Any) -> list[Path]:
    """``results.json``, ``figure.svg`` and ``figure.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "results.json"
    data.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return [data, *save_figure(figure, folder)]
