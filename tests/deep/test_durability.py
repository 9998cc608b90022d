"""Runs that are killed, interrupted, starved of disk and handed broken files, and end with the same figures."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from everspan.deep import checkpoint
from everspan.deep.checkpoint import BadCheckpoint, read_checkpoint, write_checkpoint
from everspan.deep.engine import Place
from everspan.deep.runs import run
from everspan.deep.settings import resolve
from everspan.deep.state import State

from ._runs import FAST, Stop, finished, outcome, stopped_after

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
        newest = State(tmp_path, {"checkpoint_precision": "fp32"}).files()[0]
        assert Place(**read_checkpoint(newest)[1]["place"]) == place


def test_where_no_checkpoint_is_whole_the_run_begins_anew(tmp_path, data):
    finished(data, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "broken")
    for path in (tmp_path / "broken").glob("checkpoint-*.safetensors"):
        cut(path)
    settings, own = resolve({"data": data, **FAST})
    notes = []
    with pytest.raises(Stop):
        run(settings, own, tmp_path / "broken", every=0.0, progress=stopped_after(6), note=notes.append)
    assert notes[-1] == "no checkpoint is whole: the run begins anew"
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
