"""Rows that come a few at a time, against the same rows at once.

30 tasks share 3 directions of d columns; each has 300 to 400 noisy rows. The rows of all tasks come in turn, 10, 50 or
100 at a time, under their task's name. Measured: R2 or accuracy on new rows, after all parts and after one call with
all rows of every task, the mean of three seeds. On 2 cores (raw numbers in results/in_parts.json, table in
docs/first-task-stream.md) parts of 50 rows cost no more than half a point up to 80 columns.

    python benchmarks/in_parts.py                      # some two minutes
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import warnings

import numpy as np
import sklearn

from everspan import LifelongClassifier, LifelongRegressor

TASKS, K, SEEDS = 30, 3, 3
COLUMNS, PARTS = (20, 40, 80, 150), ((10, 30), (50, 8), (100, 4))


def scores(kind, d, rows, parts, seed):
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((TASKS, K)) @ rng.standard_normal((K, d))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)

    def drawn(own, n):
        X = rng.standard_normal((n, d))
        y = X @ own + 0.3 * rng.standard_normal(n)
        return X, y if kind is LifelongRegressor else (y > 0).astype(int)

    every = [drawn(own, rows * parts) for own in weights]
    in_parts, at_once = kind(), kind()
    for part in range(parts):
        for task, (X, y) in enumerate(every):
            own = slice(part * rows, (part + 1) * rows)
            in_parts.learn_task(X[own], y[own], task=task)
    for task, (X, y) in enumerate(every):
        at_once.learn_task(X, y, task=task)
    tests = [drawn(own, 2000) for own in weights]
    return [float(np.mean([m.score(*test, task=task) for task, test in enumerate(tests)])) for m in (in_parts, at_once)]


def main():
    warnings.simplefilter("ignore")
    rows = []
    for kind in (LifelongRegressor, LifelongClassifier):
        for d in COLUMNS:
            for n, parts in PARTS:
                found = np.mean([scores(kind, d, n, parts, seed) for seed in range(SEEDS)], axis=0).tolist()
                rows.append(
                    {"kind": kind.__name__, "columns": d, "rows": n, "parts": parts}
                    | dict(zip(("in_parts", "at_once"), found, strict=True))
                )
                print(
                    "{kind:18} {columns:4} columns {parts:3} parts of {rows:3} rows: {in_parts:.3f}, "
                    "at once {at_once:.3f}".format(**rows[-1]),
                    flush=True,
                )
    common.write("in_parts", {"measured": common.measured(np, sklearn), "tasks": TASKS, "seeds": SEEDS, "rows": rows})


if __name__ == "__main__":
    main()
