"""What reaches the terminal, and how a command ends that is told to."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import pytest

from everspan.cli import main
from everspan.one_file import learn
from everspan.streams import data_output, signals_end_in_order, while_read

from .one_file.fuzzing import run
from .one_file.test_one_file import shops

BAD = "\x1b[31m\x07red\x9b\x7f\u202egnp.exe\r"
SAFE = r"\u001b[31m\u0007red\u009b\u007f\u202egnp.exe\u000d"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def has_escapes(text):
    return any(c in text for c in "\x1b\x07\x9b\x7f\u202e\r")


@pytest.fixture
def model(tmp_path):
    """A file whose task, column and class have names that drive a terminal."""
    frame = shops(3).rename(columns={"city": f"city{BAD}"})
    frame["shop"], frame["churn"] = frame["shop"] + BAD, frame["churn"] + BAD
    frame.to_csv(tmp_path / "a.csv", index=False, quoting=csv.QUOTE_ALL)
    learn(tmp_path / "a.everspan", tmp_path / "a.csv", target_column="churn")
    return tmp_path / "a.everspan"


def test_no_command_prints_control_characters(model, tmp_path):
    frame = shops(3).rename(columns={"u": f"u{BAD}"})
    frame.to_csv(tmp_path / "b.csv", index=False, quoting=csv.QUOTE_ALL)
    (tmp_path / "c.csv").write_text(f"task,x,y\n{BAD}\n".replace("\r", ""))
    said = ""
    for command in (
        ("learn", model, tmp_path / "a.csv"),
        ("learn", tmp_path / "new.everspan", tmp_path / "a.csv", "--target-column", "churn"),
        ("learn", model, tmp_path / "b.csv"),
        ("learn", tmp_path / "c.everspan", tmp_path / "c.csv"),
        ("show", model),
        ("show", model, "--tasks"),
        ("show", model, "--task", f"s1{BAD}"),
        ("show", model, "--task", BAD),
        ("predict", model, tmp_path / "b.csv"),
        ("export", model, "--task", BAD, "--out", tmp_path / f"{BAD}.json"),
        ("forget", model, BAD),
        ("compare", tmp_path / BAD),
        (BAD,),
    ):
        _, out, errors = run(*command)
        assert not has_escapes(out + errors), command
        said += out + errors
    assert SAFE in said


def test_json_stays_json_that_says_the_same(model):
    assert json.loads(run("show", model, "--json")[1])["tasks"] == 3
    assert f"s1{BAD}" in [task["name"] for task in json.loads(run("show", model, "--json", "--tasks")[1])]


def test_predictions_are_exact_but_on_a_terminal(model, tmp_path, monkeypatch):
    main(["predict", str(model), str(tmp_path / "a.csv"), "--out", str(tmp_path / "out.csv")])
    for out, exact in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["predict", str(model), str(tmp_path / "a.csv")]) == 0
        assert (out.getvalue().encode() == (tmp_path / "out.csv").read_bytes()) is exact
        assert has_escapes(out.getvalue()) is exact


def test_a_line_of_progress_may_begin_anew_and_text_that_has_no_encoding_is_shown(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    with while_read():
        print("\rtask 1\ta \r b")
        print("caf\udce9")
        print("plain: é 日本", file=data_output())
    assert out.buffer.getvalue().decode() == "\rtask 1\ta \\u000d b\ncaf\\udce9\nplain: é 日本\n"


STOPPED = """
import signal, sys
from everspan import cli
from everspan.tables import Grouped

inner = Grouped._tasks

def slow(self, *given):
    for task in inner(self, *given):
        print("sorted", flush=True)
        while True:
            signal.pause()
        yield task

Grouped._tasks = slow
raise SystemExit(cli.main())
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_told_to_end_leaves_no_row_on_disk(tmp_path, number):
    shops(40, 200).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "temp").mkdir()
    command = ["learn", "a.everspan", "a.csv", "--quiet", "--memory", "1MB", "--temp", "temp"]
    environment = os.environ | {"TMPDIR": str(tmp_path / "temp")}
    with subprocess.Popen(
        [sys.executable, "-c", STOPPED, *command],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "sorted\n"
        process.send_signal(number)
        _, errors = process.communicate()
    assert list((tmp_path / "temp").iterdir()) == []
    if number == signal.SIGKILL:
        return
    assert process.returncode == 128 + number
    assert errors == "everspan learn: stopped: nothing yet\n"


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_what_cleans_up_is_not_interrupted_again_and_nohup_holds():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        cleaned = False
        with signals_end_in_order() as ending:
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt:
                signal.raise_signal(signal.SIGTERM)
                cleaned = True
        assert cleaned
        assert ending.code(130) == 143
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
