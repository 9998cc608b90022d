"""Text in figures is drawn as it is written, in any script."""

from __future__ import annotations

import logging

import pytest
from matplotlib import rcParams

from everspan.reports import figures as module
from everspan.reports import growth_figure, house_style, new_figure, plain, save_figure
from everspan.tasks import History

ODD = ["price_$_per_$unit", r"a\$b$", "$", "$$", r"\$x$y", r"$\notacommand{$", "日本", "\x00\x1b", "é"]


@pytest.mark.parametrize("text", ODD)
def test_text_of_users_is_no_mathematics(tmp_path, text):
    """Drawn, every character is there: warnings are errors in these tests."""
    with house_style():
        figure, (panel,) = new_figure(1)
        panel.plot([1, 2], [1, 2], label=plain(text))
        panel.set(title=plain(text))
        panel.set_xticks([1, 2], [plain(text), "b"])
        panel.legend()
    save_figure(figure, tmp_path)
    label = panel.get_xticklabels()[0]
    drawn = label._preprocess_math(label.get_text())
    assert drawn == ("".join(c if c.isprintable() else "?" for c in text), False)


def test_a_title_of_a_growth_figure_is_no_mathematics(tmp_path):
    figure = growth_figure(History(), title="$ to $ and 日本")
    save_figure(figure, tmp_path, formats=("svg",))
    drawn = [axes._left_title._preprocess_math(axes.get_title(loc="left")) for axes in figure.axes]
    assert ("$ to $ and 日本", False) in drawn


def test_an_installed_font_that_has_a_script_is_used_and_no_other_is_asked_for(monkeypatch, caplog):
    monkeypatch.setattr(module, "_FALLBACKS", ("DejaVu Sans Mono", "No Such Font"))
    module._families.cache_clear()
    try:
        with caplog.at_level(logging.WARNING), house_style():
            assert rcParams["font.family"] == ["sans-serif", "DejaVu Sans Mono"]
            figure, (panel,) = new_figure(1)
            panel.set(title="日本")
            figure.draw_without_rendering()
        assert not caplog.records
    finally:
        module._families.cache_clear()
