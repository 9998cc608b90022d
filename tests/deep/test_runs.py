"""What a run is: the same to the bit however often it is stopped, and one folder for one run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from everspan.deep import IncrementalModel
from everspan.deep.checkpoint import read_checkpoint, write_checkpoint
from everspan.deep.methods.hlll import HLLL
from everspan.deep.runs import run
from everspan.deep.settings import resolve

from ._common import image_set
from ._runs import FAST, Stop, finished, outcome, stopped_after


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("hlll", {"classifier_epochs": 3}),
        ("hlll", {"recipe": "best", "flip_test": False}),
        ("hlll", {"classifier_epochs": 2, "checkpoint_precision": "bf16"}),
        ("hlll-rr", {"encoders": 1, "refine_epochs": 3, "recipe": "best", "flip_test": False}),
        ("hlll-rr", {"encoders": 2, "refined": "all", "refine_epochs": 2, "recipe": "best", "flip_test": False}),
        (
            "hlll-rr",
            {"refined": "in-turn", "refine_epochs": 3, "classifier_epochs": 2, "refine_augment": "crop:1,cutmix"},
        ),
        ("replay", {}),
        ("finetune", {}),
        (
            "hlll",
            {"rotation": 0.5, "augment": "cutmix:1.0", "first_augment": "crop:1", "unmixed": 0.4, "classifier": "kept"},
        ),
        ("joint", {"rotation": 0.5}),
        ("icarl", {}),
        ("icarl", {"recipe": "softmax"}),
        ("wa", {"first_epochs": 4}),
        ("wa", {"positive_weights": True}),
        ("bic", {"bias_epochs": 3}),
        ("rpsnet", {"widths": (4, 8), "modules": 3, "candidates": 2, "tasks_per_path": 2}),
        ("rpsnet", {"widths": (4, 8), "modules": 3, "candidates": 2, "trial_epochs": 2}),
        ("rpsnet", {"widths": (4, 4, 8), "modules": 9, "candidates": 2, "tasks_per_path": 1}),
    ],
)
def test_a_run_stopped_at_every_epoch_ends_with_the_same_bits(tmp_path, data, method, changes):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished(data, whole, method=method, **changes)
    settings, own = resolve({"data": data, **FAST, "method": method, **changes})
    stops = 0
    while stops < 60:
        try:
            run(settings, own, broken, every=0.0, progress=stopped_after(1), note=lambda line: None)
            break
        except Stop:
            stops += 1
    assert stops > 8
    assert outcome(whole) == outcome(broken)


class Looks(HLLL):
    """A method of three stages, each of which looks at what the one before has learned, one of them in ``end``."""

    def learn(self, task):
        self.engine.train(self, self.loss, self.rows(task), self.settings.plan())
        rows = self.rows(task)
        far = self.engine.features(self, rows, self.network.feature_size).norm(dim=1).argsort()[: len(rows) // 2 + 1]
        self.engine.train(self, self.loss, rows[far.cpu()], self.settings.plan(epochs=2))
        self.network.freeze()

    def end(self, task):
        parameters = self.network.classifier.parameters()
        self.engine.train(self, self.heated_loss, self.memory.positions(), self.settings.plan(epochs=3), parameters)


@pytest.mark.parametrize("stop", range(1, 24, 2))
def test_what_a_method_learns_from_its_own_weights_is_the_same_after_a_stop(tmp_path, data, stop):
    changes = {"method": "tests.deep.test_runs:Looks", "epochs": 3}
    finished(data, tmp_path / "whole", **changes)
    settings, own = resolve({"data": data, **FAST, **changes})
    with pytest.raises(Stop):
        run(settings, own, tmp_path / "broken", every=0.0, progress=stopped_after(stop), note=lambda line: None)
    finished(data, tmp_path / "broken", **changes)
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "broken")


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("hlll", {}),
        ("hlll", {"recipe": "best", "flip_test": True, "shift_test": 1}),
        ("hlll-rr", {"encoders": 1, "refine_epochs": 12, "classifier": "kept"}),
        *((method, {}) for method in ("icarl", "wa", "bic", "replay", "finetune", "joint")),
        ("rpsnet", {"widths": (4, 8), "modules": 3, "candidates": 2, "tasks_per_path": 1, "optimiser": "adam"}),
    ],
)
def test_a_model_without_its_images_is_as_right_as_the_run_says(tmp_path, data, method, changes):
    learns = {"backbone": "small", "epochs": 12, "learning_rate": 0.1, "memory_total": 24}
    results = finished(data, tmp_path / "run", method=method, **(learns | changes))
    with np.load(data) as arrays:
        images, labels = arrays["test_images"], arrays["test_labels"].astype(str)
    Path(data).unlink()
    guesses = np.array(IncrementalModel.load(tmp_path / "run", allow_code=True).predict(images))
    order = np.array(results["class_order"]).astype(str).reshape(3, 2)
    by_task = [100.0 * np.mean((guesses == labels)[np.isin(labels, names)]) for names in order]
    assert by_task == pytest.approx(results["accuracy_matrix"][-1])
    assert np.mean(by_task) == pytest.approx(results["last_accuracy"])
    assert len(set(guesses)) > 1


def test_other_files_in_the_folder_are_left_alone(tmp_path, data):
    others = {"film.mkv.partial": "film", "checkpoint-best.safetensors": "mine"}
    (tmp_path / "run").mkdir()
    for name, text in others.items():
        (tmp_path / "run" / name).write_text(text)
    finished(data, tmp_path / "run")
    assert {name: (tmp_path / "run" / name).read_text() for name in others} == others


def test_settings_may_be_mended_while_nothing_is_learned(tmp_path, data):
    with pytest.raises(ValueError, match="unknown augmentation"):
        finished(data, tmp_path / "run", augment="flp")
    finished(data, tmp_path / "run", augment="flip")


def test_how_often_a_run_is_saved_does_not_matter(tmp_path, data):
    finished(data, tmp_path / "often", every=0.0)
    finished(data, tmp_path / "seldom", every=1e9)
    assert outcome(tmp_path / "often") == outcome(tmp_path / "seldom")


def test_a_finished_run_is_not_run_again(tmp_path, data):
    first = finished(data, tmp_path / "run")
    before = outcome(tmp_path / "run")
    assert finished(data, tmp_path / "run") == first
    assert outcome(tmp_path / "run") == before


def test_results_have_the_names_of_the_design(tmp_path, data):
    results = finished(data, tmp_path / "run")
    for name in ("settings", "accuracy_matrix", "curve", "average_incremental_accuracy", "last_accuracy", "forgetting"):
        assert name in results
    assert [len(row) for row in results["accuracy_matrix"]] == [1, 2, 3]
    assert results["tasks_done"] == results["tasks"] == 3
    assert results["exemplars"] == 12
    kept = json.loads((tmp_path / "run" / "exemplars.json").read_text())
    with np.load(data) as arrays:
        for name, rows in kept.items():
            assert len(rows) == 2
            assert set(arrays["train_labels"][rows].tolist()) == {int(name)}
    assert results["exemplar_bytes"] == 12 * 64
    assert results["parameters"] == 3 * (9 * 8 + 8) + (24 + 1) * 6  # folded encoders and the classifier
    assert results["timing"]["images_per_second"] > 0
    assert results["settings"]["epochs"] == 4


def test_a_run_that_looks_at_several_views_also_says_what_one_gives(tmp_path, data):
    learns = {"epochs": 40, "learning_rate": 0.05, "weight_decay": 0.0}
    several = finished(data, tmp_path / "several", flip_test=True, shift_test=1, **learns)
    one = finished(data, tmp_path / "one", **learns)
    assert several["one_view"] == {name: one[name] for name in several["one_view"]}
    assert set(several["one_view"]) == {"curve", "average_incremental_accuracy", "last_accuracy"}
    assert several["curve"] != one["curve"]
    assert "one_view" not in one


def test_results_have_the_accuracy_with_the_task_known(tmp_path, data):
    """Which of the task's own classes has the highest score is decided again here, from the saved model."""
    results = finished(data, tmp_path / "run", recipe="best", flip_test=True, increment=2)
    known = results["known_task"]
    assert [len(row) for row in known["accuracy_matrix"]] == [1, 2, 3]
    with np.load(data) as arrays:
        images, labels = arrays["test_images"], arrays["test_labels"].astype(str)
    names = np.array(results["class_order"]).astype(str)
    probabilities = IncrementalModel.load(tmp_path / "run", allow_code=True).predict_proba(images)
    by_task = []
    for start in (0, 2, 4):
        rows = np.isin(labels, names[start : start + 2])
        own = names[start + probabilities[rows, start : start + 2].argmax(axis=1)]
        by_task.append(100.0 * np.mean(own == labels[rows]))
    assert known["accuracy_matrix"][-1] == pytest.approx(by_task)
    assert known["last_accuracy"] == known["curve"][-1] == pytest.approx(np.mean(by_task))
    assert known["average_incremental_accuracy"] == pytest.approx(np.mean(known["curve"]))
    assert known["curve"][0] == results["curve"][0]  # one task: knowing it says nothing


