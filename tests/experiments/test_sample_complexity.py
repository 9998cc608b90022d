"""Labels on demand, counted small; exponents by an oracle."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from everspan.cli import main
from everspan.experiments import sample_complexity
from everspan.experiments.sample_complexity import BALCAN, LLL_RR, Settings

TINY = Settings(d=12, k=2, m=6, epsilon=0.2, trials=2, axes=("m", "k"), factors=(1.0, 2.0), small_d=8, small_k=(1, 2))


@pytest.fixture(scope="module")
def results():
    return sample_complexity.run(TINY)


@given(power=st.floats(-2.0, 3.0), scale=st.floats(0.1, 100.0), seed=st.integers(0, 100))
def test_an_exponent_is_that_of_least_squares_with_students_interval(power, scale, seed):
    values = np.array([1.0, 2.0, 4.0, 8.0])
    noise = np.random.default_rng(seed).normal(0.0, 0.1, (4, 6))
    labels = scale * values[:, None] ** power * np.exp(noise)
    slopes = [stats.linregress(np.log(values), np.log(trial)).slope for trial in labels.T]
    low, high = stats.t.interval(0.95, 5, np.mean(slopes), stats.sem(slopes))
    assert sample_complexity.exponent(values, labels) == pytest.approx((np.mean(slopes), low, high))


def test_every_task_meets_epsilon_and_labels_add_up(results):
    assert list(results["parts"]) == ["classification", "parameters", "regression"]
    for axes in results["parts"].values():
        for table in axes.values():
            for name in (LLL_RR, BALCAN):
                counted = table["methods"].get(name)
                if counted is None:
                    continue
                assert np.max(counted["worst_error"]) <= 0.2
                np.testing.assert_allclose(np.add(counted["growth"], counted["reuse"]), counted["labels"])
                assert np.min(counted["features"]) >= 1.0


def test_more_accuracy_is_asked_of_features_by_balcans_parameters(results):
    methods = results["parts"]["parameters"]["k"]["methods"]
    assert np.all(np.greater(methods[BALCAN]["growth"], methods[LLL_RR]["growth"]))


def test_theory_stands_beside_every_exponent(results):
    by_name = {(e["part"], e["axis"], e["method"], e["what"]): e for e in results["exponents"]}
    growth = by_name["classification", "k", LLL_RR, "growth"]
    assert growth["theory"] == 1.5
    assert growth["theory_over_this_range"] > 1.5  # its logarithms
    assert by_name["classification", "m", LLL_RR, "reuse"]["theory_over_this_range"] == pytest.approx(1.0)
    assert by_name["regression", "m", "every task by itself", "labels"]["theory"] is None  # theorems: classification
    assert by_name["parameters", "k", BALCAN, "growth"]["theory"] == 2.0


def test_what_no_number_of_labels_reaches_is_left_open(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_complexity, "labels_needed", lambda *given: None)
        found = sample_complexity.run(Settings(d=12, k=1, m=4, epsilon=0.2, trials=2, axes=("m", "m"), factors=(1, 2)))
    assert found["parts"]["regression"]["m"]["methods"]["every task by itself"]["labels"] == [
        [None, None],
        [None, None],
    ]
    assert "every task by itself" not in {one["method"] for one in found["exponents"]}
    assert len(sample_complexity.write(tmp_path, found)) == 3


def test_the_number_of_jobs_changes_nothing(results):
    assert sample_complexity.run(TINY, jobs=2) == results


def test_the_command(tmp_path, capsys):
    sizes = ["--d", "12", "--k", "1", "--m", "4", "--epsilon", "0.2", "--trials", "2", "--axes", "m"]
    assert main(["sample-complexity", *sizes, "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "95% interval" in shown.out
    assert "counted" in shown.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.json", "figure.svg", "figure.png"}
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert written["parts"]["classification"]["m"]["values"] == [2.0, 4.0, 8.0, 16.0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--axes", "n"], "axes must be some of d, k, epsilon, m, but they are n"),
        (["--trials", "1"], "an interval needs 2 trials or more"),
        (["--k", "16", "--d", "100"], "40 tasks cannot show 64 features: m must be at least k everywhere"),
        (["--d", "6", "--k", "4"], "4 features do not fit into 3 dimensions: k must be at most d"),
        (["--epsilon", "0.3"], "epsilon must stay below 0.5, but it comes to 0.6"),
    ],
)
def test_bad_arguments_end_with_one_clear_line(arguments, said, tmp_path, capsys):
    assert main(["sample-complexity", *arguments, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
