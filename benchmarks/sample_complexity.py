"""How labels grow with d, k, 1 / epsilon and m, and with the rivals of Table 1: ``everspan sample-complexity``, larger.

Every task of every stream meets epsilon: the unmodified loop proves it, and the true errors are checked here. Run it
(about 20 minutes on 2 cores) with ``python benchmarks/sample_complexity.py``.
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import os
import sys
import time

import numpy as np
import scipy
from scipy.optimize import brentq
from scipy.stats import chi2

from everspan.experiments import sample_complexity
from everspan.theory import epsilon_acc


def without_margin(results, settings):
    """Growth labels against d with the margin of proof taken out: the errors expected on a feature's held-out rows.

    A quarter of the rows is held out, and proves epsilon_acc where the upper bound on the errors, of those counted and
    of the risk of a typical look (the third task's second), is epsilon_acc times their number. The bound is Poisson's.
    """
    table, accuracy = results["parts"]["classification"]["d"], epsilon_acc(settings.epsilon, settings.k)
    counted, risk = table["methods"][sample_complexity.LLL_RR], 0.05 / (3 * 4) / (2 * 3)
    labels = np.mean(np.divide(counted["growth"], counted["features"]), axis=1)
    allowed = labels / 4 * accuracy
    expected = [brentq(lambda x, most=most: chi2.isf(risk, 2 * (x + 1)) / 2 - most, 0, most) for most in allowed]
    slope = np.polyfit(np.log(table["values"]), np.log(expected), 1)[0]
    print(
        f"errors allowed at d={table['values']}: {np.round(allowed)}; expected: {np.round(expected)}, as d^{slope:.2f}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--d", type=int, default=100)
    parser.add_argument("--margin", action="store_true", help="only take the margin out of the results there are")
    arguments = parser.parse_args()
    settings = sample_complexity.Settings(d=arguments.d, trials=arguments.trials)
    if arguments.margin:
        without_margin(common.read("sample_complexity"), settings)
        return
    started = time.perf_counter()

    def progress(done, streams):
        if done % 20 == 0 or done == streams:
            print(f"{done} of {streams} streams, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    results = sample_complexity.run(settings, jobs=os.cpu_count(), progress=progress)
    print("\n".join(sample_complexity.lines(results)))
    without_margin(results, settings)
    failed = []
    for part, axes in results["parts"].items():
        for axis, table in axes.items():
            for method, counted in table["methods"].items():
                for value, errors in zip(table["values"], counted.get("worst_error", []), strict=False):
                    at = {"parameters": settings.small_epsilon}.get(part, settings.epsilon)
                    epsilon = 1.0 / value if axis == "epsilon" else at
                    failed += [(part, axis, method, value, error) for error in errors if error > epsilon]
    print(f"streams with a task above epsilon: {len(failed)} {failed[:5]}")
    measured = {"measured": common.measured(np, scipy), "streams_above_epsilon": len(failed)}
    common.write("sample_complexity", {**measured, **results})
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