def test_a_run_that_an_earlier_version_began_goes_on_without_the_accuracy_with_the_task_known(tmp_path, data):
    folder = tmp_path / "run"
    settings, own = resolve({"data": data, **FAST})
    with pytest.raises(Stop):
        run(settings, own, folder, every=1e9, progress=stopped_after(36), note=lambda line: None)
    newest = max(folder.glob("checkpoint-*.safetensors"))
    tensors, facts = read_checkpoint(newest)
    for step in facts["steps"]:
        del step["known_task"]
    for file in folder.glob("checkpoint-*.safetensors"):
        file.unlink()
    write_checkpoint(newest, tensors, facts)
    results = finished(data, folder)
    assert results["tasks_done"] == 3
    assert "known_task" not in results


def test_another_seed_is_another_run_and_the_class_order_is_its_own_seed(tmp_path, data):
    first = finished(data, tmp_path / "a")
    second = finished(data, tmp_path / "b", seed=1)
    assert first["class_order"] == second["class_order"]
    assert outcome(tmp_path / "a")[1] != outcome(tmp_path / "b")[1]
    assert finished(data, tmp_path / "c", class_order=7)["class_order"] != first["class_order"]


def test_other_settings_do_not_overwrite_a_run(tmp_path, data):
    finished(data, tmp_path / "run")
    before = outcome(tmp_path / "run")
    with pytest.raises(ValueError, match=r"other settings \(epochs is 4 there, not 5\)"):
        finished(data, tmp_path / "run", epochs=5)
    assert outcome(tmp_path / "run") == before


