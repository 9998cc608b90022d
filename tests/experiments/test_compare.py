"""Runs side by side: labels, averages, and what makes them hard to compare."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan.experiments import compare
from everspan.metrics import IncrementalResult


def write_run(folder, correct, digest="one", **settings):
    totals = [10] * len(correct)
    known = {"method": "hlll", "recipe": "paper", "data": "digits", "increment": 2, "first": None, "memory_total": 100}
    known |= {"memory_per_class": None, "held_out": 0.0, "seed": 0, "class_order": 0, "epochs": 3} | settings
    results = {
        "settings": known,
        "images_digest": digest,
        "tasks_done": len(correct),
        "tasks": 3,
        **IncrementalResult(correct, totals).to_dict(),
        "parameters": 1000,
        "exemplars": 100,
        "timing": {"seconds": 5.0, "images_per_second": 100.0},
    }
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results))
    return folder


GOOD, WORSE = [[10], [9, 10], [8, 9, 10]], [[10], [5, 10], [0, 5, 10]]


def test_runs_that_differ_in_their_seeds_are_averaged(tmp_path):
    runs = [write_run(tmp_path / "a", GOOD), write_run(tmp_path / "b", WORSE, seed=1, class_order=1)]
    groups = compare.read_runs([*runs, write_run(tmp_path / "c", WORSE, method="finetune")])
    assert list(groups) == ["H-LLL", "Finetune"]
    mean, error = compare.values_of(groups["H-LLL"])["last_accuracy"]
    assert mean == pytest.approx((90.0 + 50.0) / 2)
    assert error == pytest.approx(20.0)
    table = compare.table(groups)
    assert table[0][2] == "70.00 ± 20.00"
    assert table[1][2] == "50.00"


def test_labels_say_what_tells_runs_apart(tmp_path):
    folders = [
        write_run(tmp_path / "a", GOOD),
        write_run(tmp_path / "b", GOOD, recipe="best"),
        write_run(tmp_path / "c", GOOD, epochs=9),
        write_run(tmp_path / "d", GOOD, method="my.own:Method"),
    ]
    assert list(compare.read_runs(folders)) == [
        "H-LLL paper epochs=3",
        "H-LLL best",
        "H-LLL paper epochs=9",
        "my.own:Method",
    ]


def test_labels_of_runs_that_differ_in_much_stay_short(tmp_path):
    many = {"batch_size": 32, "decay": 0.5, "epochs": 7, "learning_rate": 0.2, "momentum": 0.8}
    runs = [write_run(tmp_path / str(order), GOOD, class_order=order) for order in range(3)]
    runs += [write_run(tmp_path / "e", GOOD, **many), write_run(tmp_path / "f", GOOD, epochs=8, decay=0.4, warmup=1)]
    assert list(compare.read_runs(runs)) == [
        "H-LLL",
        "H-LLL batch_size=32 decay=0.5 and 3 more",
        "H-LLL decay=0.4 epochs=8 warmup=1",
    ]


def test_short_labels_say_what_tells_their_runs_apart(tmp_path):
    many = {"batch_size": 32, "decay": 0.5, "epochs": 7}
    runs = [write_run(tmp_path / str(order), GOOD, class_order=order) for order in range(4)]
    runs += [write_run(tmp_path / f"w{warmup}", GOOD, warmup=warmup, **many) for warmup in (1, 2)]
    plain, *others = compare.read_runs(runs)
    assert plain == "H-LLL"
    assert ["warmup=1" in others[0], "warmup=2" in others[1]] == [True, True]
    runs += [write_run(tmp_path / f"v{value}", GOOD, v=value, u=7, t=6, s=5, **many) for value in (1, 2)]
    labels = list(compare.read_runs(runs))
    assert len(labels) == len({label.removesuffix(" '") for label in labels})


def test_a_recipe_that_others_do_not_have_is_said(tmp_path):
    runs = [write_run(tmp_path / "a", GOOD, recipe="best"), write_run(tmp_path / "b", GOOD, method="wa")]
    assert list(compare.read_runs(runs)) == ["H-LLL best", "WA"]
    assert list(compare.read_runs(runs[:1])) == ["H-LLL"]
    runs.append(write_run(tmp_path / "c", GOOD, method="wa", recipe="strong"))
    assert list(compare.read_runs(runs)) == ["H-LLL best", "WA paper", "WA strong"]


def test_a_method_has_a_color_and_its_recipes_lines(tmp_path):
    kinds = [("hlll", "best"), ("wa", "paper"), ("hlll", "paper"), ("wa", "strong")]
    runs = [write_run(tmp_path / f"{m}{r}", GOOD, method=m, recipe=r) for m, r in kinds]
    lines = compare.draw(compare.read_runs(runs)).axes[0].get_lines()
    found = {kind: (line.get_color(), line.get_linestyle()) for kind, line in zip(kinds, lines, strict=True)}
    assert len(set(found.values())) == 4
    assert found["hlll", "best"][0] == found["hlll", "paper"][0] != found["wa", "paper"][0] == found["wa", "strong"][0]
    assert found["hlll", "paper"][1] == found["wa", "paper"][1]


def test_a_recipe_that_is_there_twice_keeps_the_color_of_its_method(tmp_path):
    kinds = [("hlll", 5), ("wa", 5), ("wa", 9)]
    runs = [write_run(tmp_path / f"{m}{n}", GOOD, method=m, epochs=n) for m, n in kinds]
    hlll, first, second = compare.draw(compare.read_runs(runs)).axes[0].get_lines()
    assert hlll.get_color() != first.get_color() == second.get_color()
    assert first.get_linestyle() != second.get_linestyle()


def test_methods_that_are_there_once_have_lines_of_their_own(tmp_path):
    runs = [write_run(tmp_path / name, GOOD, method=name) for name in ("hlll", "wa", "bic", "joint")]
    lines = compare.draw(compare.read_runs(runs)).axes[0].get_lines()
    assert len({line.get_linestyle() for line in lines}) == 4


def test_labels_do_not_say_what_most_runs_have(tmp_path):
    folders = [write_run(tmp_path / str(order), GOOD, class_order=order, start="scratch") for order in range(3)]
    folders.append(write_run(tmp_path / "warm", GOOD, start="previous"))
    folders.append(write_run(tmp_path / "long", GOOD, epochs=4.0, start="scratch"))
    folders.append(write_run(tmp_path / "old", GOOD))
    folders.append(write_run(tmp_path / "finer", GOOD, epochs=3.1415926, start="scratch"))
    assert list(compare.read_runs(folders)) == [
        "H-LLL",
        "H-LLL start=previous",
        "H-LLL epochs=4",
        "H-LLL without start",
        "H-LLL epochs=3.1415926",
    ]


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=12), st.floats(0.1, 5.0))
def test_numbers_at_the_end_of_lines_do_not_lie_on_each_other(values, gap):
    heights = compare._apart(values, gap)
    order = np.argsort(values, kind="stable")
    assert (np.diff(np.array(heights)[order]) >= gap * (1.0 - 1e-9) - 1e-9).all()
    if (np.diff(np.sort(values)) >= gap).all():  # nothing to do
        assert heights == pytest.approx(values)
    assert np.mean(heights) == pytest.approx(np.mean(values), abs=1e-6)


def test_different_protocols_and_unfinished_runs_are_pointed_out(tmp_path):
    folders = [
        write_run(tmp_path / "a", GOOD),
        write_run(tmp_path / "b", GOOD[:2], method="replay", memory_total=None, memory_per_class=20),
    ]
    notes = " ".join(compare.differences(compare.read_runs(folders)))
    assert "different protocols: memory_total is 100 or null" in notes
    assert "A run of Replay (2 of 3 tasks) has done 2 of 3 tasks" in notes
    compare.write(tmp_path / "out", compare.read_runs(folders), "everspan compare a b")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "different protocols" in page
    assert page.count("<svg") == 4


def test_no_run_is_dropped_and_none_counts_twice(tmp_path):
    folders = [
        write_run(tmp_path / "a", GOOD, a=1, b=1, c=1, learning_rate=0.1),
        write_run(tmp_path / "b", GOOD, a=2, b=2, c=2, learning_rate=0.1),
        write_run(tmp_path / "c", GOOD, a=1, b=1, c=1, learning_rate=0.2),
    ]
    groups = compare.read_runs([*folders, folders[0]])
    assert [len(runs) for runs in groups.values()] == [1, 1, 1]


def test_a_run_under_way_is_no_trial_of_a_mean(tmp_path):
    folders = [write_run(tmp_path / "a", GOOD), write_run(tmp_path / "b", GOOD[:1], seed=1)]
    groups = compare.read_runs(folders)
    assert list(groups) == ["H-LLL", "H-LLL (1 of 3 tasks)"]
    alone = compare.read_runs(folders[1:])
    assert "after task 1 of 3 it is right on" in " ".join(compare.sentences(alone))


def test_runs_on_other_images_are_no_trials_whatever_their_file_is_called(tmp_path):
    folders = [
        write_run(tmp_path / "a", GOOD, data="six.npz"),
        write_run(tmp_path / "b", GOOD, data="six.npz", seed=1, digest="two"),
    ]
    groups = compare.read_runs(folders)
    assert [len(runs) for runs in groups.values()] == [1, 1]
    assert any("Not all of these runs saw the same images" in note for note in compare.differences(groups))
    same = [folders[0], write_run(tmp_path / "c", GOOD, data="/elsewhere/six.npz", seed=1)]
    groups = compare.read_runs(same)
    assert [len(runs) for runs in groups.values()] == [2]
    assert not compare.differences(groups)


def test_a_run_named_by_its_folder_and_by_its_file_is_one(tmp_path):
    folder = write_run(tmp_path / "a", GOOD)
    assert [len(runs) for runs in compare.read_runs([folder, folder / "results.json"]).values()] == [1]


def test_a_run_that_has_not_ended_is_ranked_last(tmp_path):
    folders = [write_run(tmp_path / "a", WORSE), write_run(tmp_path / "b", GOOD[:1], method="replay")]
    assert "H-LLL 75.0%, Replay (1 of 3 tasks) 100.0%" in compare.sentences(compare.read_runs(folders))[1]


def test_the_axis_has_the_classes_of_all_runs(tmp_path):
    folders = [write_run(tmp_path / "a", GOOD), write_run(tmp_path / "b", GOOD, method="replay", increment=3)]
    left = compare.draw(compare.read_runs(folders)).axes[0]
    assert left.get_xticks().tolist() == [2, 3, 4, 6, 9]


def test_a_larger_first_task_is_said(tmp_path):
    groups = compare.read_runs([write_run(tmp_path / "a", GOOD, first=4)])
    assert "4 classes first, then 2 classes at a time" in compare.sentences(groups)[0]


def tampered(folder, **changes):
    results = json.loads((write_run(folder, GOOD) / "results.json").read_text())
    for path, value in changes.items():
        *names, last = path.split("__")
        inner = results
        for name in names:
            inner = inner[name]
        inner[last] = value
    (folder / "results.json").write_text(json.dumps(results))
    return folder


def test_figures_are_computed_again_from_the_counts(tmp_path):
    (group,) = compare.read_runs([tampered(tmp_path / "a", curve=["x"], last_accuracy=1e9)]).values()
    assert group[0]["last_accuracy"] == 90.0
    assert len(group[0]["curve"]) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"correct": [[10], [9, 10], [8, 9, 11]]},
        {"correct": [[10], [9, 10]]},
        {"correct": [[10], [9, "10"], [8, 9, 10]]},
        {"totals": [10, 10, 0]},
        {"tasks": 10**9},
        {"tasks_done": 2},
        {"timing__seconds": "long"},
        {"parameters": -1},
        {"settings__first": "x"},
        {"settings__increment": None},
        {"settings__method": ["hlll"]},
        {"settings__more\x1b[2J": 1},
        {"settings__deep": [[[[[[1]]]]]]},
    ],
    ids=str,
)
def test_results_that_no_run_writes_are_refused_in_one_line(tmp_path, changes):
    with pytest.raises(ValueError, match="holds no results of everspan incremental") as refused:
        compare.read_runs([tampered(tmp_path / "a", **changes)])
    assert str(refused.value).isprintable()


def test_labels_of_a_stranger_are_plain_text(tmp_path):
    odd = {"settings__method": "_\x1b[2J$\\frac{$", "settings__recipe": "z" * 4000}
    groups = compare.read_runs([tampered(tmp_path / "a", **odd), write_run(tmp_path / "b", GOOD)])
    assert all(label.isprintable() and len(label) < 200 for label in groups)
    compare.write(tmp_path / "out", groups, "everspan compare")


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no results of a run"):
        compare.read_runs([tmp_path])
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(ValueError, match="has done no task yet"):
        compare.read_runs([tmp_path])
    (tmp_path / "results.json").write_text('{"methods": {}}')
    with pytest.raises(ValueError, match="no results of everspan incremental"):
        compare.read_runs([tmp_path])


def test_a_run_that_is_there_twice_is_no_second_trial(tmp_path):
    groups = compare.read_runs([write_run(tmp_path / "a", GOOD), write_run(tmp_path / "b", GOOD)])
    assert any("same seed and class order" in note for note in compare.differences(groups))
    other = compare.read_runs([tmp_path / "a", write_run(tmp_path / "c", GOOD, seed=1)])
    assert not compare.differences(other)


def test_many_runs_have_their_labels_below_and_lines_of_their_own(tmp_path):
    runs = [write_run(tmp_path / str(i), GOOD, epochs=i + 1) for i in range(13)]
    figure = compare.draw(compare.read_runs(runs))
    left = figure.axes[0]
    assert left.get_legend() is None
    assert len({(line.get_color(), line.get_linestyle()) for line in left.get_lines()}) == 13


def test_the_numbers_of_forgotten_tasks_stay_in_the_panel(tmp_path):
    zeros = [[0] * i + [10] for i in range(12)]
    run = write_run(tmp_path / "a", zeros)
    results = json.loads((run / "results.json").read_text()) | {"tasks": 12}
    (run / "results.json").write_text(json.dumps(results))
    right = compare.draw(compare.read_runs([run])).axes[1]
    low, high = right.get_ylim()
    assert len(right.texts) == 12
    assert all(low <= text.xy[1] <= high for text in right.texts)
