"""CIFAR-100 in 10 tasks of 10 classes with 2,000 exemplars in total: the paper's second experiment (Section 5.2).

A run has a name, METHOD-RECIPE-ORDER, with what is changed behind it: ``hlll-best-1993``, ``wa-strong-1994``,
``hlll-best-1993-distillation=0``. The order is the seed of the class order; weights always start from seed 0. Every run
leaves its results in ``results/cifar100/NAME.json``, written by the program.

    python benchmarks/cifar100.py hlll-best-1993 hlll-fast-1993 --data-dir PARENT_OF_CIFAR --work RUNS
    python benchmarks/cifar100.py                      # the table of what was measured
    everspan compare benchmarks/results/cifar100/*.json --out report

A run that was stopped goes on with the same command. It needs torch, numpy and safetensors alone
(``PYTHONPATH=src`` from a checkout), and a GPU.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import json
import time
from pathlib import Path

import numpy as np

FOLDER = common.RESULTS / "cifar100"
PYCIL = (2300, 2900)  # images/s of PyCIL's DER with ResNet-18 on the same card, tasks 2 to 4


def settings_of(name):
    """What a name stands for."""
    method, recipe, order, *changes = name.split("-")
    given = {"method": method, "data": "cifar100", "recipe": recipe, "class_order": int(order)}
    return given, dict(change.split("=", 1) for change in changes)


def run_one(name, arguments):
    from everspan.deep import resolve, run
    from everspan.deep.methods import load_method
    from everspan.deep.settings import RunSettings, parse_setting

    given, changes = settings_of(name)
    own = load_method(given["method"]).Settings
    for key, text in changes.items():
        kind = RunSettings if key in RunSettings.__dataclass_fields__ else own
        given[key] = parse_setting(kind, key, text)
    if arguments.held_out:
        given["held_out"] = arguments.held_out
    started = time.perf_counter()
    results = run(*resolve(given), arguments.work / name, data_folder=arguments.data_dir, every=120.0)
    print(
        f"{name}: average {results['average_incremental_accuracy']:.2f}, last {results['last_accuracy']:.2f}, "
        f"{results['timing']['seconds']:.0f} s ({time.perf_counter() - started:.0f} s now), curve "
        f"{' '.join(f'{value:.1f}' for value in results['curve'])}",
        flush=True,
    )
    arguments.results.mkdir(parents=True, exist_ok=True)
    suffix = "-held-out" if arguments.held_out else ""
    plain = name.replace("=", "_")  # what every file system and copier takes
    (arguments.results / f"{plain}{suffix}.json").write_text(json.dumps(results, indent=1) + "\n")


def table(folder):
    """Mean and spread over class orders of what was measured."""
    groups = {}
    for file in sorted(folder.glob("*-*.json")):
        method, recipe, order, *changes = file.stem.split("-")
        results = json.loads(file.read_text())
        if results["tasks_done"] == results["tasks"]:
            groups.setdefault("-".join([method, recipe, *changes]), []).append((order, results))
    print(f"{'run':44s}  {'average':>16s}  {'last':>16s}  forgetting  seconds  images/s in tasks 2 to 4   orders")
    for label, runs in groups.items():
        average, last, forgetting = (
            np.array([results[key] for _, results in runs])
            for key in ("average_incremental_accuracy", "last_accuracy", "forgetting")
        )
        seconds = [results["timing"]["seconds"] for _, results in runs]
        speed = np.array([[s["images_per_second"] for s in r["timing"]["per_step"][1:4]] for _, r in runs]).mean(axis=0)
        spread = f"({average.min():.2f} to {average.max():.2f})" if len(runs) > 1 else ""
        print(
            f"{label:44s}  {average.mean():6.2f} {spread:16s}  {last.mean():6.2f}  {forgetting.mean():6.2f}  "
            f"{max(seconds):6.0f}  {' '.join(f'{v:,.0f}' for v in speed)} ({speed.mean() / np.mean(PYCIL):.0f} x PyCIL)"
            f"  {' '.join(order for order, _ in runs)}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="RUN", help="METHOD-RECIPE-ORDER[-SETTING=VALUE ...]")
    parser.add_argument("--data-dir", type=Path, help="the folder that holds cifar-100-python")
    parser.add_argument("--work", type=Path, default=Path("cifar100-runs"), help="where runs are kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where their results go")
    parser.add_argument("--held-out", type=float, default=0.0, help="judge on this share of the training images")
    arguments = parser.parse_args()
    for name in arguments.names:
        run_one(name, arguments)
    table(arguments.results)


if __name__ == "__main__":
    main()
