"""Reused tasks one at a time: against one LogisticRegression per task, and whether the cost stays flat.

Measured on 2 cores (Intel Xeon, 2.80 GHz), one thread, 2026-11-15; raw numbers in results/task_stream.json, figure in
docs/first-task-stream.md:

* 0.9 ms a task, 5.3 times faster than LogisticRegression (5.3 to 6.1 from run to run), and right on 98.1% of new rows
  where that is on 73.9%;
* tasks 95,001 to 100,000 cost 0.93 times what tasks 1 to 5,000 did; 169 bytes a task, and 80 for the table of names.

Tasks of 100 rows and 100 columns that share 5 features, learned one at a time by `LifelongClassifier.learn_task` in its
default settings with k given (every task tried, its strength chosen, its error estimated), against
``LogisticRegression().fit`` of the same rows in the same run. Run it (about 4 minutes on 2 cores) with
``python benchmarks/task_stream.py``.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

from everspan import LifelongClassifier
from everspan.reports import COLORS, house_style, new_figure, save_figure

D, K, ROWS = 100, 5, 100
TARGET = 5.0  # times faster
FLAT = 1.5  # the last tasks may cost this many times the first thousand
rng = np.random.default_rng(0)
SHARED = np.linalg.qr(rng.standard_normal((D, K)))[0]


def task(rows=ROWS):
    X = rng.standard_normal((rows, D))
    return X, np.sign(X @ (SHARED @ rng.standard_normal(K)))


def taught():
    """A model that knows the shared features: its first tasks had rows enough."""
    model = LifelongClassifier(n_features=K)
    while model.__dict__.get("representation_") is None or model.representation_.dimension < K:
        model.learn_task(*task(20_000), task=("first", len(getattr(model, "_places", ()))))
    return model


def against_logistic_regression(model, rounds=40, block=50):
    """In turn, fifty tasks each, so that what else the machine does falls on both."""
    ours, theirs, right = [], [], []
    for i in range(rounds):
        tasks = [task() for _ in range(block)]
        start = time.perf_counter()
        for j, (X, y) in enumerate(tasks):
            model.learn_task(X, y, task=(i, j))
        middle = time.perf_counter()
        rivals = [LogisticRegression().fit(X, y) for X, y in tasks]
        theirs.append((time.perf_counter() - middle) / block)
        ours.append((middle - start) / block)
        fresh = rng.standard_normal((2000, D))
        truth = np.sign(fresh @ truth_of(*tasks[0]))
        right.append(
            [np.mean(guess == truth) for guess in (model.predict(fresh, task=(i, 0)), rivals[0].predict(fresh))]
        )
    accuracy = np.mean(right, axis=0)
    return {
        "milliseconds": 1e3 * float(np.median(ours)),
        "logistic_regression_milliseconds": 1e3 * float(np.median(theirs)),
        "ratio_of_medians": float(np.median(theirs) / np.median(ours)),
        "reused": sum(event.action == "reused" for event in model.history_[-rounds * block :]),
        "of": rounds * block,
        "accuracy": {"everspan": float(accuracy[0]), "LogisticRegression": float(accuracy[1])},
    }


def truth_of(X, y):
    """The target of a task, found again from its rows within the shared features."""
    return SHARED @ LogisticRegression(C=1e6, max_iter=5000).fit(X @ SHARED, y).coef_[0]


def flat(model, tasks):
    """Seconds of every block of a thousand tasks, and bytes of a task."""
    before = len(model.history_)
    seconds, marks = [], []
    for block in range(tasks // 1000):
        times = []
        for i in range(1000):
            X, y = task()
            start = time.perf_counter()
            model.learn_task(X, y, task=block * 1000 + i)
            times.append(time.perf_counter() - start)
        seconds.append(float(np.median(times)))
        marks.append((block + 1) * 1000)
        if block % 10 == 9:
            print(f"{marks[-1]:,} tasks: {1e3 * seconds[-1]:.2f} ms each", flush=True)
    count = len(model.history_) - before
    reused = sum(event.action == "reused" for event in model.history_[before:])
    names = sys.getsizeof(model._places) + 28 * len(model._places)  # the table of names and its small numbers
    parts = {
        "predictor": model.predictors_.nbytes / len(model.history_),
        "history": model.history_.nbytes / len(model.history_),
        "name": names / len(model.history_),
    }
    return {
        "tasks": marks,
        "seconds": seconds,
        "ratio_last_to_first": float(np.median(seconds[-5:]) / np.median(seconds[:5])),
        "reused": reused,
        "of": count,
        "bytes_per_task": {name: round(size, 1) for name, size in parts.items()}
        | {"all": round(sum(parts.values()), 1)},
    }


def draw(results):
    stream = results["flat"]
    with house_style():
        figure, (panel,) = new_figure(1, width=7.0, height=3.2)
        panel.plot(np.array(stream["tasks"]) / 1000, 1e3 * np.array(stream["seconds"]), color=COLORS["blue"])
        rival = results["against"]["logistic_regression_milliseconds"]
        panel.axhline(rival, color=COLORS["orange"], ls="--")
        panel.annotate("one LogisticRegression per task", (1, rival), (0, 5), textcoords="offset points", fontsize=9)
        panel.set(
            title="The cost of one more task",
            xlabel="tasks learned, in thousands",
            ylabel="milliseconds",
            ylim=(0, 1.25 * rival),
        )
    save_figure(figure, Path(__file__).resolve().parents[1] / "docs" / "images", "task-stream", ("png",))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=100_000, help="length of the stream")
    tasks = parser.parse_args().tasks
    model = taught()
    results = {"against": against_logistic_regression(model), "flat": flat(taught(), tasks)}
    results["measured"] = common.measured(np, sklearn)
    common.write("task_stream", results)
    draw(results)
    ratio, growth = results["against"]["ratio_of_medians"], results["flat"]["ratio_last_to_first"]
    print(results["against"], results["flat"]["bytes_per_task"], sep="\n")
    print(f"{ratio:.1f} times faster than LogisticRegression (target {TARGET})")
    print(f"the last tasks cost {growth:.2f} times what the first did (at most {FLAT})")
    return int(ratio < TARGET or growth > FLAT)


if __name__ == "__main__":
    sys.exit(main())
