"""Nonlinear features: accuracy against labels a task, and time a task, of streams that share five ReLU units.

60 tasks in 20 columns, epsilon = 0.05, the same streams for all: LLL and LLL-RR with ``representation="relu"``, a
two-layer network a task, and one shared layer fitted to all rows of all tasks together. Run it (about 15 minutes on 2
cores) with ``python benchmarks/nonlinear.py``; ``--draw`` only draws the figure again.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import scipy

from everspan import LifelongClassifier
from everspan.experiments import simulate_relu
from everspan.experiments._jobs import each
from everspan.reports import COLORS, house_style, new_figure, save_figure
from everspan.scenarios import ReLUStream

LABELS, SEEDS = (500, 1000, 2000, 4000), range(3)
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def one(piece):
    n, seed = piece
    return simulate_relu.trial(simulate_relu.Settings(n=n, seed=seed), 0)


def timed(n):
    """Mean seconds of a task that grew and of one that was reused, one process alone."""
    stream = ReLUStream(20, 5, 60, n, seed=100)
    model = LifelongClassifier(0.05, representation="relu", n_features=5)
    spent = {"grew": [], "reused": []}
    for i, (_, X, y) in enumerate(stream):
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            event = model.learn_task(X, y, task=i)
        spent[event.action].append(time.perf_counter() - started)
    return {action: [float(np.mean(seconds or [0.0])), len(seconds)] for action, seconds in spent.items()}


def draw(results):
    with house_style():
        figure, (left, right) = new_figure(2)
        for name, (color, line) in simulate_relu.STYLES.items():
            errors = [[100.0 * (1.0 - v) for v in results["accuracy"][str(n)][name]] for n in LABELS]
            left.errorbar(
                LABELS,
                np.mean(errors, axis=1),
                np.std(errors, axis=1, ddof=1),
                color=COLORS[color],
                ls=line,
                marker="o",
                ms=4,
                label=name,
            )
        left.set(title="Wrong labels at the end (%), mean of 60 tasks", xlabel="labels a task", xscale="log")
        left.set(yscale="log", xticks=LABELS, xticklabels=[f"{n:,}" for n in LABELS], yticks=(1, 2, 5, 10, 20))
        left.set_yticklabels(["1", "2", "5", "10", "20"])
        left.minorticks_off()
        left.legend(fontsize=9)
        for what, color in (("functions", "blue"), ("dimension", "yellow")):
            right.plot(
                LABELS, [np.mean(results[what][str(n)]) for n in LABELS], "o-", color=COLORS[color], ms=4, label=what
            )
        right.axhline(5, color=COLORS["grey"], ls="--", lw=1)
        right.set(title="LLL-RR: functions learned, and refined", xlabel="labels a task", xscale="log", ylim=(0, None))
        right.set(xticks=LABELS, xticklabels=[f"{n:,}" for n in LABELS])
        right.minorticks_off()
        right.legend(fontsize=9)
    save_figure(figure, IMAGES, "nonlinear", ("png",))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", action="store_true", help="draw the results there are")
    if parser.parse_args().draw:
        draw(common.read("nonlinear"))
        return
    pieces = [(n, seed) for n in reversed(LABELS) for seed in SEEDS]
    started = time.perf_counter()
    said = lambda done, of: print(f"{done} of {of}, {time.perf_counter() - started:.0f} s", file=sys.stderr)  # noqa: E731
    found = dict(zip(pieces, each(one, pieces, os.cpu_count(), said), strict=True))
    results = {"measured": common.measured(np, scipy), "labels": list(LABELS), "accuracy": {}, "least": {}}
    results |= {what: {} for what in ("functions", "dimension", "units", "grew_late", "seconds")}
    for n in LABELS:
        runs = [found[n, seed] for seed in SEEDS]
        results["accuracy"][n] = {m: [run[m]["average_accuracy"][-1] for run in runs] for m in simulate_relu.STYLES}
        results["least"][n] = {m: [run[m]["minimum_accuracy"][-1] for run in runs] for m in simulate_relu.STYLES}
        for what in ("functions", "dimension", "units"):
            results[what][n] = [run["LLL-RR"][what][-1] for run in runs]
        results["grew_late"][n] = [sum(run["LLL-RR"]["grew"][15:]) for run in runs]
        results["seconds"][n] = timed(n)
        means = "  ".join(f"{name} {np.mean(values):.4f}" for name, values in results["accuracy"][n].items())
        print(f"{n:5d} labels: {means}; functions {results['functions'][n]}, units {results['units'][n]}", flush=True)
    common.write("nonlinear", results)
    draw(common.read("nonlinear"))


if __name__ == "__main__":
    main()
