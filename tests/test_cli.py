"""The command line, end to end in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import everspan
from everspan.cli import main


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "everspan", *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_demo_writes_a_figure_that_shows_the_claim(tmp_path):
    done = run("demo", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    results = json.loads((tmp_path / "here" / "results.json").read_text())
    k = results["settings"]["k"]
    at_k = results["dimensions"].index(k)
    plain, refined = (results["methods"][name]["max_distance"][at_k] for name in ("SVD", "refinement"))
    assert refined < 0.8 * plain
    assert results["lower_bound"][at_k] <= refined
    assert results["gap"] <= 1e-8
    assert (tmp_path / "here" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "here" / "figure.svg").read_text()
    for name in ("results.json", "figure.svg", "figure.png"):
        assert f"wrote {'here'}/{name}" in done.stdout.replace("\\", "/")


def test_the_same_seed_writes_the_same_files(tmp_path):
    for folder in ("one", "two"):
        assert run("demo", "--n", 20, "--d", 30, "--k", 3, "--out", folder, cwd=tmp_path).returncode == 0
    for name in ("results.json", "figure.svg", "figure.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--k", "0"], "must be at least 1, not 0"),
        (["demo", "--k", "40", "--n", "20"], "--k must be at most min(n, d) - 2, but k=40, n=20"),
        (["demo", "--noise", "nan"], "must be zero or more and finite, not nan"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        ([], "COMMAND"),
    ],
)
def test_bad_arguments_end_with_one_clear_line_and_no_files(arguments, message, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "taken").write_text("a file")
    done = run("demo", "--out", "taken", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("everspan demo: ")
    assert "taken" in done.stderr
    assert (tmp_path / "taken").read_text() == "a file"


def test_help_and_version(tmp_path):
    assert "demo" in run("--help", cwd=tmp_path).stdout
    assert "example:" in run("demo", "--help", cwd=tmp_path).stdout
    assert run("--version", cwd=tmp_path).stdout.strip() == f"everspan {everspan.__version__}"


def test_bounds_for_a_person_and_as_json(capsys):
    assert main(["bounds", "--d", "200", "--k", "8", "--m", "1000", "--epsilon", "0.05"]) == 0
    text = capsys.readouterr().out
    assert "1,000 tasks that share 8 linear features of 200 inputs" in text
    assert "Theorem 2 (at least)" in text
    assert main(["bounds", "--k", "4", "--m", "50", "--json"]) == 0
    labels = [round(row["labels"]) for row in json.loads(capsys.readouterr().out)["bounds"]]
    assert labels == [18_000, 18_000, 162_000, 10_000, 10_000, 50_000, 10_000]
    assert main(["bounds", "--k", "200"]) == 2
    said = capsys.readouterr().err
    assert said == "everspan bounds: 200 features do not fit into 100 dimensions: k must be at most d\n"


def test_work_goes_on_when_nobody_reads_its_lines(tmp_path):
    command = f"{sys.executable} -m everspan demo --out {tmp_path} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=os.environ | {"PYTHONUNBUFFERED": "1"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "results.json").exists()