def test_a_method_whose_code_was_changed_is_said_so(tmp_path, data, monkeypatch):
    settings, own = resolve({"data": data, **FAST})
    with pytest.raises(Stop):
        run(settings, own, tmp_path / "run", every=0.0, progress=stopped_after(6), note=lambda line: None)
    begin = HLLL.begin

    def changed(self, task):
        begin(self, task)
        self.more = torch.nn.Linear(2, 2)

    monkeypatch.setattr(HLLL, "begin", changed)
    with pytest.raises(ValueError, match="does not fit the method"):
        finished(data, tmp_path / "run")


def test_images_of_ones_own_need_no_file(tmp_path, data):
    settings, own = resolve({"data": "mine", **FAST})
    results = run(settings, own, tmp_path / "run", images=image_set(), note=lambda line: None)
    first = {name: value for name, value in results.items() if name not in ("settings", "timing")}
    finished(data, tmp_path / "file")
    second = outcome(tmp_path / "file")[0]
    assert first == {name: value for name, value in second.items() if name != "settings"}


def test_a_run_goes_on_where_it_began(tmp_path, data):
    results = finished(data, tmp_path / "run", device="auto")
    assert results["settings"]["device"] in ("cpu", "cuda")  # never auto: that may mean something else tomorrow
    assert results["settings"]["precision"] in ("fp32", "bf16")


def test_two_processes_do_not_work_in_one_folder(tmp_path, data):
    settings, own = resolve({"data": data, **FAST})
    inner = []

    def meanwhile(scenario, method):
        with pytest.raises(ValueError, match="another process is at work"):
            run(settings, own, tmp_path / "run", note=inner.append)
        return stopped_after(99)(scenario, method)

    run(settings, own, tmp_path / "run", progress=meanwhile, note=inner.append)
    assert json.loads((tmp_path / "run" / "results.json").read_text())["tasks_done"] == 3


def test_settings_that_cannot_be_read_are_said_so(tmp_path, data):
    finished(data, tmp_path / "run")
    (tmp_path / "run" / "settings.json").write_text("{")
    with pytest.raises(ValueError, match=r"settings\.json cannot be read"):
        finished(data, tmp_path / "run")


def test_changed_images_are_not_mixed_into_a_run(tmp_path, data):
    finished(data, tmp_path / "run")
    with np.load(data) as arrays:
        changed = dict(arrays)
    changed["train_images"] = 255 - changed["train_images"]
    np.savez(data, **changed)
    with pytest.raises(ValueError, match="no longer what it was"):
        finished(data, tmp_path / "run")


def test_exemplars_are_named_by_their_place_in_the_data(tmp_path, data):
    finished(data, tmp_path / "run", held_out=0.4)
    labels = np.load(data)["train_labels"]
    for name, rows in json.loads((tmp_path / "run" / "exemplars.json").read_text()).items():
        assert {str(label) for label in labels[rows].tolist()} == {name}
