"""`everspan simulate`: the same for every number of jobs, whole from end to end, clear about bad arguments."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from everspan.cli import main
from everspan.estimators import RepresentationWarning
from everspan.experiments import simulate
from everspan.experiments.joint import joint_training
from everspan.scenarios import LinearStream

TINY = simulate.Settings(d=12, k=2, m=6, n=40, trials=3, seed=5)


def outside_timing(results):
    return {name: value for name, value in results.items() if name != "timing"}


def test_the_answer_does_not_depend_on_the_jobs():
    one, two = simulate.run(TINY, jobs=1), simulate.run(TINY, jobs=2)
    assert json.dumps(outside_timing(one)) == json.dumps(outside_timing(two))
    assert one["timing"]["jobs"] != two["timing"]["jobs"]


def test_results_have_the_shape_that_the_design_promises():
    results = simulate.run(TINY)
    assert list(results) == ["settings", "methods", "timing"]
    assert list(results["methods"]) == ["LLL", "LLL-RR", "LLL-RR certified", "Independent", "Joint"]
    for method in results["methods"].values():
        for panel in simulate.PANELS:
            assert len(method[panel]) == TINY.m
            trials = np.array(method["per_trial"][panel])
            assert trials.shape == (TINY.trials, TINY.m)
            np.testing.assert_allclose(trials.mean(axis=0), method[panel])
    independent = results["methods"]["Independent"]
    assert independent["dimension"] == [1, 2, 3, 4, 5, 6]
    assert independent["angle_degrees"][0] == 90.0, "one feature cannot hold two"


def test_another_seed_is_another_stream_and_trials_differ():
    first = simulate.run(TINY)["methods"]["Independent"]["per_trial"]["average_accuracy"]
    second = simulate.run(simulate.Settings(d=12, k=2, m=6, n=40, trials=3, seed=6))
    assert first != second["methods"]["Independent"]["per_trial"]["average_accuracy"]
    assert first[0] != first[1]


def test_accuracies_are_those_on_fresh_rows():
    """Exact ones, from angles, against the same model on a hundred thousand rows."""
    stream = LinearStream(12, 2, 6, 40, seed=TINY.seed * 100_003)
    model = simulate.lifelong_methods(TINY)["LLL-RR certified"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepresentationWarning)
        for i in range(6):
            model.learn_task(*stream[i][1:], task=i)
    counted = [model.score(*stream.test(i, 100_000)[1:], task=i) for i in range(6)]
    curves = simulate.trial(TINY, 0)["LLL-RR certified"]
    assert curves["average_accuracy"][-1] == pytest.approx(np.mean(counted), abs=3e-3)
    assert curves["minimum_accuracy"][-1] == pytest.approx(np.min(counted), abs=5e-3)


def test_the_theory_regime_meets_epsilon():
    settings = simulate.Settings(d=20, k=2, m=5, n=50, epsilon=0.2, trials=1, regime="theory")
    curves = simulate.trial(settings, 0)
    assert curves["LLL-RR certified"]["minimum_accuracy"][-1] >= 0.8
    assert max(curves["LLL-RR certified"]["labels"]) > 50


def test_joint_training_of_one_task_is_logistic_regression():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1, 300, 6))
    y = np.where(X @ rng.standard_normal(6) + rng.standard_normal((1, 300)) > 0, 1.0, -1.0)
    _, targets = joint_training(X, y, k=1, steps=500)
    # |B|^2 + |c|^2 is least at |B| = |c| for their product w: the penalty on w is its length, not its square
    reference = LogisticRegression(C=1e6).fit(X[0], y[0]).coef_[0]
    cosine = targets[0] @ reference / np.linalg.norm(targets[0]) / np.linalg.norm(reference)
    assert cosine > 0.9999


def test_joint_training_finds_the_shared_subspace():
    stream = LinearStream(d=30, k=3, tasks=40, rows=100, seed=0)
    X, y = np.array([task.X for task in stream]), np.array([task.y for task in stream])
    basis, targets = joint_training(X, y, 3)
    assert simulate.largest_angle(stream.subspace, basis) < 10
    cosines = np.sum(targets * stream.targets, axis=1) / np.linalg.norm(targets, axis=1)
    assert np.mean(np.arccos(cosines) / np.pi) < 0.04
    again = joint_training(X, y, 3, start=basis)[0]
    assert simulate.largest_angle(basis, again) < 5


@pytest.mark.parametrize(("m", "expected"), [(1, [1]), (7, [1, 2, 5, 7]), (100, [1, 2, 5, 10, 20, 50, 100])])
def test_marks(m, expected):
    assert simulate.marks(m) == expected


def test_the_command_writes_its_four_files(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    arguments = ["simulate", *"--d 12 --k 2 --m 6 --n 40 --trials 2 --seed 5 --jobs 1".split()]  # noqa: SIM905
    assert main([*arguments, "--out", str(out)]) == 0
    assert {path.name for path in out.iterdir()} == {"results.json", "figure.svg", "figure.png", "report.html"}
    shown = capsys.readouterr()
    assert "LLL-RR certified" in shown.out
    assert "wrote" in shown.out
    assert "trial 2 of 2 done" in shown.err
    results = json.loads((out / "results.json").read_text())
    assert results["settings"]["d"] == 12
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "everspan simulate --d 12 --k 2" in page
    assert f"{results['methods']['Joint']['average_accuracy'][-1]:.3f}" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--k 9 --d 4", "k must be at most d"),
        ("--epsilon 1.5", "epsilon must be between 0 and 1"),
        ("--epsilon 0", "epsilon must be between 0 and 1"),
    ],
)
def test_bad_arguments_end_with_one_clear_line(arguments, message, tmp_path, capsys):
    assert main(["simulate", *arguments.split(), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("everspan simulate: ")
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_no_tasks_and_a_folder_that_cannot_be_written(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        main(["simulate", "--m", "0"])
    assert left.value.code == 2
    assert "at least 1" in capsys.readouterr().err
    (tmp_path / "file").write_text("in the way")
    assert main(["simulate", "--out", str(tmp_path / "file" / "out")]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert error.startswith("everspan simulate: ")
