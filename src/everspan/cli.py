"""``everspan ...``: parses, calls, prints; holds no logic."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import __version__
from .file_commands import add_commands
from .streams import data_output, signals_end_in_order, while_read
from .untrusted import escaped


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    with while_read(), signals_end_in_order() as ending:
        return ending.code(_main(sys.argv[1:] if arguments is None else list(arguments)))


def _main(given: list[str]) -> int:
    if given[:1] == ["incremental"]:  # its options depend on the method
        return _incremental(given[1:])
    parser = _parser()
    options = parser.parse_args(given)
    try:
        code: int = options.run(options)
    except BrokenPipeError:  # a table was being written to a reader who has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print(f"everspan {options.command}: stopped", file=sys.stderr)
        return 130
    except (OSError, ValueError) as error:
        print(f"everspan {options.command}: {str(error).replace(chr(10), ' ')}", file=sys.stderr)
        return 2
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="everspan",
        description="Lifelong learning with a provable core: learn task after task, forget nothing, "
        "grow only when you must.",
        epilog="`everspan COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"everspan {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_simulate(commands)
    demo = commands.add_parser(
        "demo",
        help="draw a representation refinement and its certificate",
        description="Refines the features of a small synthetic task stream and draws what refinement keeps that "
        "plain SVD loses, and the region that the certificate proves no subspace can reach. Takes a second or two.",
        epilog="example: everspan demo --k 6 --n 80 --out my-demo",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--d", type=_count, default=100, help="dimension of the features")
    demo.add_argument("--n", type=_count, default=60, help="number of features")
    demo.add_argument("--k", type=_count, default=4, help="dimension of the subspace that all but one are near")
    demo.add_argument("--noise", type=_amount, default=0.35, help="norm of the noise on every feature")
    demo.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    demo.add_argument("--out", type=Path, default=Path("everspan-demo"), help="folder to write into")
    demo.set_defaults(run=_demo)
    _add_bounds(commands)
    _add_lower_bound(commands)
    _add_sample_complexity(commands)
    commands.add_parser("incremental", help="teach a network new classes, task after task (needs PyTorch)")
    compare = commands.add_parser(
        "compare",
        help="curves and the table of several runs of `everspan incremental`, as a page to look at",
        description="Draws the accuracy of several class-incremental runs after every task, and of the first run by "
        "task. Runs that differ in nothing but their seeds are averaged. Writes figure.svg, figure.png, report.html.",
        epilog="example: everspan compare digits-hlll digits-replay --out digits-compared",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    compare.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, the main one first")
    compare.add_argument("--out", type=Path, default=Path("everspan-compare"), help="folder to write into")
    compare.set_defaults(run=_compare)
    add_commands(commands, _predict)
    return parser


class _Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Defaults in the help, except where an argument says its own."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default is None else super()._get_help_string(action)


def _add_simulate(commands: Any) -> None:
    simulate = commands.add_parser(
        "simulate",
        help="the paper's linear figure: lifelong learning task by task, as a page to look at",
        description="Simulates a stream of classification tasks that share a few linear features, and learns it with "
        "Basic LLL, LLL-RR, our certified LLL-RR, every task alone, and all tasks jointly. Writes results.json, "
        "figure.svg, figure.png and report.html. With the defaults (the paper's setting) it takes under a minute on 2 "
        "cores.",
        epilog="example: everspan simulate --k 8 --m 60 --trials 4 --out eight-features",
        formatter_class=_Defaults,
    )
    simulate.add_argument(
        "--representation",
        choices=("linear", "relu"),
        default="linear",
        help="relu: features that are not linear (then d 20, m 60, n 1000, epsilon 0.05, trials 4 by default)",
    )
    simulate.add_argument("--d", type=_count, help="columns of the inputs (default: 100)")
    simulate.add_argument("--k", type=_count, default=5, help="features that all tasks share")
    simulate.add_argument("--m", type=_count, help="tasks (default: 100)")
    simulate.add_argument("--n", type=_count, help="labelled rows of a task (default: 200)")
    simulate.add_argument("--epsilon", type=_amount, help="the error every task must meet (default: 0.1)")
    simulate.add_argument("--trials", type=_count, help="streams to average over (default: 10)")
    simulate.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    simulate.add_argument("--jobs", type=_count, default=os.cpu_count() or 1, help="processes; the answer is the same")
    simulate.add_argument(
        "--regime",
        choices=("paper", "theory"),
        default="paper",
        help="paper: n labels a task; theory: labels on demand, accepted by the bound",
    )
    simulate.add_argument("--out", type=Path, default=Path("everspan-simulate"), help="folder to write into")
    simulate.set_defaults(run=_simulate)


def _simulate(options: argparse.Namespace) -> int:
    from .experiments import simulate, simulate_relu

    names = ["d", "k", "m", "n", "epsilon", "trials", "seed"]
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    module: Any = simulate_relu if options.representation == "relu" else simulate
    if module is simulate:
        given["regime"] = options.regime
    elif options.regime != "paper":
        raise ValueError("--regime theory is for linear features: relu takes n labels a task")
    settings = module.Settings(**given)
    options.out.mkdir(parents=True, exist_ok=True)  # before any work is lost
    with tempfile.TemporaryFile(dir=options.out):
        pass
    started = time.perf_counter()

    def progress(done: int, trials: int) -> None:
        left = (time.perf_counter() - started) / done * (trials - done)
        print(f"trial {done} of {trials} done, about {left:.0f} s left", file=sys.stderr, flush=True)

    results = module.run(settings, jobs=min(options.jobs, settings.trials), progress=progress)
    last = "units" if module is simulate_relu else "angle"
    print(f"method            average accuracy  least accuracy  features  {last}")
    for name, values in module.final_values(results):
        row = [values[panel][0] for panel in module.PANELS]
        print("{:17} {:16.3f}  {:14.3f}  {:8.1f}  {:5.1f}".format(name, *row))
    command = "everspan simulate " + " ".join(f"--{name} {value}" for name, value in results["settings"].items())
    for path in module.write(options.out, results, command):
        print(f"wrote {path}")
    return 0


def _add_bounds(commands: Any) -> None:
    bounds = commands.add_parser(
        "bounds",
        help="the paper's bounds for your own numbers: features, accuracies, labels",
        description="Prints what the theorems say for so many inputs, features and tasks: how accurately a feature "
        "must be learned, how many are learned at most, and the labels of every row of the paper's Table 1. Numbers of "
        "labels are known up to a constant only.",
        epilog="example: everspan bounds --d 200 --k 8 --m 1000 --epsilon 0.05",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    bounds.add_argument("--d", type=_count, default=100, help="columns of the inputs")
    bounds.add_argument("--k", type=_count, default=5, help="features that all tasks share")
    bounds.add_argument("--m", type=_count, default=100, help="tasks")
    bounds.add_argument("--epsilon", type=_amount, default=0.1, help="the error every task must meet")
    bounds.add_argument("--features", choices=("linear", "nonlinear"), default="linear", help="kind of the features")
    bounds.add_argument("--c1", type=_amount, default=0.3183098861837907, help="of Assumption 1, the lower constant")
    bounds.add_argument("--c2", type=_amount, default=0.3183098861837907, help="the upper one; both 1/pi for Gaussians")
    bounds.add_argument("--constant", type=_amount, default=1.0, help="in front of every number of labels")
    bounds.add_argument("--logarithms", action="store_true", help="with those of the theorems, where they state them")
    bounds.add_argument("--json", action="store_true", help="print JSON")
    bounds.set_defaults(run=_bounds)


def _bounds(options: argparse.Namespace) -> int:
    from .experiments import bounds

    names = ("d", "k", "m", "epsilon", "features", "constant", "logarithms")
    found = bounds.of(c1=options.c1, c2=options.c2, **{name: getattr(options, name) for name in names})
    print(json.dumps(found, indent=1) if options.json else "\n".join(bounds.lines(found)))
    return 0


def _add_lower_bound(commands: Any) -> None:
    lower = commands.add_parser(
        "lower-bound",
        help="the paper's lower bound, run: a learner whose errors all hide in one coordinate",
        description="Puts a learner that misses every feature by as much as it may, along one hidden coordinate, into "
        "the unmodified loop, and counts the later tasks that fail, by the accuracy of the features. Writes "
        "results.json, figure.svg and figure.png. Takes about half a minute.",
        epilog="example: everspan lower-bound --k 8 64 --epsilon 0.05 --out hidden",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    lower.add_argument("--k", type=_count, nargs="+", default=[8, 16, 32], help="features that all tasks share")
    lower.add_argument("--epsilon", type=_amount, default=0.1, help="the error every task must meet")
    lower.add_argument("--tasks", type=_count, default=40, help="tasks after the first k")
    lower.add_argument("--n", type=_count, default=1000, help="labelled rows of a task")
    lower.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    lower.add_argument("--out", type=Path, default=Path("everspan-lower-bound"), help="folder to write into")
    lower.set_defaults(run=_lower_bound)


def _lower_bound(options: argparse.Namespace) -> int:
    from .experiments import lower_bound

    settings = lower_bound.Settings(tuple(options.k), options.epsilon, options.tasks, options.n, seed=options.seed)
    options.out.mkdir(parents=True, exist_ok=True)  # before any work is lost

    def progress(done: int, streams: int) -> None:
        print(f"stream {done} of {streams} done", file=sys.stderr, flush=True)

    results = lower_bound.run(settings, progress)
    print("\n".join(lower_bound.lines(results)))
    for path in lower_bound.write(options.out, results):
        print(f"wrote {path}")
    return 0


def _add_sample_complexity(commands: Any) -> None:
    counted = commands.add_parser(
        "sample-complexity",
        help="labels on demand, counted: how they grow with d, k, 1/epsilon and m, beside the theorems",
        description="From a middle (--d, --k, --m, --epsilon) one size at a time is halved, kept, doubled and taken "
        "four times. Counts the labels that the unmodified loop asks for, of tasks that teach a feature and of tasks "
        "that reuse features; on regression tasks, those of its rivals too. Prints the exponents with their intervals "
        "beside the theorems', and writes results.json, figure.svg and figure.png. Takes some minutes.",
        epilog="example: everspan sample-complexity --axes d m --trials 10 --jobs 2 --out labels",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    counted.add_argument("--d", type=_count, default=60, help="columns, in the middle")
    counted.add_argument("--k", type=_count, default=4, help="features that all tasks share, in the middle")
    counted.add_argument("--m", type=_count, default=40, help="tasks, in the middle")
    counted.add_argument("--epsilon", type=_amount, default=0.1, help="the error every task must meet, in the middle")
    counted.add_argument("--axes", nargs="+", default=["d", "k", "epsilon", "m"], help="sizes to vary")
    counted.add_argument("--trials", type=_count, default=5, help="streams of every size")
    counted.add_argument("--seed", type=int, default=0, help="seed of the random numbers")
    counted.add_argument("--jobs", type=_count, default=1, help="processes")
    counted.add_argument("--out", type=Path, default=Path("everspan-sample-complexity"), help="folder to write into")
    counted.set_defaults(run=_sample_complexity)


def _sample_complexity(options: argparse.Namespace) -> int:
    from .experiments import sample_complexity

    names = ("d", "k", "m", "epsilon", "trials", "seed")
    given = {name: getattr(options, name) for name in names}
    settings = sample_complexity.Settings(axes=tuple(options.axes), **given)
    options.out.mkdir(parents=True, exist_ok=True)  # before any work is lost

    started = time.perf_counter()

    def progress(done: int, streams: int) -> None:
        if done == streams or 20 * done // streams > 20 * (done - 1) // streams:
            left = (time.perf_counter() - started) / done * (streams - done)  # the longest are counted first
            print(f"{done} of {streams} streams counted, at most {left:.0f} s left", file=sys.stderr, flush=True)

    results = sample_complexity.run(settings, options.jobs, progress)
    print("\n".join(sample_complexity.lines(results)))
    for path in sample_complexity.write(options.out, results):
        print(f"wrote {path}")
    return 0


def _incremental(arguments: Sequence[str]) -> int:
    from .deep import start

    return start(arguments)


def _compare(options: argparse.Namespace) -> int:
    from .experiments import compare

    groups = compare.read_runs(options.runs)
    rows = [["method", *compare.FIGURES.values()], *compare.table(groups)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]))
    for note in compare.differences(groups):
        print(note)
    command = " ".join(["everspan compare", *map(str, options.runs), "--out", str(options.out)])
    for path in compare.write(options.out, groups, command):
        print(f"wrote {path}")
    return 0


def _predict(options: argparse.Namespace) -> int:
    import numpy as np

    from .deep import IncrementalModel, check_installed
    from .scenarios import read_picture

    check_installed()
    if options.keep or options.unseen != "empty":
        raise ValueError("--keep and --unseen go with a table, not with pictures")
    if options.out is not None and options.out.suffix != ".csv":
        raise ValueError(f"{options.out}: predictions for pictures are written as .csv")
    model = IncrementalModel.load(options.run_folder, allow_code=options.allow_code)
    lines, failed = [["picture", "class", "probability"]], 0
    for path in options.pictures:
        try:
            probabilities = model.predict_proba(read_picture(path, channels=model.shape[2])[None])[0]
        except ValueError as error:  # the others are predicted all the same
            failed, named = failed + 1, "" if str(error).startswith(str(path)) else f"{path}: "
            print(escaped(f"everspan predict: {named}{error}"), file=sys.stderr)
            continue
        best = int(np.argmax(probabilities))
        lines.append([str(path), str(model.names[best]), f"{probabilities[best]:.4f}"])
        if options.out is None:
            print("\t".join(map(escaped, lines[-1])), file=data_output())
    if options.out is not None:
        with options.out.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(lines)
    return 2 if failed else 0


def _demo(options: argparse.Namespace) -> int:
    from .experiments import demo

    if options.k > min(options.n, options.d) - 2:
        raise ValueError(f"--k must be at most min(n, d) - 2, but k={options.k}, n={options.n}, d={options.d}")
    results = demo.run(d=options.d, n=options.n, k=options.k, noise=options.noise, seed=options.seed)
    print(f"{options.n} features in {options.d} dimensions, all but one near a subspace of {options.k}.")
    print("Largest distance of a feature to a subspace, by its dimension:\n")
    print("dimension        SVD  refinement  no subspace is below")
    methods = results["methods"]
    rows = zip(
        results["dimensions"],
        methods["SVD"]["max_distance"],
        methods["refinement"]["max_distance"],
        results["lower_bound"],
        strict=True,
    )
    for dimension, plain, refined, bound in rows:
        print(f"{dimension:9d}  {plain:9.4f}  {refined:10.4f}  {bound:20.4f}")
    print(f"\nproved for k={options.k} to a gap of {results['gap']:.1e} in {results['iterations']} iterations")
    for path in demo.write(options.out, results):
        print(f"wrote {path}")
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return value


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be zero or more and finite, not {text}")
    return value
