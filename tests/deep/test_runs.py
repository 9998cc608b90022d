"""Runs that are killed, interrupted, starved of disk and handed broken files, and end with the same figures."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

from everspan.deep import checkpoint
from everspan.deep.checkpoint import BadCheckpoint, read_checkpoint, write_checkpoint
from everspan.deep.engine import Place
from everspan.deep.methods.hlll import HLLL
from everspan.deep.runs import run
from everspan.deep.settings import resolve
from everspan.deep.state import State

from ._common import image_set

FAST = {
    "increment": 2,
    "memory_total": 12,
    "backbone": "tests.deep._common:Tiny",
    "epochs": 4,
    "batch_size": 12,
    "warmup": 1,
    "augment": "crop:1",
    "threads": 1,
    "device": "cpu",
}


@pytest.fixture
def data(tmp_path):
    images = image_set()
    parts = {name: getattr(images, name) for name in ("train_images", "train_labels", "test_images", "test_labels")}
    arrays = {name: np.moveaxis(part, 1, -1) if part.ndim == 4 else part for name, part in parts.items()}
    np.savez(tmp_path / "images.npz", **arrays)
    return str(tmp_path / "images.npz")


def outcome(folder):
    """Everything outside ``timing``, and every weight."""
    results = json.loads((folder / "results.json").read_text())
    del results["timing"]
    newest = max(folder.glob("checkpoint-*.safetensors"))
    tensors, facts = read_checkpoint(newest)
    return (
        results,
        {name: tensor.reshape(-1).view(torch.uint8).tolist() for name, tensor in tensors.items()},
        facts["memory"],
    )


def finished(data, folder, notes=None, every=0.0, **changes):
    """A whole run, from wherever it was."""
    settings, own = resolve({"data": data, **FAST, **changes})
    lines = [] if notes is None else notes
    return run(settings, own, folder, every=every, note=lines.append)


# In one process -------------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stopped_after(epochs):
    """Progress that stops the run after so many epochs."""

    def made(scenario, method):
        class Watch:
            left = epochs

            def epoch(self, place, epochs, loss, images, seconds):
                self.left -= 1
                if self.left < 0:
                    raise Stop

        return Watch()

    return made


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("hlll", {"classifier_epochs": 3}),
        ("hlll", {"recipe": "best", "flip_test": False}),
        ("hlll", {"classifier_epochs": 2, "checkpoint_precision": "bf16"}),
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


# Broken files ---------------------------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path):
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))


def flipped_in_the_facts(path):
    content = bytearray(path.read_bytes())
    place = content.index(b"correct") + len(b'correct\\": [[')
    assert chr(content[place]).isdigit()
    content[place] ^= 1
    path.write_bytes(bytes(content))


def foreign(path):
    path.write_bytes(b"PK\x03\x04 something else")


def empty(path):
    path.write_bytes(b"")


def of_another_run(path):
    tensors, facts = read_checkpoint(path)
    facts["settings"]["epochs"] = 99
    write_checkpoint(path, tensors, facts)


@pytest.mark.parametrize("damage", [cut, flipped, flipped_in_the_facts, foreign, empty, of_another_run])
def test_a_broken_checkpoint_is_refused_by_name_and_the_one_before_is_used(tmp_path, data, damage):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished(data, whole)
    settings, own = resolve({"data": data, **FAST})
    with pytest.raises(Stop):
        run(settings, own, broken, every=0.0, progress=stopped_after(9), note=lambda line: None)
    newest = max(broken.glob("checkpoint-*.safetensors"))
    damage(newest)
    notes = []
    finished(data, broken, notes)
    assert any(note.startswith("refused: " + newest.name) for note in notes)
    assert any("of 3 tasks are done" in note for note in notes)  # the one before was good
    assert outcome(whole) == outcome(broken)


def test_the_newest_checkpoint_is_the_one_that_is_furthest(tmp_path):
    state = State(tmp_path, {"checkpoint_precision": "fp32"})
    places = [Place(998), Place(999), Place(1000, 99, 1), Place(1000, 100, 99_999), Place(1000, 100, 100_000)]
    for place in places:
        state.write(place, nn.Linear(1, 1), {})
        again = State(tmp_path, {"checkpoint_precision": "fp32"})
        assert again.find()
        assert again.place == place


def test_exemplars_are_named_by_their_place_in_the_data(tmp_path, data):
    finished(data, tmp_path / "run", held_out=0.4)
    labels = np.load(data)["train_labels"]
    for name, rows in json.loads((tmp_path / "run" / "exemplars.json").read_text()).items():
        assert {str(label) for label in labels[rows].tolist()} == {name}


def test_where_no_checkpoint_is_whole_the_run_begins_anew(tmp_path, data):
    finished(data, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    for path in (tmp_path / "broken").glob("checkpoint-*.safetensors"):
        cut(path)
    settings, own = resolve({"data": data, **FAST})
    with pytest.raises(Stop):
        run(settings, own, tmp_path / "broken", every=0.0, progress=stopped_after(6), note=lambda line: None)
    notes = []
    finished(data, tmp_path / "broken", notes)
    assert notes == ["going on: 1 of 3 tasks are done"]  # what was refused is out of the way
    assert outcome(tmp_path / "whole") == outcome(tmp_path / "broken")


def test_a_checkpoint_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "c.safetensors"
    write_checkpoint(path, {"a": torch.arange(4)}, {"n": 1})
    monkeypatch.setattr(
        checkpoint.os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(OSError, match="No space"):
        write_checkpoint(path, {"a": torch.arange(9)}, {"n": 2})
    tensors, facts = read_checkpoint(path)
    assert tensors["a"].tolist() == [0, 1, 2, 3]
    assert facts == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["c.safetensors"]


def test_checkpoints_hold_any_kind_of_number(tmp_path):
    path = tmp_path / "c.safetensors"
    tensors = {"h": torch.ones(3, dtype=torch.bfloat16), "l": torch.tensor(5), "e": torch.zeros(0, 4)}
    write_checkpoint(path, tensors, {})
    back, _ = read_checkpoint(path)
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    with pytest.raises(BadCheckpoint):
        read_checkpoint(tmp_path / "nothing")


# Killed processes -----------------------------------------------------------------------------------------------------

# Writes are stretched: a few bytes at a time, so that a kill falls inside one.
SCRIPT = """
import sys, torch
torch.set_num_threads(1)
from everspan.deep import checkpoint, command
checkpoint.CHUNK = 16
sys.exit(command.main(sys.argv[1:]))
"""


def started(data, folder, *more, **options):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in FAST.items()]
    command = [sys.executable, "-c", SCRIPT, "--data", data, *flags, "--checkpoint-seconds", "0", "--no-export"]
    command += ["--classifier-epochs", "3", "--out", str(folder), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_for(process, condition):
    """Until the condition holds or the process has ended."""
    deadline = time.monotonic() + 60
    while process.poll() is None and not condition():
        assert time.monotonic() < deadline
    return process.poll() is None


def test_kill_nine_at_ten_moments_changes_nothing(tmp_path, data):
    folder, whole = tmp_path / "killed", tmp_path / "whole"
    finished(data, whole, classifier_epochs=3)

    def newest():
        return max((path.name for path in folder.glob("checkpoint-*.safetensors")), default="")

    def writing():
        return any(name.endswith(".partial") for name in os.listdir(folder)) if folder.exists() else False

    kills, inside, places = 0, 0, set()
    for moment in range(10):
        before = newest()
        process = started(data, folder)
        if moment % 2:  # inside a write
            alive = wait_for(process, lambda before=before: newest() > before and writing())
        else:  # inside an epoch, or between one and the next
            alive = wait_for(process, lambda before=before: newest() > before)
            time.sleep(0.0005 * moment)
        process.kill()
        process.communicate()
        kills += alive
        inside += any(path.name.endswith(".partial") for path in folder.iterdir())
        places.add(newest())
        if not alive:
            break
    assert kills == 10
    assert inside >= 1, "no kill fell inside a write: this test shows nothing"
    assert len({place[:14] for place in places}) >= 2  # in different tasks
    last = started(data, folder)
    _, errors = last.communicate(timeout=120)
    assert last.returncode == 0, errors
    assert outcome(whole) == outcome(folder)


def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path, data):
    folder, whole = tmp_path / "run", tmp_path / "whole"
    finished(data, whole, classifier_epochs=3)
    process = started(data, folder)
    assert wait_for(process, lambda: any(folder.glob("checkpoint-001-*")) if folder.exists() else False)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1].endswith("stopped; the same command goes on from the last checkpoint")
    assert "Traceback" not in errors
    process = started(data, folder)
    process.communicate(timeout=120)
    assert outcome(whole) == outcome(folder)


def test_a_full_disk_leaves_a_run_that_goes_on(tmp_path, data):
    folder, whole = tmp_path / "run", tmp_path / "whole"
    finished(data, whole, classifier_epochs=3)

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as an error of the write, like a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    process = started(data, folder, preexec_fn=little_room)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "File too large" in errors.splitlines()[-1]
    assert "goes on" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert list(folder.glob("checkpoint-*.safetensors")), "the first checkpoints fitted"
    assert not list(folder.glob("*.partial"))
    process = started(data, folder)
    process.communicate(timeout=120)
    assert outcome(whole) == outcome(folder)
