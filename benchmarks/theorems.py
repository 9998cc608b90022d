"""The theorems where they apply: labels on demand, acceptance by the bound, epsilon = 0.1.

Measured on 2 cores (Intel Xeon, 2.80 GHz), 2026-11-15; raw numbers in results/theorems.json, table in
docs/notes-on-the-paper.md: every task of all 240 streams within epsilon; never more than k + 2 features (k=3, 5, 8),
the theorem allowing 39, 63 and 99; dimension k in all streams with k given and in at least 18 of 20 without.

Streams of 25 tasks in d=100 that share k features, 20 seeds each, every one in an order of its own: the largest true
error of any task, features learned (beside Theorem 4's explicit bound), dimensions, and labels spent on growing and on
reusing. Run it (about 8 minutes on 2 cores) with ``python benchmarks/theorems.py``.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import sys

import numpy as np

from everspan import LifelongClassifier, LifelongRegressor
from everspan.scenarios import LinearStream
from everspan.theory import most_features

D, TASKS, EPSILON, SEEDS = 100, 25, 0.1, range(20)
KINDS = {"classification": LifelongClassifier, "regression": LifelongRegressor}


def run(kind, k, seed, n_features):
    stream = LinearStream(d=D, k=k, tasks=TASKS, kind=kind, seed=seed)
    model = KINDS[kind](EPSILON, accept="bound", fit_intercept=False, n_features=n_features)
    order = np.random.default_rng(seed).permutation(TASKS).tolist()
    for i in order:
        model.learn_task(stream.source(i), task=i)
    errors = []
    for i in order:
        if kind == "regression":
            errors.append(np.sum((model.predict(np.eye(D), task=i) - stream.targets[i]) ** 2))
        else:
            direction = model.decision_function(np.eye(D), task=i)
            errors.append(np.arccos(min(direction @ stream.targets[i] / np.linalg.norm(direction), 1.0)) / np.pi)
    labels = {"grew": [], "reused": []}
    for event in model.history_:
        labels[event.action].append(event.labels_used)
    return {
        "largest_error": float(max(errors)),
        "features": len(model.representation_.features),
        "dimension": model.representation_.dimension,
        "labels_growing": sum(labels["grew"]),
        "labels_reusing_each": float(np.mean(labels["reused"])) if labels["reused"] else 0.0,
    }


def main():
    results, failed = {"runs": []}, False
    print(
        "kind            k  k given  seeds in eps  largest error  features (most)  dimension  labels: growing, a reuse"
    )
    for kind in KINDS:
        for k in (3, 5, 8):
            for given in (True, False):
                rows = [run(kind, k, seed, k if given else None) for seed in SEEDS]
                within = sum(row["largest_error"] <= EPSILON for row in rows)
                column = {name: [row[name] for row in rows] for name in rows[0]}
                results["runs"].append({"kind": kind, "k": k, "given": given, "within": within} | column)
                print(
                    f"{kind:14} {k:2}  {given!s:7}  {within:9}/{len(rows)}  {max(column['largest_error']):13.4f}"
                    f"  {np.mean(column['features']):5.1f} {max(column['features']):3} ({most_features(k, EPSILON):3})"
                    f"  {np.mean(column['dimension']):9.2f}"
                    f"  {np.mean(column['labels_growing']):9,.0f} {np.mean(column['labels_reusing_each']):6,.0f}",
                    flush=True,
                )
                failed |= within < 19 or max(column["features"]) > 3 * k or column["dimension"].count(k) < 18
    results["measured"] = common.measured(np)
    common.write("theorems", results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
