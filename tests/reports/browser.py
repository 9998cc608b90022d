"""A page in a browser without a display."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)


def check_in_browser(text, folder, width, scheme):
    """Nothing is wider than the window, one drawing is shown, and the console stays silent.

    A window of Chromium without a display is 500 pixels wide at least: narrow enough for the phone's layout.
    """
    probe = """<script>addEventListener('load', () => {
      const shown = [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
      const wide = [...document.querySelectorAll('body *')].filter(
        element => !element.closest('svg') && element.getBoundingClientRect().right > innerWidth + 1);
      document.title = JSON.stringify({shown: shown.length, width: shown[0].getBoundingClientRect().width,
        wide: wide.map(element => element.tagName), dark: matchMedia('(prefers-color-scheme: dark)').matches,
        background: getComputedStyle(document.body).backgroundColor})
    })</script>"""
    path = folder / "report.html"
    path.write_text(text.replace("</body>", probe + "</body>"), encoding="utf-8")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
    ]
    command += [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1000", "--dump-dom"]
    command += [f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert found, done.stderr[-500:]
    seen = json.loads(html.unescape(found.group(1)))
    assert seen["shown"] == 1
    assert 0.7 * min(width, 992) < seen["width"] <= width
    assert seen["wide"] == []
    assert seen["dark"] == (scheme == "dark")
    assert seen["background"] == ("rgb(22, 24, 28)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert "CONSOLE" not in done.stderr
