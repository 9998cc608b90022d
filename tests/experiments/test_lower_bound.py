"""The lower bound, run small."""

from __future__ import annotations

import json

import pytest

from everspan.cli import main
from everspan.experiments import lower_bound


@pytest.fixture(scope="module")
def results():
    return lower_bound.run(lower_bound.Settings(k=(8, 16), tasks=12, n=400, ratios=(0.5, 3.0)))


def test_tasks_fail_beyond_the_order_of_epsilon_over_root_k_and_not_below(results):
    for points in results["curves"].values():
        accurate, careless = points
        assert accurate["failing"] == accurate["failing_by_lemma_8"] == 0.0
        assert careless["failing"] > 0.8
        assert careless["failing_by_lemma_8"] > 0.8


def test_the_angle_is_lemma_7s_and_no_later_task_changes_it(results):
    for points in results["curves"].values():
        for point in points:
            assert point["angle"] == pytest.approx(point["angle_by_lemma_7"], abs=1e-6)
            assert point["angle_after_all_tasks"] == pytest.approx(point["angle"], abs=1e-6)
        assert points[-1]["asked_again"] > 8  # learned again and again, in vain


def test_signs_cancel_where_zeros_and_ones_add_up(results):
    medians = results["combinations"]["median_error"]
    assert min(medians["0 and 1"]) > 0.06  # about epsilon / sqrt 2 at every k
    assert medians["+1 and -1"][-1] < 0.1 * medians["0 and 1"][-1]


def test_the_command(tmp_path, capsys):
    arguments = ["lower-bound", "--k", "4", "--tasks", "3", "--n", "200", "--out", str(tmp_path / "out")]
    assert main(arguments) == 0
    assert "tasks that fail" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"results.json", "figure.svg", "figure.png"}
    written = json.loads((tmp_path / "out" / "results.json").read_text())
    assert len(written["curves"]["4"]) == len(lower_bound.RATIOS)
    assert main(["lower-bound", "--k", "1"]) == 2
    assert capsys.readouterr().err.endswith("everspan lower-bound: k must be 2 or more, but it is (1,)\n")
    assert main(["lower-bound", "--epsilon", "0.4", "--k", "2"]) == 2
    assert "epsilon_acc must lie between 0 and 0.25" in capsys.readouterr().err
