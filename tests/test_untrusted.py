"""Files from strangers: regular, of a bounded size, and JSON of a bounded depth and shape."""

from __future__ import annotations

import os

import pytest

from everspan.untrusted import escaped, is_setting, misfit, one_line, parse_json, read_whole


def test_a_pipe_and_a_device_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "zero", "folder"):
        with pytest.raises(ValueError, match=f"{name} is no regular file"):
            read_whole(tmp_path / name, 10)


def test_a_file_is_measured_before_it_is_read(tmp_path):
    with (tmp_path / "hole").open("wb") as hole:
        hole.truncate(1 << 40)
    with pytest.raises(ValueError, match="has 1,099,511,627,776 bytes, but at most 10 are expected"):
        read_whole(tmp_path / "hole", 10)


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b'{"a":' * 10_000, b"[NaN]", b"[Infinity]", b"[]," * 1_000_001, b"\xff", b"", b"9" * 5000],
)
def test_json_that_is_none_is_an_error_of_value(content):
    with pytest.raises(ValueError):  # noqa: PT011 - which one is the parser's own
        parse_json(content)


def test_the_first_part_that_does_not_fit_is_named():
    shape = {"a": [{"b": is_setting}], "c?": is_setting}
    assert misfit({"a": [], "more": object()}, shape) is None
    assert misfit({"a": [{"b": 1}, {}]}, shape) == "a[1].b"
    assert misfit({"a": [{"b": 1}], "c": {}}, shape) == "c"
    assert misfit([], shape) == "it"


@pytest.mark.parametrize("value", [float("inf"), "\ud800", "z" * 5000, [[[[[1]]]]], {"a": 1}])
def test_settings_are_plain(value):
    assert not is_setting(value)
    assert is_setting(["a", 1, 0.5, None, True, [1, 2]])


def test_no_text_of_a_stranger_moves_a_terminal_s_cursor():
    text = "a\x1b[2J\u202e\r\n\tb\x9b\ud800"
    assert escaped(text).isprintable()
    assert one_line(text).isprintable()
    assert len(one_line("\x1b" * 10_000)) <= 303
