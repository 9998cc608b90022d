"""``everspan incremental`` and ``python3 -m everspan.deep``: parses, calls, prints."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from errno import EDQUOT, EFBIG, ENOSPC
from functools import partial
from pathlib import Path
from typing import Any

from ..scenarios import ClassScenario
from ..untrusted import is_count
from .engine import Place
from .methods import Method, load_method
from .runs import has_checkpoints, read_settings, run
from .settings import RunSettings, parse_setting, resolve, settings_help

_DESCRIPTION = """Teaches a network new classes, task after task, and measures what it still knows after each.

The run is kept in a folder: stopped at any moment, the same command goes on with it and ends with the same figures.
Writes settings.json, results.json and exemplars.json (after every task), checkpoints, and model.pt2 (the network, by
torch.export)."""
_EPILOG = """examples:
  everspan incremental --data digits --out digits-hlll
  everspan incremental --method replay --data digits --out digits-replay
  everspan compare digits-hlll digits-replay
  everspan incremental --method hlll --recipe best --data cifar100 --out cifar-hlll

`everspan incremental --method NAME --help` lists the hyper-parameters of that method."""


def parser(prog: str, known: Mapping[str, str]) -> argparse.ArgumentParser:
    """The command line of a method, a recipe and a set of images: all settings are options, with their defaults."""
    run, own = resolve(known)
    made = argparse.ArgumentParser(
        prog=prog, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--out", type=Path, default=None, metavar="RUN", help="folder of the run (everspan-DATA-METHOD)")
    made.add_argument("--data-dir", type=Path, default=None, help="where CIFAR is ($EVERSPAN_DATA, ~/.cache/everspan)")
    made.add_argument(
        "--jobs",
        type=int,
        default=None,
        help="CPU threads ($OMP_NUM_THREADS or as many as there are cores, or as the run began with; the last bits "
        "depend on their number, and a small network on a busy machine is fastest with 1)",
    )
    made.add_argument("--checkpoint-seconds", type=float, default=60.0, help="seconds between checkpoints in a task")
    made.add_argument("--no-export", action="store_true", help="do not write model.pt2 in the end")
    for title, kind, values in (("run", RunSettings, run), (f"method {run.method}", type(own), own)):
        about = f"defaults for --data {run.data} --recipe {run.recipe}"
        group = made.add_argument_group(title, about)
        for name, text, options in settings_help(kind):
            value = getattr(values, name)
            if name == "recipe":
                text += f": {', '.join(load_method(run.method).recipes)}"
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else value
            group.add_argument(
                f"--{name.replace('_', '-')}",
                type=partial(_parsed, kind, name),
                metavar=options or name.upper(),
                default=argparse.SUPPRESS,
                help=f"{text} (default: {shown})".replace("%", "%%"),
            )
    return made


def main(arguments: Sequence[str], prog: str = "everspan incremental") -> int:
    """Run the command; returns the exit code."""
    try:
        options = vars(parser(prog, _known(arguments)).parse_args(arguments))
        return _run(options)
    except OSError as error:
        went_on = "; what was saved goes on with the same command" if error.errno in (ENOSPC, EFBIG, EDQUOT) else ""
        print(f"{prog}: {error}{went_on}", file=sys.stderr)
        return 2
    except (ValueError, FloatingPointError, argparse.ArgumentError) as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(f"\n{prog}: {'; '.join(['stopped', *stop.args])}", file=sys.stderr)
        return 130


def _run(options: dict[str, Any]) -> int:
    out, folder, jobs = options.pop("out"), options.pop("data_dir"), options.pop("jobs")
    every, no_export = options.pop("checkpoint_seconds"), options.pop("no_export")
    if jobs is not None:
        options["threads"] = jobs
    settings, own = resolve(options)
    out = out or Path(f"everspan-{Path(settings.data).stem}-{settings.method.replace(':', '.')}")
    known = None if "threads" in options else _threads_of(out)
    settings = replace(settings, threads=known or settings.threads or _cores())
    previous = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        results = run(settings, own, out, data_folder=folder, every=every, progress=Report, note=_note)
    except KeyboardInterrupt:
        saved = out.is_dir() and has_checkpoints(out)
        left = "the same command goes on from the last checkpoint" if saved else "nothing was saved yet"
        raise KeyboardInterrupt(left) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    print("\n".join(summary(results)))
    print(f"wrote {out / 'results.json'}")
    if not no_export and has_checkpoints(out):
        from .model import CannotExport, IncrementalModel

        try:  # the folder's settings are those given here: code that they name was named by the user
            IncrementalModel.load(out, allow_code=True).export(out / "model.pt2")
            print(f"wrote {out / 'model.pt2'}")
        except CannotExport as error:
            print(f"model.pt2 was not written, {error}", file=sys.stderr)
    return 0


def _cores() -> int:
    """CPU threads to begin with: as many as the environment asks for, else as there are cores for this process."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads_of(out: Path) -> int | None:
    """The threads that the run in this folder began with: with as many it goes on to the same bits."""
    file = out / "settings.json"
    if not file.exists():
        return None
    threads = read_settings(file).get("threads")
    return threads if is_count(threads) and threads else None


