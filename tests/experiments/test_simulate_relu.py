"""`everspan simulate --representation relu`, small: whole from end to end, the same for every number of jobs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from everspan.cli import main
from everspan.experiments import simulate_relu
from everspan.learners import activations
from everspan.scenarios import ReLUStream

TINY = simulate_relu.Settings(d=5, k=1, m=4, n=120, epsilon=0.1, trials=2)


@pytest.fixture(scope="module")
def results():
    return simulate_relu.run(TINY)


def test_every_method_has_a_value_a_task(results):
    assert list(results["methods"]) == ["LLL", "LLL-RR", "Independent", "Joint"]
    for method in results["methods"].values():
        for panel in simulate_relu.PANELS:
            assert len(method[panel]) == 4
        assert 0.5 < method["average_accuracy"][-1] <= 1.0
        assert method["minimum_accuracy"][-1] <= method["average_accuracy"][-1]
    ours = results["methods"]["LLL-RR"]["per_trial"]
    assert np.all(np.diff(ours["units"], axis=1) >= 0.0)
    assert [sum(grew) for grew in ours["grew"]] == [functions[-1] for functions in ours["functions"]]


def test_the_number_of_jobs_changes_nothing(results):
    assert simulate_relu.run(TINY, jobs=2) == results


def test_joint_training_finds_the_shared_units():
    stream = ReLUStream(d=6, k=2, tasks=20, rows=150, seed=0)
    X, y = np.array([task.X for task in stream]), np.array([task.y for task in stream])
    weights, biases, combinations, intercepts = simulate_relu.joint_network(X, y, units=4)
    right = []
    for i in range(20):
        _, new, labels = stream.test(i)
        right.append(np.mean(np.sign(activations(new, weights, biases) @ combinations[i] + intercepts[i]) == labels))
    assert np.mean(right) > 0.95


def test_the_command(tmp_path, capsys):
    small = "--d 5 --k 1 --m 3 --n 100 --epsilon 0.2 --trials 2 --jobs 1".split()  # noqa: SIM905
    assert main(["simulate", "--representation", "relu", *small, "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "units" in shown.out
    assert "LLL-RR" in shown.out
    names = {"results.json", "figure.svg", "figure.png", "report.html"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    assert json.loads((tmp_path / "out" / "results.json").read_text())["settings"]["representation"] == "relu"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "everspan simulate --d 5 --k 1 --m 3" in page
    assert "--representation relu" in page
    assert main(["simulate", "--representation", "relu", "--regime", "theory"]) == 2
    assert "--regime theory is for linear features" in capsys.readouterr().err
    assert main(["simulate", "--representation", "relu", "--k", "30"]) == 2
    assert "k must be at most d, but k=30 and d=20" in capsys.readouterr().err
