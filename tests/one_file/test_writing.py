"""A file is written whole or not at all, keeps its permissions, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys

import pytest

from everspan.one_file._writing import whole
from everspan.store import StoreError

from .fuzzing import run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions, links and locks")


def write(path, text):
    with whole(path) as part:
        part.write_text(text)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "out.csv"
    path.write_text("old")
    path.chmod(mode)
    with whole(path) as part:
        assert mode_of(part) == 0o600, "nobody else may read it while it is written"
        part.write_text("new")
    assert (path.read_text(), mode_of(path)) == ("new", mode)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_permissions_of_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write(tmp_path / "out.csv", "new")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "out.csv") == 0o666 & ~umask


def test_parts_of_dead_writers_are_removed_and_those_of_living_ones_are_not(tmp_path):
    path = tmp_path / ("long name " * 20 + ".csv")
    script = "import sys, signal\nfrom pathlib import Path\nfrom everspan.one_file._writing import whole\n"
    script += "with whole(Path(sys.argv[1])) as part:\n    part.write_text('half')\n    print(part, flush=True)\n"
    script += "    signal.pause()\n"

    def writer():
        process = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
        return process, process.stdout.readline().strip()

    (dead, left), (living, kept) = writer(), writer()
    assert left != kept
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert os.path.exists(left)
    (tmp_path / "other.csv").write_text("")
    write(tmp_path / "other.csv", "of another file")
    assert os.path.exists(left)
    write(path, "whole")
    assert sorted(map(str, tmp_path.iterdir())) == sorted([kept, str(path), str(tmp_path / "other.csv")])
    living.kill()
    living.communicate()
    write(path, "again")
    assert len(list(tmp_path.iterdir())) == 2


def test_what_goes_wrong_while_writing_leaves_the_old_file(tmp_path):
    write(tmp_path / "out.csv", "old")

    def fail():
        with whole(tmp_path / "out.csv") as part:
            part.write_text("half")
            raise OSError("disk is full")

    with pytest.raises(OSError, match="disk"):
        fail()
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_links_in_a_circle_are_said_in_one_line(tmp_path):
    for name, other in (("a.csv", "b.csv"), ("b.csv", "a.csv")):
        (tmp_path / name).symlink_to(other)
    with pytest.raises(StoreError, match="its links lead in a circle"):
        write(tmp_path / "a.csv", "")
    with pytest.raises(StoreError, match="its links lead in a circle"):
        write(tmp_path / "a.csv" / "out.csv", "")
    for command in (
        ("learn", tmp_path / "a.everspan", tmp_path / "a.csv"),
        ("predict", tmp_path / "a.csv", tmp_path / "a.csv", "--out", tmp_path / "b.csv"),
        ("show", tmp_path / "a.csv"),
    ):
        code, _, errors = run(*command)
        assert (code, errors.count("\n")) == (2, 1), errors