def summary(results: dict[str, Any]) -> list[str]:
    """The figures a person looks for first."""
    curve = " ".join(f"{value:.1f}" for value in results["curve"])
    return [
        f"accuracy on all classes seen, after every task: {curve}",
        f"average incremental accuracy {results['average_incremental_accuracy']:.2f}%, "
        f"last {results['last_accuracy']:.2f}%, forgetting {results['forgetting']:.2f}",
        f"{results['parameters']:,} parameters, {results['exemplars']:,} exemplars, "
        f"{results['timing']['seconds']:.0f} s, {results['timing']['images_per_second']:,.0f} images/s",
    ]


class Report:
    """Lines on stderr: where the run is, how fast it is, and how long it will take."""

    def __init__(self, scenario: ClassScenario, method: Method) -> None:
        self.tasks = len(scenario)
        self.work = [method.work(task) for task in scenario]
        self.stages = [method.stages(task) for task in scenario]
        self.started = self.shown = time.perf_counter()
        self.begun: float | None = None
        self.pace: float | None = None

    def epoch(self, place: Place, epochs: int, loss: float, images: int, seconds: float) -> None:
        stages, later = self.stages[place.task], 0.0
        long = place.stage < len(stages)
        if long:
            own = stages[place.stage] / epochs  # of an epoch, in the terms of the plan
            share = (sum(stages[: place.stage]) + own * place.epoch) / sum(stages)
        else:
            own, share, later = 0.0, 1.0, (epochs - place.epoch) * seconds
        done = sum(self.work[: place.task]) + share * self.work[place.task]
        now = time.perf_counter()
        if self.begun is None:
            self.begun = done - self.work[place.task] * own / sum(stages)  # where this process began
        if long:  # how long a unit of work takes; stages after these are short and told as they are
            self.pace = (now - self.started) / max(done - self.begun, 1e-9)
        pace = seconds * epochs / self.work[0] if self.pace is None else self.pace
        left = later + (sum(self.work) - done) * pace
        last = place.epoch == epochs
        terminal = sys.stderr.isatty()
        if terminal or last or now - self.shown > 10.0:
            self.shown = now
            stage = "" if not place.stage else f", stage {place.stage + 1}"
            line = (
                f"task {place.task + 1} of {self.tasks}{stage}, epoch {place.epoch} of {epochs}: loss {loss:.3f}, "
                f"{images / seconds:,.0f} images/s, about {_duration(left)} left"
            )
            print(f"\r{line:<100}" if terminal else line, end="" if terminal and not last else "\n", file=sys.stderr)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _note(line: str) -> None:
    print(line, file=sys.stderr)


def _known(arguments: Sequence[str]) -> dict[str, str]:
    """What decides which options there are, and their defaults."""
    only = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for name in ("method", "data", "recipe"):
        only.add_argument(f"--{name}")
    return vars(only.parse_known_args(list(arguments))[0])


def _parsed(kind: type[Any], name: str, text: str) -> Any:
    try:
        return parse_setting(kind, name, text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
