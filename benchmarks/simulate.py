"""The whole figure of ``everspan simulate`` against a straightforward implementation of it, in one run.

Measured on 2 cores (Intel Xeon, 2.80 GHz), 2026-11-15; raw numbers in results/simulate.json:

* all 10 trials as the command runs them, on 2 processes: 11 s against 453 s, 41 times faster (target 20);
* one process against one process: 18.8 times faster (15.7 to 23.9 from trial to trial), for the same figure: the final
  means of both differ by at most 0.010 in average and 0.015 in least accuracy.

The straightforward implementation is what one writes from the paper in an afternoon: scikit-learn's LogisticRegression
for every fit, 10-fold cross-validation where ours leaves rows out, cvxpy and SCS on the full program (d x d, every
feature a constraint) at every refinement, scipy's L-BFGS for joint training with the same steps and marks, and after
every task the predictions of all tasks seen on 1,000 new rows each. Both do the five methods of the figure on the same
streams. everspan runs as its command does, a process a core; the straightforward implementation is one loop. One
process of each, trial by trial in turn, is measured beside it. Run it (about 9 minutes on 2 cores) with
``python benchmarks/simulate.py``.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import os
import time

import cvxpy
import numpy as np
import scs
import sklearn
from refinement import solved
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from everspan.experiments.simulate import Settings, largest_angle, marks, run, trial
from everspan.scenarios import LinearStream

TARGET = 20.0  # times faster
TEST_ROWS = 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10)
    settings = Settings(trials=parser.parse_args().trials)
    jobs = os.cpu_count() or 1
    trial(settings, 99)  # what is loaded on first use is not counted
    before, _ = timed(lambda: run(settings, jobs))
    rounds = []
    for index in range(settings.trials):
        alone, ours = timed(lambda index=index: trial(settings, index))
        slow, (theirs, parts) = timed(lambda index=index: straightforward(settings, index))
        final = {name: [last(ours[name]), last(theirs[name])] for name in ours}
        rounds.append({"everspan": alone, "straightforward": slow, "straightforward_parts": parts, "final": final})
        ratio = slow / alone
        print(f"trial {index}, one process: {alone:.2f} s against {slow:.1f} s, {ratio:.1f} times", flush=True)
    after, _ = timed(lambda: run(settings, jobs))
    figure = (before + after) / 2.0  # before and after, so that what else the machine does falls on both
    alone, slow = (sum(r[who] for r in rounds) for who in ("everspan", "straightforward"))
    print(f"\n{'final values':20s}{'everspan':>24s}{'straightforward':>24s}   (average, least, features)")
    for name in rounds[0]["final"]:
        values = np.mean([r["final"][name] for r in rounds], axis=0)
        print(f"{name:20s}" + "".join(f"{a:10.3f}{b:7.3f}{c:7.1f}" for a, b, c in values))
    print(f"\none process: {slow / alone:.1f} times faster")
    whole = slow / figure
    print(f"as it runs, {jobs} processes: {figure:.0f} s against {slow:.0f} s, {whole:.1f} times (target {TARGET:.0f})")
    results = {
        "measured": common.measured(np, sklearn, cvxpy, scs),
        "target": TARGET,
        "figure": {"everspan_seconds": [before, after], "straightforward_seconds": slow, "ratio": slow / figure},
        "one_process": {"everspan_seconds": alone, "straightforward_seconds": slow, "ratio": slow / alone},
        "trials": rounds,
    }
    common.write("simulate", results)
    raise SystemExit(0 if slow / figure >= TARGET else 1)


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def last(curves):
    return [curves[panel][-1] for panel in ("average_accuracy", "minimum_accuracy", "dimension")]


def straightforward(settings, index):
    stream = LinearStream(settings.d, settings.k, settings.m, settings.n, seed=settings.seed * 100_003 + index)
    tests = test_rows(stream, index)
    runs = {
        "LLL": lambda: lifelong(stream, tests, settings),
        "LLL-RR": lambda: lifelong(stream, tests, settings, dimension=2 * settings.k - 1),
        "LLL-RR certified": lambda: lifelong(stream, tests, settings, settings.k, certified=True),
        "Independent": lambda: independent(stream, tests),
        "Joint": lambda: joint(stream, tests),
    }
    curves, seconds = {}, {}
    for name, method in runs.items():
        start = time.perf_counter()
        curves[name] = method()
        seconds[name] = time.perf_counter() - start
    return curves, seconds


def test_rows(stream, index):
    rng = np.random.default_rng(index)
    X = rng.standard_normal((len(stream), TEST_ROWS, stream.targets.shape[1]))
    return X, np.sign(np.einsum("mnd,md->mn", X, stream.targets))


def fit(X, y):
    return LogisticRegression(fit_intercept=False).fit(X, y)


def lifelong(stream, tests, settings, dimension=None, certified=False):
    """Algorithm 1, refined where a dimension is given; certified: checked on rows left out, old tasks re-projected."""
    curves, d = new_curves(), settings.d
    basis, features, models = np.zeros((d, 0)), [], []
    for _, X, y in stream:
        Z = X @ basis
        if basis.shape[1]:
            model = fit(Z, y)
            if certified:
                error = 1.0 - cross_val_score(LogisticRegression(fit_intercept=False), Z, y, cv=10).mean()
            else:
                error = 1.0 - model.score(Z, y)
        if not basis.shape[1] or error > settings.epsilon:
            feature = fit(X, y).coef_[0]
            features.append(feature / np.linalg.norm(feature))
            if dimension is None:
                basis = np.linalg.qr(np.array(features).T)[0]
            else:
                basis = refined(np.array(features), settings.k, dimension)
            model = fit(X @ basis, y)
        models.append(model.coef_[0] @ basis.T)
        kept = [basis @ (basis.T @ w) for w in models] if certified else models
        measure(curves, stream, tests, kept, basis)
    return curves


def refined(features, k, dimension):
    """The refinement program as it stands, d x d, and its main directions."""
    if len(features) <= k:
        return np.linalg.qr(features.T)[0]
    _, vectors = np.linalg.eigh(solved(features, k, "SCS")[0])  # X is small where features are
    return vectors[:, : min(dimension, len(features))]


def independent(stream, tests):
    curves, models = new_curves(), []
    for _, X, y in stream:
        models.append(fit(X, y).coef_[0])
        measure(curves, stream, tests, models, np.linalg.qr(np.array(models).T)[0])
    return curves


def joint(stream, tests, penalty=0.1, steps=60):
    """Shared rank-k logistic regression of all tasks seen, at the figure's marks."""
    curves, k, d = new_curves(), stream.subspace.shape[1], stream.targets.shape[1]
    X, y = np.array([task.X for task in stream]), np.array([task.y for task in stream])
    rng, fitted = np.random.default_rng(0), None
    for i in range(len(stream)):
        m = i + 1
        if m in marks(len(stream)):

            def loss(flat, m=m):
                B, C = flat[: d * k].reshape(d, k), flat[d * k :].reshape(m, k)
                Z = np.einsum("mnd,dk->mnk", X[:m], B)
                margins = np.einsum("mnk,mk->mn", Z, C) * y[:m]
                pull = -y[:m] / (1.0 + np.exp(margins))
                to_C = np.einsum("mn,mnk->mk", pull, Z) + penalty * C
                to_B = np.einsum("mn,mnd,mk->dk", pull, X[:m], C, optimize=True) + penalty * B
                value = np.logaddexp(0.0, -margins).sum() + 0.5 * penalty * np.sum(flat * flat)
                return value, np.concatenate([to_B.ravel(), to_C.ravel()])

            options = {"maxiter": steps, "maxcor": 20}
            first = 0.3 * rng.standard_normal(d * k + m * k)
            with np.errstate(over="ignore"):
                found = minimize(loss, first, jac=True, method="L-BFGS-B", options=options).x
            B, C = found[: d * k].reshape(d, k), found[d * k :].reshape(m, k)
            fitted = np.linalg.qr(B)[0], C @ B.T
            measure(curves, stream, tests, fitted[1], fitted[0])
        else:
            for panel in curves.values():
                panel.append(panel[-1])
    return curves


def new_curves():
    return {name: [] for name in ("average_accuracy", "minimum_accuracy", "dimension", "angle_degrees")}


def measure(curves, stream, tests, models, basis):
    accuracies = [np.mean(np.sign(X @ w) == y) for w, X, y in zip(models, *tests, strict=False)]
    curves["average_accuracy"].append(float(np.mean(accuracies)))
    curves["minimum_accuracy"].append(float(np.min(accuracies)))
    curves["dimension"].append(float(basis.shape[1]))
    curves["angle_degrees"].append(largest_angle(stream.subspace, basis))


if __name__ == "__main__":
    main()
