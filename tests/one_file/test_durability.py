"""Whatever happens, the file opens, and nothing that was finished is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from everspan.one_file import learn, open_model, overview

from ..hot_journals import copy_of_a_killed
from .fuzzing import run
from .killing import LEARN, survive, write_table


def test_kill_9_while_reading_trying_growing_and_committing(tmp_path):
    found = survive(tmp_path, tasks=160, kills=12)
    assert sum(found[moment] for moment in ("reading", "trying", "growing", "committing", "after committing")) >= 8
    assert min(found["reading"], found["trying"], found["committing"]) >= 1


def test_two_processes_learn_into_one_file_and_others_read(tmp_path):
    """No task is lost, none is learned twice, and every answer that a reader gets is a whole state's."""
    path = tmp_path / "a.everspan"
    for part, seed in enumerate((1, 2)):
        write_table(tmp_path / f"{part}.parquet", 120, seed=seed)
    write_table(tmp_path / "first.parquet", 5, seed=0)
    learn(path, tmp_path / "first.parquet")
    writers = [
        subprocess.Popen([sys.executable, "-c", LEARN, str(path), str(tmp_path / f"{part}.parquet")]) for part in (0, 1)
    ]
    seen = []
    while any(writer.poll() is None for writer in writers):
        model, found = open_model(path), overview(path)
        assert len(model.history_) <= found["tasks"]
        model.predict(np.zeros((1, 12)), tasks=[model.tasks_[-1]])
        seen.append(found["tasks"])
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen == sorted(seen)
    model = open_model(path)
    assert len(model.history_) == 120  # the tables name the same tasks: each process brought its rows
    counts = [event.labels_used for event in model.history_]
    assert sorted(counts) == [60] * 115 + [90] * 5, "every row counts once"


def test_two_processes_make_one_file(tmp_path):
    for part, seed in enumerate((1, 2)):
        write_table(tmp_path / f"{part}.parquet", 30, seed=seed)
    code = "import sys; from everspan.one_file import learn; learn(*sys.argv[1:])"
    writers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "a.everspan"), str(tmp_path / f"{part}.parquet")])
        for part in (0, 1)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert {event.labels_used for event in open_model(tmp_path / "a.everspan").history_} == {60}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of half a megabyte, and what makes it read-only."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or os.geteuid() != 0:
        pytest.skip("mounting a disk needs root")

    def mount(options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)

    if mount("size=512k").returncode:
        pytest.skip("no disk can be mounted here")
    yield folder, lambda: mount("remount,ro")
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_loses_nothing(tmp_path, small_disk):
    write_table(tmp_path / "a.parquet", 600, rows=20)
    small = small_disk[0] / "a.everspan"
    code, _, errors = run("learn", small, tmp_path / "a.parquet", "--quiet")
    assert code == 2
    assert errors.count("\n") == 1
    assert "cannot be written" in errors
    assert "full" in errors
    kept = open_model(small)  # what was finished before
    assert 0 < len(kept.history_) < 600
    for left in small_disk[0].glob("a.everspan*"):  # a journal beside it, where there was no room to take it up
        shutil.copy(left, tmp_path)
    done = learn(tmp_path / "a.everspan", tmp_path / "a.parquet")  # where there is room it goes on
    assert done.known == len(kept.history_)
    learn(tmp_path / "b.everspan", tmp_path / "a.parquet")
    assert open_model(tmp_path / "a.everspan").history_ == open_model(tmp_path / "b.everspan").history_


def test_what_may_only_be_read_is_read(tmp_path, small_disk):
    folder, close = small_disk
    path = folder / "a.everspan"
    write_table(tmp_path / "a.parquet", 20)
    write_table(tmp_path / "b.parquet", 25, seed=1)
    learn(path, tmp_path / "a.parquet")
    if close().returncode:
        pytest.skip("no disk can be made read-only here")
    check_closed(path, tmp_path / "b.parquet")


def test_a_killed_process_s_journal_where_nothing_may_be_written(tmp_path, small_disk):
    """It cannot be taken back there: that is said in one line, and elsewhere the file heals."""
    folder, close = small_disk
    write_table(tmp_path / "a.parquet", 20)
    learn(tmp_path / "a.everspan", tmp_path / "a.parquet")
    copy_of_a_killed(tmp_path / "a.everspan", folder / "a.everspan")
    if close().returncode:
        pytest.skip("no disk can be made read-only here")
    code, _, errors = run("show", folder / "a.everspan")
    assert code == 2
    assert "a process was stopped while it wrote to it: open it once where it may be written" in errors
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(folder, elsewhere)
    assert len(open_model(elsewhere / "a.everspan").tasks_) == 20


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_of_somebody_else_is_read(tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    path = folder / "a.everspan"
    write_table(tmp_path / "a.parquet", 20)
    write_table(tmp_path / "b.parquet", 25, seed=1)
    learn(path, tmp_path / "a.parquet")
    path.chmod(0o444)
    folder.chmod(0o555)
    try:
        check_closed(path, tmp_path / "b.parquet")
    finally:
        folder.chmod(0o755)


def check_closed(path, table):
    before = path.read_bytes()
    code, said, errors = run("show", path)
    assert code == 0, errors
    assert "20 tasks" in said
    assert run("predict", path, table)[0] == 0
    for command in (
        ("learn", path, table, "--quiet"),
        ("forget", path, "t3"),
        ("learn", path.with_name("new.everspan"), table, "--quiet"),
    ):
        code, said, errors = run(*command)
        assert code == 2, said
        assert "cannot be written" in errors
        assert errors.count("\n") == 1
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
