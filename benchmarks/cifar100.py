"""CIFAR-100 in 10 tasks of 10 classes with 2,000 exemplars in total: the paper's second experiment (Section 5.2).

A run has a name, METHOD-RECIPE-ORDER, with what is changed behind it: ``hlll-best-1993``, ``wa-strong-1994``,
``hlll-best-1993-distillation=0``. A method's hyphen becomes an underscore: ``hlll_rr-best-1993-encoders=1``. The order
is the seed of the class order; weights always start from seed 0. Every run leaves its results in
``results/cifar100/NAME.json``, written by the program.

    python benchmarks/cifar100.py hlll-best-1993 hlll-fast-1993 --data-dir PARENT_OF_CIFAR --work RUNS
    python benchmarks/cifar100.py                      # the table of what was measured
    everspan compare benchmarks/results/cifar100/*.json --out report

A run that was stopped goes on with the same command. It needs torch, numpy and safetensors alone
(``PYTHONPATH=src`` from a checkout), and a GPU. One run leaves much of a large card idle: with CUDA's multi-process
service (``nvidia-cuda-mps-control -d``, once) ``--at-once 2`` or ``3`` fills it, and says so in the results, whose
seconds are then those of a shared card.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

FOLDER = common.RESULTS / "cifar100"
PYCIL = (2300, 2900)  # images/s of PyCIL's DER with ResNet-18 on the same card, tasks 2 to 4


def settings_of(name):
    """What a name stands for."""
    head, *changes = re.split(r"-(?=\w+=)", name)  # an exponent has a hyphen, too
    method, recipe, order = head.split("-")
    given = {"method": method.replace("_", "-"), "data": "cifar100", "recipe": recipe, "class_order": int(order)}
    return given, dict(change.split("=", 1) for change in changes)


def run_one(name, arguments, held_out=0.0):
    """Learn a run, or what is missing of it, and write its results."""
    from everspan.deep import resolve, run
    from everspan.deep.methods import load_method
    from everspan.deep.settings import RunSettings, parse_setting

    given, changes = settings_of(name)
    own = load_method(given["method"]).Settings
    for key, text in changes.items():
        kind = RunSettings if key in RunSettings.__dataclass_fields__ else own
        given[key] = parse_setting(kind, key, text)
    if held_out:
        given["held_out"] = held_out
    started = time.perf_counter()
    results = run(*resolve(given), arguments.work / name, data_folder=arguments.data_dir, every=120.0)
    print(
        f"{name}: average {results['average_incremental_accuracy']:.2f}, last {results['last_accuracy']:.2f}, "
        f"{results['timing']['seconds']:.0f} s ({time.perf_counter() - started:.0f} s now), curve "
        f"{' '.join(f'{value:.1f}' for value in results['curve'])}",
        flush=True,
    )
    results["timing"]["runs_at_once"] = arguments.at_once
    arguments.results.mkdir(parents=True, exist_ok=True)
    result_file(arguments.results, name, held_out).write_text(json.dumps(results, indent=1) + "\n")
    return results


def result_file(folder, name, held_out=0.0):
    """Where the results of a run go, under a name that every file system and copier takes."""
    plain = re.sub(r"[^\w.-]", "_", name)
    return folder / f"{plain}{'-held-out' if held_out else ''}.json"


def run_together(names, arguments):
    """Some at a time, every one in a process of its own; one that fails does not stop the others."""
    own = {"--data-dir": arguments.data_dir, "--work": arguments.work, "--results": arguments.results}
    given = [text for name, value in own.items() if value is not None for text in (name, str(value))]
    given += ["--held-out", str(arguments.held_out), "--at-once", str(arguments.at_once)]
    command = [sys.executable, __file__, *given]
    with ThreadPoolExecutor(arguments.at_once) as pool:
        codes = list(pool.map(lambda name: subprocess.run([*command, name]).returncode, names))
    failed = [name for name, code in zip(names, codes, strict=True) if code]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def measured(folder):
    """What is there: {METHOD-RECIPE[-CHANGES]: {order: results}}."""
    groups = {}
    for file in sorted(folder.glob("*-*.json")):
        method, recipe, order, *changes = file.stem.split("-")
        results = json.loads(file.read_text())
        if results["tasks_done"] == results["tasks"]:
            groups.setdefault("-".join([method, recipe, *changes]), {})[order] = results
    return groups


def table(groups):
    """Mean and spread over class orders."""
    wide = max(map(len, groups), default=0)
    print(f"{'run':{wide}s}  {'average':>16s}  {'last':>16s}  forgetting  seconds  images/s in tasks 2 to 4   orders")
    for label, by_order in groups.items():
        runs = by_order.items()
        average, last, forgetting = (
            np.array([results[key] for _, results in runs])
            for key in ("average_incremental_accuracy", "last_accuracy", "forgetting")
        )
        seconds = [results["timing"]["seconds"] for _, results in runs]
        speed = np.array([[s["images_per_second"] for s in r["timing"]["per_step"][1:4]] for _, r in runs]).mean(axis=0)
        spread = f"({average.min():.2f} to {average.max():.2f})" if len(runs) > 1 else ""
        print(
            f"{label:{wide}s}  {average.mean():6.2f} {spread:16s}  {last.mean():6.2f}  {forgetting.mean():6.2f}  "
            f"{max(seconds):6.0f}  {' '.join(f'{v:,.0f}' for v in speed)} ({speed.mean() / np.mean(PYCIL):.0f} x PyCIL)"
            f"  {' '.join(order for order, _ in runs)}"
            + (", on a shared card" if any(r["timing"].get("runs_at_once", 1) > 1 for _, r in runs) else "")
        )


def ablation(groups):
    """What a change makes of a recipe on the same class order, and what several views of a test image do, in points."""
    wide = max(map(len, groups), default=0) + len(", one view")
    print(f"\n{'change':{wide}s}  {'order':>6s}  {'average':>8s}  {'last':>8s}")

    def line(label, order, curve, plain):
        points = np.mean(curve) - np.mean(plain), curve[-1] - plain[-1]
        print(f"{label:{wide}s}  {order:>6s}  {points[0]:+8.2f}  {points[1]:+8.2f}")

    for label, by_order in groups.items():
        method, recipe, *changes = label.split("-")
        for order, results in by_order.items():
            plain = groups.get(f"{method}-{recipe}", {}).get(order)
            if changes and plain:
                line(label, order, results["curve"], plain["curve"])
            if "one_view" in results:
                line(f"{label}, one view", order, results["one_view"]["curve"], results["curve"])


def add_options(parser):
    """Options of this script and of those that stand on it."""
    parser.add_argument("--data-dir", type=Path, help="the folder that holds cifar-100-python")
    parser.add_argument("--work", type=Path, default=Path("cifar100-runs"), help="where runs are kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where their results go")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="runs that share the card at any time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RUN", help="METHOD-RECIPE-ORDER[-SETTING=VALUE ...]")
    add_options(parser)
    parser.add_argument("--held-out", type=float, default=0.0, help="judge on this share of the training images")
    arguments = parser.parse_args()
    if arguments.at_once > 1 and len(arguments.names) > 1:
        run_together(arguments.names, arguments)
    else:
        for name in arguments.names:
            run_one(name, arguments, arguments.held_out)
    groups = measured(arguments.results)
    table(groups)
    ablation(groups)


if __name__ == "__main__":
    main()
