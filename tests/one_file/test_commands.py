"""The commands from end to end: what they print, what they write, how they end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from everspan.one_file import open_model

from .fuzzing import run
from .killing import write_table
from .test_one_file import shops


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file that was learned on the command line."""
    folder = tmp_path_factory.mktemp("shop")
    shops().to_csv(folder / "a.csv", index=False)
    shops(2, 5, seed=4).drop(columns="churn").to_csv(folder / "new.csv", index=False)
    code, said, errors = run("learn", folder / "a.everspan", folder / "a.csv")
    assert (code, errors) == (0, "")
    (folder / "said").write_text(said)
    return folder


def test_learn_sums_up_in_a_few_lines(folder):
    said = (folder / "said").read_text().splitlines()
    assert said[0] == "task column: 'shop' by its name (--task-column)"
    assert said[1] == "target column: 'churn', the last (--target-column)"
    assert re.match(r"learned 30 tasks in [\d.]+ s: \d+ reused, \d grew$", said[2])
    assert "LifelongClassifier" in said[3]
    assert said[4] == "predicts 'churn' (classes) of every 'shop' from 5 columns (6 numbers)"
    assert re.match(r"30 tasks, 1,200 labels; \d dimensions from \d learned features$", said[5])
    assert len(said) <= 12
    code, again, _ = run("learn", folder / "a.everspan", folder / "a.csv")
    assert code == 0
    assert re.match(r"learned 0 tasks in [\d.]+ s: nothing new; 30 known already", again)


def test_options_make_the_model(folder, tmp_path):
    options = ["--task-column", "shop", "--target-column", "churn", "--drop", "city", "--epsilon", "0.2"]
    options += ["--goal", "absolute", "--loss", "log_loss", "--class-weight", "balanced", "--features", "2"]
    code, said, _ = run("learn", tmp_path / "b.everspan", folder / "a.csv", *options, "--memory", "1MB", "--quiet")
    assert code == 0
    assert "column:" not in said, "nothing is guessed"
    model = open_model(tmp_path / "b.everspan")
    given = (model.epsilon, model.goal, model.loss, model.class_weight, model.n_features, model.n_features_in_)
    assert given == (0.2, "absolute", "log_loss", "balanced", 2, 4)
    assert open_model(folder / "a.everspan").goal == "excess"


def test_a_text_among_numbers_and_a_column_without_a_name_are_said(tmp_path):
    lines = ["shop,,price,x,sales"]
    lines += [f"{i % 3},{i},{'?' if i == 77 else 0.37 * i},{0.5 * i},{i % 2}" for i in range(3000)]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    code, said, _ = run("learn", tmp_path / "a.everspan", tmp_path / "a.csv")
    assert code == 0
    assert "'price' is taken for texts: 2,999 of 3,000 are numbers, but there is '?'" in said
    assert "left out: 1 column without a name" in said


def test_class_weights_need_classes(tmp_path):
    rows = "".join(f"{i % 3},{0.5 * i},{0.37 * i}\n" for i in range(60))
    (tmp_path / "a.csv").write_text("shop,x,sales\n" + rows)
    code, _, errors = run("learn", tmp_path / "a.everspan", tmp_path / "a.csv", "--class-weight", "balanced")
    assert code == 2
    assert "class_weight goes with classes" in errors
    assert errors.count("\n") == 1


def test_predict_prints_or_writes(folder):
    code, said, _ = run("predict", folder / "a.everspan", folder / "new.csv", "--keep", "city")
    assert code == 0
    lines = said.splitlines()
    assert lines[0] == "shop,city,predicted churn,probability"
    assert len(lines) == 11
    assert re.match(r"s[01],[ab],(yes|no),0\.\d+$", lines[1])
    out = folder / "out.csv"
    assert run("predict", folder / "a.everspan", folder / "new.csv", "--keep", "city", "--out", out)[1] == (
        f"wrote {out}: 10 rows\n"
    )
    assert out.read_text() == said
    pd.read_csv(folder / "new.csv").assign(shop="nobody").to_csv(folder / "nobody.csv", index=False)
    code, _, errors = run("predict", folder / "a.everspan", folder / "nobody.csv")
    assert code == 0
    assert errors == "10 of 10 rows are of unknown tasks, like 'nobody': no prediction (--unseen prior has one)\n"
    code, said, errors = run("predict", folder / "a.everspan", folder / "nobody.csv", "--unseen", "prior")
    assert (code, errors) == (0, "")
    assert all(",yes," in line or ",no," in line for line in said.splitlines()[1:])


