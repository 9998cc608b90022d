"""kill -9 while a table is learned into a file: a dozen times in the tests, fifty in ``benchmarks/one_file.py``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from everspan.one_file import open_model, preparation_of, tasks_of

D = 12
LEARN = """
import sys
from everspan.one_file import _learning, learn
_learning._COMMIT_AFTER = 0.0
learn(*sys.argv[1:])
"""
WORKER = """
import os, sys
from everspan.estimators import _base
from everspan.one_file import _learning, learn
from everspan.store import Writer
from everspan.tables import _files
_learning._COMMIT_AFTER, _files._ROWS = 0.0, 500
def mark(what):
    os.write(1, what)
def before(owner, name, what):
    inner = getattr(owner, name)
    def marked(*given, **named):
        mark(what)
        return inner(*given, **named)
    setattr(owner, name, marked)
before(Writer, "transaction", b"(")
before(_base.LifelongEstimator, "_take_up", b"g")
before(_learning.Work, "_events", b"t")
done = _learning.Work._learn_some
def learned(self, waiting):
    rest = done(self, waiting)
    mark(b")")
    return rest
_learning.Work._learn_some = learned
learn(sys.argv[1], sys.argv[2], progress=lambda what, done, total: mark(b"r") if what == "reading" else None)
mark(b".")
"""
MOMENTS = {b"r": "reading", b"t": "trying", b"g": "growing", b"(": "committing", b")": "after committing"}


def write_table(path, tasks, rows=30, seed=0):
    """Scattered rows of tasks that need more and more features: the model grows to the end of the table."""
    rng = np.random.default_rng(seed)
    names = np.repeat(np.arange(tasks), rows)
    X = rng.standard_normal((len(names), D))
    shared = np.linalg.qr(rng.standard_normal((D, D)))[0]
    reach = 2 + (np.arange(tasks) * (D - 4)) // tasks  # features that tasks so far may use
    weights = np.array([rng.standard_normal(k) @ shared[:, :k].T for k in reach])
    score = np.einsum("ij,ij->i", X, weights[names]) + 0.2 * rng.standard_normal(len(names))
    order = np.lexsort([rng.random(len(names)), names // 50])  # scattered, but tasks go on coming
    columns = {"task": [f"t{name}" for name in names[order]]} | {f"x{i}": X[order, i] for i in range(D)}
    pq.write_table(pa.table(columns | {"y": score[order]}), path, row_group_size=2000)


class Reference:
    """What an uninterrupted run knows after any number of tasks."""

    def __init__(self, table, model):
        self._tasks = list(tasks_of(table, preparation_of(model)))
        self._model, self._known = type(model)(**model.get_params(deep=False)), 0
        self.probe = np.random.default_rng(1).standard_normal((20, len(self._tasks[0][1][0])))
        self.total = len(self._tasks)

    def after(self, count):
        self._model.learn_tasks(self._tasks[self._known : count])
        self._known = count
        return self._model

    def check(self, model):
        """Every task that is in the file predicts as in a run that was never stopped."""
        expected = self.after(len(model.history_))
        assert model.history_ == expected.history_
        for task in expected.tasks_:
            np.testing.assert_array_equal(model.predict(self.probe, task=task), expected.predict(self.probe, task=task))


def survive(folder, tasks, kills, seed=0):
    """Learn a table, killed at so many moments; returns how many kills fell where."""
    table, path, rng = folder / "a.parquet", folder / "a.everspan", np.random.default_rng(seed)
    write_table(table, tasks)
    found, reference, ended = dict.fromkeys(MOMENTS.values(), 0), None, False
    for kill in range(kills):
        aim = list(MOMENTS)[kill % 4]
        with subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), str(table)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as worker:
            said, wanted = b"", int(rng.integers(1, 4))  # the first, second or third moment of its kind
            while not said.endswith(b".") and said.count(aim) < wanted:
                more = worker.stdout.read(1)
                if not more:
                    raise AssertionError(worker.stderr.read().decode())
                said += more
            time.sleep(float(rng.choice([0.0, 1e-4, 1e-3, 5e-3])))
            worker.send_signal(signal.SIGKILL)
            said += worker.stdout.read()
        if said.endswith(b"."):
            ended = True
            break
        found[MOMENTS[said[-1:]]] += 1
        if path.exists():
            model = open_model(path)
            reference = reference or Reference(table, model)
            reference.check(model)
    assert found["committing"], "no kill fell inside a transaction"
    subprocess.run([sys.executable, "-c", WORKER, str(path), str(table)], check=True, capture_output=True)
    model = open_model(path)
    assert len(model.history_) == tasks
    reference.check(model)
    return found | {"ended early": ended, "features": len(model.representation_.features)}
