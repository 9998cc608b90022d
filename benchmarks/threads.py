"""Claim: predictions of 8 threads, while another thread learns 300 tasks, are all answers of one committed state.

Ten runs for each of four models: a classifier and a regressor, in memory (30 tasks) and read lazily from a file of
2,100 tasks. Every thread predicts at least 300 times, for one task or for several at once, while 300 tasks are learned:
250 new ones and 50 that have more rows. The same tasks are learned one by one beforehand, and every answer after every
task is recorded. An answer that is not among these, and any exception, counts as a failure.

Measured on 2 cores (AMD EPYC), one BLAS thread, a machine with other work on it, 2026-11-19; results/threads.json:
1,540,687 predictions in 40 runs, no exception, no other answer, and the model at the end is that of no readers.

    python benchmarks/threads.py            # about 15 minutes on 2 cores
    python benchmarks/threads.py --runs 1
"""

# isort: off
import common  # first: it sets one thread before numpy is loaded
# isort: on

import argparse
import sys
import tempfile
import time
from copy import deepcopy
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.estimators.crowd import KINDS, Crowd, answers_of_states, learn_all, stream
from tests.estimators.test_together import state

THREADS, PREDICTIONS, TASKS = 8, 300, 300


def tasks_to_learn(kind):
    new = [((name, "new"), X, y) for name, X, y in stream(kind, TASKS - 50, seed=1)]
    return [*new, *stream(kind, 50, seed=2)]


def measured(kind, known, runs, folder):
    """Failures and counts of all runs with a model that knows this many tasks; many: it is read from a file."""
    model, given = kind(), tasks_to_learn(kind)
    model.learn_tasks((name, X, y) for name, X, y in stream(kind, known))
    questions = [[name] for name in range(0, 60, 3)] + [[0, 7, 11], [*range(6)], [29, 2], [50, 51]]
    questions = [names for names in questions if max(names) < known]
    after, expected = answers_of_states(model, given, questions)
    last, lazy, path = state(after), known > 2000, Path(folder, f"{kind.__name__}.everspan")
    model.save(path)
    counts = dict.fromkeys(("predictions", "errors", "wrong", "different_ends"), 0)
    counts["answers"] = sum(map(len, expected))
    for run in range(runs):
        one, started = kind.load(path) if lazy else deepcopy(model), time.perf_counter()
        assert ("_on_disk" in vars(one)) == lazy
        crowd = Crowd(one, questions, expected, THREADS, least=PREDICTIONS, early=100 if lazy else 0)
        crowd.while_it(lambda one=one: learn_all(one, given))
        counts["predictions"] += crowd.asked
        counts["errors"] += len(crowd.errors)
        counts["wrong"] += len(crowd.wrong)
        counts["different_ends"] += state(one) != last
        print(f"  run {run + 1} of {runs}: {crowd.asked:,} predictions, {len(crowd.errors)} errors, ", end="")
        print(f"{len(crowd.wrong)} wrong, {time.perf_counter() - started:.0f} s", *crowd.errors[:2], flush=True)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs, table = parser.parse_args().runs, {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            for known in (30, 2100):
                title = f"{kind.__name__}, {'in memory' if known < 2000 else 'read lazily'}, {known:,} tasks known"
                print(title, flush=True)
                table[title] = measured(kind, known, runs, folder)
    print(*(f"{title}: {counts}" for title, counts in table.items()), sep="\n")
    setting = {"threads": THREADS, "predictions_a_thread": PREDICTIONS, "tasks": TASKS, "runs": runs}
    common.write("threads", common.measured(np) | setting | {"models": table})
    assert not any(counts[name] for counts in table.values() for name in ("errors", "wrong", "different_ends"))


if __name__ == "__main__":
    main()