def test_show(folder):
    code, said, _ = run("show", folder / "a.everspan", "--json")
    assert code == 0
    assert json.loads(said)["tasks"] == 30
    said = run("show", folder / "a.everspan", "--tasks")[1]
    assert len(said.splitlines()) == 31
    assert len(json.loads(run("show", folder / "a.everspan", "--task", "s3", "--json")[1])) == 1
    assert run("show", folder / "a.everspan", "--task", "s99")[0] == 2


def test_report_export_forget(folder, tmp_path):
    file = tmp_path / "a.everspan"
    file.write_bytes((folder / "a.everspan").read_bytes())
    assert run("report", file)[1] == f"wrote {tmp_path / 'a.html'}\n"
    assert run("report", file, "--out", tmp_path)[1] == f"wrote {tmp_path / 'report.html'}\n"
    assert run("export", file, "--task", "s3", "--out", tmp_path / "a.json")[1].endswith("1 predictor\n")
    assert run("export", file, "--out", tmp_path / "a.parquet")[1].endswith("30 predictors\n")
    code, said, _ = run("forget", file, "s3", "s4")
    assert code == 0
    assert said.startswith("forgot 2; 28 tasks and 2 dimensions are left")
    code, _, errors = run("forget", file, "s3")
    assert code == 2
    assert errors == f"everspan forget: {file}: task 's3' has not been learned; it has 28 others\n"


@pytest.mark.parametrize("command", ["learn", "predict", "show", "report", "forget", "export"])
def test_help_teaches(command):
    code, said, _ = run(command, "--help")
    assert code == 0
    assert re.search(r"examples?: everspan", said)
    assert len(said.split()) > 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "none.everspan"), "there is no such file"),
        (("show", "text"), "is damaged or no everspan file"),
        (("predict", "none.everspan", "a.csv"), "there is no such file"),
        (("predict", "a.everspan", "none.csv"), "there is no such file"),
        (("predict", "a.everspan", "a.csv", "a.csv"), "one table at a time"),
        (("predict", "a.everspan", "a.csv", "--keep", "nothing"), "no column 'nothing'"),
        (("learn", "a.everspan", "none.csv"), "there is no such file"),
        (("learn", "b.everspan", "a.csv", "--target-column", "city", "--kind", "regression"), "has text"),
        (("learn", "b.everspan", "a.csv", "--memory", "little"), "a size is like 500MB"),
        (("learn", "b.everspan", "a.csv", "--epsilon", "0"), "epsilon must be a positive number"),
        (("learn", "b.everspan", "a.csv", "--loss", "odd"), "loss must be one of"),
        (("learn", "text", "a.csv"), "is damaged or no everspan file"),
        (("export", "a.everspan", "--out", "a.txt"), "exports are .json, .onnx"),
        (("report", "a.everspan", "--out", "none/a.html"), "there is no folder"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(folder, arguments, message, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "text").write_text("This is not a file of everspan's, but longer than a header of SQLite would be.")
    code, _, errors = run(*arguments)
    assert code == 2
    assert message in errors
    assert errors.splitlines()[-1].startswith("everspan ")
    assert not (folder / "b.everspan").exists()


def test_stopped_by_the_user_it_goes_on(tmp_path):
    write_table(tmp_path / "a.parquet", 1500)
    command = [sys.executable, "-m", "everspan", "learn", str(tmp_path / "a.everspan"), str(tmp_path / "a.parquet")]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells' background jobs ignore it
    )
    while not (tmp_path / "a.everspan").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == (
        "everspan learn: stopped: what was learned is in the file, and the same command goes on"
    )
    assert "Traceback" not in errors
    known = len(open_model(tmp_path / "a.everspan").history_)
    assert 0 < known < 1500
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["a.everspan", "a.parquet"]
