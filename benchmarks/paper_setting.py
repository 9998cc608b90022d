"""The paper's linear simulation with our defaults, Basic LLL and the paper's letter; and class after class.

Measured on 2 cores (Intel Xeon, 2.80 GHz), 2026-11-15, means of 20 seeds; raw numbers in
results/paper_setting.json, table in docs/notes-on-the-paper.md:

* our defaults with k given: average 0.918, minimum 0.881, 5.0 dimensions (targets .91, .87, 6);
  without k: 0.918, 0.879, 5.0;
* the paper's letter: 0.880, 0.787, 9; Basic LLL: 0.874, 0.791, 19.8;
* class after class: error 0.143, where a multinomial fit on all rows at once has 0.169
  (target: at most .02 above).

Task-incremental: d=100, 100 tasks of 200 rows, k=5, epsilon=0.1, Gaussian data; accuracies on 2,000 fresh rows a task
at the end of the stream. Class-incremental: 10 classes by the largest of 10 linear scores on 5 shared features, d=100,
200 rows a class on average, one class after another, against a multinomial fit on all rows at once (the better of C=1
and C=100 on the test rows). Seeds 41000 to 41019 were used for nothing else. Run it (about 8 minutes on 2 cores) with
``python benchmarks/paper_setting.py``.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import sys
import warnings

import numpy as np
import sklearn
from sklearn.linear_model import LogisticRegression

from everspan import ClassIncrementalClassifier, LifelongClassifier
from everspan.estimators import RepresentationWarning
from everspan.experiments.simulate import largest_angle
from everspan.scenarios import LinearStream

SEEDS = range(41000, 41020)
LETTER = {"check": "train", "old_tasks": "freeze", "learner": "logistic"}
VARIANTS = {
    "LLL-RR, our defaults, k given": {"n_features": 5},
    "LLL-RR, our defaults, k unknown": {},
    "LLL-RR, the paper's letter (2k-1, frozen, training error)": {"n_features": 5, "rounding": "paper"} | LETTER,
    "Basic LLL, training error": {"refiner": None} | LETTER,
    "Basic LLL, our check": {"refiner": None},
    "LLL-RR, the SDP even for inaccurate features": {"n_features": 5, "refiner": "sdp"},
}


def stream_of_tasks(seed, parameters):
    stream, model = LinearStream(seed=seed), LifelongClassifier(0.1, **parameters)
    for name, X, y in stream:
        model.learn_task(X, y, task=name)
    accuracies = []
    for i in range(len(stream)):
        name, X, y = stream.test(i, 2000)
        accuracies.append(model.score(X, y, task=name))
    representation = model.representation_
    return {
        "average": float(np.mean(accuracies)),
        "minimum": float(np.min(accuracies)),
        "dimension": representation.dimension,
        "angle_degrees": largest_angle(stream.subspace, representation.basis),
        "features": len(representation.features),
    }


def stream_of_classes(seed):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((10, 5)) @ rng.standard_normal((5, 100))
    X = rng.standard_normal((12_000, 100))
    y = (X @ scores.T).argmax(axis=1)
    X, y, fresh, truth = X[:2000], y[:2000], X[2000:], y[2000:]
    model = ClassIncrementalClassifier().fit(X, y)
    rivals = [LogisticRegression(C=C, max_iter=5000).fit(X, y) for C in (1.0, 100.0)]
    return {
        "error": 1.0 - model.score(fresh, truth),
        "estimated_error": model.error_,
        "multinomial_on_all": min(1.0 - rival.score(fresh, truth) for rival in rivals),
        "dimension": model.representation_.dimension,
        "features": len(model.representation_.features),
    }


def summary(rows):
    return {
        name: {"mean": float(np.mean(values)), "standard_error": float(np.std(values, ddof=1) / len(values) ** 0.5)}
        for name in rows[0]
        for values in [[row[name] for row in rows]]
    }


def main():
    results = {"tasks": {}}
    print("average  minimum  dimensions  angle  features")
    for name, parameters in VARIANTS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RepresentationWarning)  # features are less accurate than asked: known
            found = results["tasks"][name] = summary([stream_of_tasks(seed, parameters) for seed in SEEDS])
        row = [found[column]["mean"] for column in ("average", "minimum", "dimension", "angle_degrees", "features")]
        print("{:7.3f}  {:7.3f}  {:10.1f}  {:5.1f}  {:8.1f}".format(*row), name, flush=True)
    classes = results["classes"] = summary([stream_of_classes(seed) for seed in SEEDS])
    print({name: round(value["mean"], 4) for name, value in classes.items()})
    results["measured"] = common.measured(np, sklearn)
    common.write("paper_setting", results)
    ours = results["tasks"]["LLL-RR, our defaults, k given"]
    reached = ours["average"]["mean"] >= 0.91 and ours["minimum"]["mean"] >= 0.87 and ours["dimension"]["mean"] <= 6
    reached &= classes["error"]["mean"] <= classes["multinomial_on_all"]["mean"] + 0.02
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main())
