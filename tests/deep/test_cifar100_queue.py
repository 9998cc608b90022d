"""The queue of CIFAR-100 runs and the linear step, on tiny images in CIFAR's own layout."""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TINY = "-backbone=tests.deep._common:Colour-memory_total=200-batch_size=30-device=cpu-threads=1-shift_test=0"


@pytest.fixture
def benchmarks(monkeypatch):
    """The scripts of the benchmarks, which are no package."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    import cifar100_queue
    import cifar100_refine

    yield argparse.Namespace(queue=cifar100_queue, refine=cifar100_refine)
    for name in ("common", "cifar100", "cifar100_queue", "cifar100_refine"):
        sys.modules.pop(name, None)


@pytest.fixture
def arguments(tmp_path):
    folder, rng = tmp_path / "cifar-100-python", np.random.default_rng(0)
    folder.mkdir()
    pictures = rng.integers(40, 216, (100, 3072))
    for name, each in (("train", 3), ("test", 1)):
        labels = np.repeat(np.arange(100), each)
        pixels = (pictures[labels] + rng.integers(-40, 40, (len(labels), 3072))).astype(np.uint8)
        (folder / name).write_bytes(pickle.dumps({b"data": pixels, b"fine_labels": labels.tolist()}, protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": [f"c{i}" for i in range(100)]}, protocol=2))
    folders = {name: tmp_path / name for name in ("work", "results", "out")}
    return argparse.Namespace(data_dir=tmp_path, at_once=2, budget=1e6, **folders)


def test_a_run_lands_and_so_do_the_features_that_the_linear_step_refines(benchmarks, arguments, monkeypatch, capsys):
    queue, refine = benchmarks.queue, benchmarks.refine
    names = [f"hlll_rr-fast-7-encoders=1-epochs=1-refine_epochs=1{TINY}", f"features:hlll-fast-7-epochs=1{TINY}"]
    assert queue.work_through(names, arguments, pause=0.2) == []
    assert all(queue.has_result(name, arguments) for name in names)
    landed = json.loads(next((arguments.out / "cifar100").glob("hlll_rr-fast-7-*.json")).read_text())
    assert (landed["tasks_done"], landed["settings"]["encoders"]) == (10, 1)
    assert not list((arguments.out / "partial").glob("*"))
    queue.table(names, arguments)
    assert "waiting" not in capsys.readouterr().out
    assert queue.work_through(names, arguments) == []  # nothing is left to do, so nothing is started
    assert "started" not in capsys.readouterr().out

    monkeypatch.setattr(refine.common, "RESULTS", arguments.results)
    monkeypatch.setattr(refine, "FEATURES", (4, 16))
    monkeypatch.setattr(refine, "SCORES", (6,))
    arguments.features = arguments.out / "features"
    refine.measure(queue.run_of(names[1]), arguments)
    measured = json.loads((arguments.results / "cifar100_refine.json").read_text())
    rows = next(iter(measured.values()))["rows"]
    assert [(row["functions"], row["k"]) for row in rows] == [("features", 4), ("features", 16), ("scores", 6)]
    assert all(row["lower_bound"] <= row["max_distance"] <= 1.0 + 1e-9 for row in rows)


def test_a_run_that_the_budget_stops_leaves_its_tasks_and_goes_on(benchmarks, arguments, capsys):
    name = f"hlll-fast-7-epochs=60{TINY}"
    partial = benchmarks.queue.partial_of(name, arguments)

    def over_after(tasks):
        """A clock that says that the budget is over as soon as so many tasks have landed."""
        done = json.loads(partial.read_text())["tasks_done"] if partial.exists() else 0
        return 1e9 if done >= tasks else 0.0

    benchmarks.queue.work_through([name], arguments, clock=lambda: over_after(1), pause=0.05)
    first = json.loads(partial.read_text())
    assert 1 <= first["tasks_done"] < 10
    assert not benchmarks.queue.has_result(name, arguments)
    benchmarks.queue.work_through([name], arguments, clock=lambda: over_after(first["tasks_done"] + 1), pause=0.05)
    second = json.loads(partial.read_text())
    assert first["tasks_done"] < second["tasks_done"]
    assert second["curve"][: first["tasks_done"]] == first["curve"]
    assert f"going on: {first['tasks_done']} of 10 tasks are done" in "".join(
        log.read_text() for log in arguments.work.glob("*.log")
    )
    benchmarks.queue.table([name], arguments)
    assert f"after {second['tasks_done']} of 10 tasks" in capsys.readouterr().out


def test_nothing_is_started_that_could_not_do_anything(benchmarks, arguments, capsys):
    arguments.budget = 60.0
    assert benchmarks.queue.work_through(["hlll-fast-7"], arguments, clock=lambda: 0.0) == []
    assert "started" not in capsys.readouterr().out


def test_a_run_that_fails_is_named_with_the_end_of_its_log(benchmarks, arguments, capsys):
    assert benchmarks.queue.work_through(["nothing-fast-7"], arguments, pause=0.05) == ["nothing-fast-7"]
    assert "unknown method 'nothing'" in capsys.readouterr().out


def test_every_entry_of_the_queue_is_a_run_that_exists(benchmarks):
    from everspan.deep import resolve
    from everspan.deep.settings import RunSettings, parse_setting

    for name, why in benchmarks.queue.QUEUE:
        given, changes = benchmarks.queue.cifar100.settings_of(benchmarks.queue.run_of(name))
        _, own = resolve(given)
        for key, text in changes.items():
            assert key in RunSettings.__dataclass_fields__ or parse_setting(type(own), key, text) is not None
        assert why


def test_the_linear_step_gives_everything_back_where_its_dimension_is_that_of_the_features(benchmarks):
    rng = np.random.default_rng(0)
    mixing, weight, bias = rng.normal(size=(5, 12)), rng.normal(size=(4, 12)), rng.normal(size=4)
    memory, test = rng.normal(size=(60, 5)) @ mixing + 1.0, rng.normal(size=(30, 5)) @ mixing + 1.0
    scores = test @ weight.T + bias
    errors = []
    for k in (2, 3, 5):
        (own, _), projected, certificate = benchmarks.refine.linear_step(memory, test, weight, bias, k, "svd")
        np.testing.assert_allclose(own.T @ own / 60, np.eye(k), atol=1e-8)  # coordinates are orthonormal
        assert certificate["lower_bound"] <= certificate["max_distance"] + 1e-12
        errors.append(np.abs(projected - scores).max())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-8
    assert certificate["max_distance"] < 1e-8
