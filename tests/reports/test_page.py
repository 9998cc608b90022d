"""The page: self-contained, and looked at in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from everspan.reports import Page, new_figure

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


def drawn(columns):
    figure, panels = new_figure(columns, rows=2 // columns)
    panels[0].plot([1, 2, 3], label="<one> & other")
    panels[0].legend()
    return figure


@pytest.fixture
def page():
    return Page(
        title="Tasks & <features>",
        sentences=["A sentence with <b>no markup</b> in it."],
        figure=drawn,
        caption="It's a caption",
        columns=["method", "a long name of a column", "another long name", "and one more", "the last of them"],
        rows=[["LLL-RR certified", *["0.123 ± 0.004"] * 4]],
        settings={"d": 3},
        command="everspan simulate --d 3",
    )


def test_a_page_needs_nothing_else_and_escapes_what_it_shows(page):
    text = page.html()
    assert "<b>no markup" not in text
    assert "Tasks &amp; &lt;features&gt;" in text
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", text.replace("xlink:href", "href"))
    assert "<script" not in text
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names)), "two drawings share no names"
    for target in re.findall(r'(?:url\(#|href="#)([^)"]+)', text):
        assert target in names


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_in_a_browser(page, tmp_path, width, scheme):
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
    path = tmp_path / "report.html"
    path.write_text(page.html().replace("</body>", probe + "</body>"), encoding="utf-8")
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
    ]
    command += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},1000", "--dump-dom"]
    command += [f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"<title>(.*?)</title>", done.stdout, flags=re.DOTALL)
    assert found, done.stderr[-500:]
    import html
    import json

    seen = json.loads(html.unescape(found.group(1)))
    assert seen["shown"] == 1
    assert 0.7 * min(width, 992) < seen["width"] <= width
    assert seen["wide"] == []
    assert seen["dark"] == (scheme == "dark")
    assert seen["background"] == ("rgb(22, 24, 28)" if scheme == "dark" else "rgb(255, 255, 255)")
    assert "CONSOLE" not in done.stderr
