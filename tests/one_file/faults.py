"""Every file operation of a command killed or failed, one by one: afterwards all is as if nothing had happened.

    python -m tests.one_file.faults [--sample N] [--seed S]      # with the library of `library()` preloaded

prints a JSON object: for every command the number of its file operations, and what went wrong. `run` starts it so.
`tests/one_file/test_faults.py` takes a sample, ``benchmarks/durability.py`` takes all.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import functools
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KILL = 1
MODES = {"killed": KILL, "failed with EIO": errno.EIO, "failed with ENOSPC": errno.ENOSPC}


def library(folder: Path) -> Path | None:
    """The compiled shim; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    out = folder / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", out, HERE / "faults.c", "-ldl"], check=True)
    return out


def run(folder: Path, *arguments: str) -> dict[str, Any] | None:
    """What a run of this module found; None where the shim cannot be made."""
    shim = library(folder)
    if shim is None:
        return None
    environment = os.environ | {"LD_PRELOAD": str(shim), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.one_file.faults", str(folder), *arguments]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[1], stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# The commands ---------------------------------------------------------------------------------------------------------


class Commands:
    """What is done to a file, on copies of the same beginning; tables lie elsewhere, so that only the model counts."""

    def __init__(self, folder: Path) -> None:
        from everspan.one_file import _learning, learn

        from .test_one_file import shops

        _learning._COMMIT_AFTER = 0.0  # commits do not depend on the clock
        self.tables, self.start = folder / "tables", folder / "start"
        for made in (self.tables, self.start):
            made.mkdir()
        shops(8, 12).to_csv(self.tables / "first.csv", index=False)
        shops(11, 6, seed=9).to_csv(self.tables / "more.csv", index=False)
        learn(self.start / "a.everspan", self.tables / "first.csv")
        shutil.copy(HERE / "formats" / "format-1.everspan", self.start / "old.everspan")
        learn(folder / "other.everspan", self.tables / "more.csv")
        self.other = folder / "other.everspan"

    def all(self) -> dict[str, tuple[str | None, Callable[[Path], object]]]:
        """By name: the file in the beginning, and what is done to it."""
        from everspan.one_file import compact, forget, learn, open_model, rebuild

        first, more = self.tables / "first.csv", self.tables / "more.csv"
        return {
            "learn, a new file": (None, lambda path: learn(path, first)),
            "learn, a known file": ("a.everspan", lambda path: learn(path, more)),
            "learn, a file of format 1": ("old.everspan", lambda path: learn(path, more)),
            "forget": ("a.everspan", lambda path: _unless_gone(forget, path, ["s3"])),
            "forget --rebuild": ("a.everspan", lambda path: rebuild(path, ["s3"], [first])),
            "save, a new file": (None, lambda path: open_model(self.other).save(path)),
            "save, over another": ("a.everspan", lambda path: open_model(self.other).save(path)),
            "compact": ("a.everspan", compact),
        }


def _unless_gone(forget: Callable[..., object], path: Path, tasks: list[str]) -> object:
    """A command that is given again finds that the task is forgotten."""
    from everspan.one_file import open_model

    return forget(path, tasks) if tasks[0] in open_model(path).tasks_ else None


# One fault ------------------------------------------------------------------------------------------------------------


def in_child(action: Callable[[], Any]) -> tuple[int, Any]:
    """The status of a forked process that does something, and what it returned or said."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        status, answer = 0, None
        try:
            answer = action()
        except BaseException as error:
            kind = type(error).__name__
            status, answer = 1, {"error": kind, "text": str(error), "trace": traceback.format_exc()}
        with os.fdopen(send, "w") as file:
            json.dump(answer, file, default=str)
        os._exit(status)
    os.close(send)
    with os.fdopen(receive) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(said) if said else None


def state(path: Path) -> Any:
    """All that a file says, but what differs from run to run."""
    from everspan.store import TASK, read

    if not path.exists():
        return None
    contents, _ = read(path)
    seconds = TASK.index("seconds")
    about = {key: value for key, value in contents.about.items() if key not in ("identity", "state", "change")}
    tasks = [[value for place, value in enumerate(row) if place != seconds] for row in contents.tasks]
    arrays = {name: [values.shape, values.tobytes().hex()] for name, values in sorted(contents.arrays.items())}
    return json.loads(json.dumps([about, arrays, tasks, contents.predictors], default=bytes.hex))


def everything_works(path: Path, table: Path) -> list[str]:
    """What commands that only read say against a file."""
    from everspan.cli import main

    wrong = []
    if path.exists():
        for command in (["show", str(path)], ["check", str(path)], ["predict", str(path), str(table)]):
            out, errors = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
                code = main(command)
            if code:
                wrong.append(f"{command[0]} ended with {code}: {errors.getvalue() or out.getvalue()}")
    return wrong


def survives(action: Callable[[Path], object], path: Path, table: Path, at: int, mode: int, ends: Any) -> list[str]:
    """What is wrong after the command was killed or failed at one file operation."""
    before, shim = in_child(lambda: state(path))[1], ctypes.CDLL(None)

    def disturbed() -> None:
        shim.faults_arm(str(path.parent).encode(), ctypes.c_long(at), mode)
        action(path)

    status, said = in_child(disturbed)
    wrong = []
    if mode == KILL and not os.WIFSIGNALED(status):
        wrong.append("was not killed")
    if said is not None and said["error"] not in ("StoreError", "StaleError", "TableError"):
        wrong.append(f"raised {said['error']}: {said['trace']}")
    status, found = in_child(lambda: [everything_works(path, table), state(path)])
    if status:
        return [*wrong, f"afterwards: {found}"]
    wrong += found[0]
    if found[1] is None and before is not None:
        wrong.append("the file is gone")
    status, said = in_child(lambda: action(path) and None)
    if status:
        wrong.append(f"the command given again raised {said}")
    elif in_child(lambda: state(path))[1] != ends:
        wrong.append("the command given again ended in another state than one that was never disturbed")
    if left := [file.name for file in path.parent.iterdir() if file != path]:
        wrong.append(f"left {left}")
    return wrong


def begin(commands: Commands, start: str | None, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "shop.everspan"
    if start is not None:
        shutil.copy(commands.start / start, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, help="faults in all (default: every operation in every mode)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    shim = ctypes.CDLL(None)
    shim.faults_count.restype = ctypes.c_long
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        commands = Commands(folder)
        operations, ends = {}, {}
        for name, (start, action) in commands.all().items():
            path = begin(commands, start, folder / "run")

            def counted(action: Callable[[Path], object] = action, path: Path = path) -> int:
                shim.faults_arm(str(path.parent).encode(), ctypes.c_long(0), 0)
                action(path)
                return int(shim.faults_count())

            status, operations[name] = in_child(counted)
            assert status == 0, operations[name]
            ends[name] = in_child(functools.partial(state, path))[1]
            everything_works(path, commands.tables / "more.csv")  # what it imports, later children have at once
        points = [(name, at, mode) for name in operations for at in range(1, operations[name] + 1) for mode in MODES]
        if options.sample is not None:
            points = sorted(random.Random(options.seed).sample(points, min(options.sample, len(points))))
        wrong = []
        for done, (name, at, mode) in enumerate(points):
            start, action = commands.all()[name]
            path = begin(commands, start, folder / "run")
            found = survives(action, path, commands.tables / "more.csv", at, MODES[mode], ends[name])
            wrong += [f"{name}, operation {at} {mode}: {what}" for what in found]
            if done % 100 == 99:
                print(f"{done + 1} of {len(points)} faults, {len(wrong)} wrong", file=sys.stderr, flush=True)
    json.dump({"operations": operations, "faults": len(points), "wrong": wrong}, sys.stdout)


if __name__ == "__main__":
    main()
