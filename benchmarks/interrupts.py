"""Claim: an interrupt at any line or bytecode of everspan leaves a model in the state before or after, to the bit.

KeyboardInterrupt is raised at 500 random places in every public method of every kind of model: half of them before a
line, half before a bytecode. A digest covers all that a file of the model holds, its predictions and its parameters.
After every interrupt it is the digest of the state before or after the call; ``learn_tasks`` may also stop after some
tasks. Then the method runs again without an interrupt, and the digest is that of a model that was never interrupted.

Measured on 2 cores (AMD EPYC), one BLAS thread, 2026-11-19; results/interrupts.json: 14,500 interrupts, no other state.

    python benchmarks/interrupts.py             # all methods, 500 times each: about 5 minutes of CPU
    python benchmarks/interrupts.py --trials 20 # as in the tests
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import sys
import time
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.estimators.interrupting import METHODS, files_interrupted, interrupted


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=500)
    trials, started, table = parser.parse_args().trials, time.process_time(), {}
    runs = {f"{kind.__name__}.{name}": (kind, name) for kind, name in METHODS}
    for place, (title, method) in enumerate(runs.items()):
        table[title] = interrupted(*method, trials, seed=1)
        show(f"{place + 1} of {len(runs) + 1}: {title}", table[title])
    table["save, load"] = files_interrupted(trials, seed=1)
    show("save, load", table["save, load"])
    total = sum(sum(where.values()) for where in table.values())
    print(f"{total:,} interrupts, no state that nobody committed")
    seconds = round(time.process_time() - started)
    common.write(
        "interrupts",
        common.measured(numpy) | {"trials": trials, "interrupts": total, "cpu_seconds": seconds, "methods": table},
    )


def show(title, where):
    print(f"{title:64}", *(f"{name} {count:4}" for name, count in where.items()), flush=True)


if __name__ == "__main__":
    main()
