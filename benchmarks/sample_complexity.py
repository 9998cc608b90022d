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

from everspan.experiments import sample_complexity


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--d", type=int, default=100)
    arguments = parser.parse_args()
    settings = sample_complexity.Settings(d=arguments.d, trials=arguments.trials)
    started = time.perf_counter()

    def progress(done, streams):
        if done % 20 == 0 or done == streams:
            print(f"{done} of {streams} streams, {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)

    results = sample_complexity.run(settings, jobs=os.cpu_count(), progress=progress)
    print("\n".join(sample_complexity.lines(results)))
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
