"""The page: self-contained, and looked at in a browser."""

from __future__ import annotations

import re

import pytest

from everspan.reports import Page, new_figure

from .browser import check_in_browser, needs_browser


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


@needs_browser
@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_in_a_browser(page, tmp_path, width, scheme):
    check_in_browser(page.html(), tmp_path, width, scheme)
