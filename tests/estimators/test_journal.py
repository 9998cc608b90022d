"""A file that follows its model: what is in it after every task, after kill -9, and with two who write."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.estimators._saving import Journal
from everspan.scenarios import LinearStream
from everspan.store import StoreError

D = 6
pytestmark = pytest.mark.filterwarnings("ignore:task .* seems to have changed")


def tasks(count, seed=0):
    """Some that features serve, some of few noisy rows, some that come again."""
    rng = np.random.default_rng(seed)
    shared = np.linalg.qr(rng.standard_normal((D, 2)))[0]
    for i in range(count):
        rows = 40 if i % 3 else 8
        X = rng.standard_normal((rows, D)) + (i % 5 == 0)
        y = X @ shared @ rng.standard_normal(2) + 1.0 + (0.01 if i % 3 else 1.0) * rng.standard_normal(rows)
        yield (i if i % 11 else max(i - 5, 0)), X, y


def check_same(one, other):
    assert one.history_ == other.history_
    X = np.random.default_rng(5).standard_normal((20, D))
    for name in one.tasks_:
        np.testing.assert_array_equal(one.predict(X, task=name), other.predict(X, task=name))


def test_the_file_is_the_model_after_every_task(tmp_path):
    path, model = tmp_path / "a.everspan", LifelongRegressor()
    stream = list(tasks(40))
    model.learn_task(*stream[0][1:], task=stream[0][0])
    journal = Journal(path, model)
    for name, X, y in stream[1:]:
        model.learn_task(X, y, task=name)
        journal.learned([name])
        check_same(LifelongRegressor.load(path), model)
    model.forget(7)
    journal.rewrite()
    check_same(LifelongRegressor.load(path), model)
    journal.close()
    assert [file.name for file in tmp_path.iterdir()] == ["a.everspan"]
    check_same(LifelongRegressor.load(path), model)


@pytest.mark.parametrize("moment", range(6))
def test_an_interrupted_writer_leaves_one_file(tmp_path, monkeypatch, moment):
    """Ctrl-C while a file is opened for writing: whoever reads it next makes nothing beside it."""
    path, model = tmp_path / "a.everspan", LifelongRegressor()
    stream = list(tasks(2))
    model.learn_task(*stream[0][1:], task=0)
    journal = Journal(path, model)
    model.learn_task(*stream[1][1:], task=1)
    real = sqlite3.connect

    class Interrupted(sqlite3.Connection):
        left = moment

        def execute(self, *arguments):
            self.left -= 1
            if self.left == -1:
                raise KeyboardInterrupt
            return super().execute(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda path, **options: real(path, **options, factory=Interrupted))
        with pytest.raises(KeyboardInterrupt):
            journal.learned([1])
        journal.close()
    assert len(LifelongRegressor.load(path).history_) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["a.everspan"]


def test_labels_and_classes_follow_too(tmp_path):
    model = LifelongClassifier(n_features=2)
    stream = list(LinearStream(d=D, k=2, tasks=6, rows=200, seed=0))
    model.learn_task(*stream[0][1:], task="first")
    journal = Journal(tmp_path / "a.everspan", model)
    for name, X, y in stream[1:]:
        model.learn_task(X, np.where(y > 0, f"yes {name}", "no"), task=name)
        journal.learned([name])
    check_same(LifelongClassifier.load(tmp_path / "a.everspan"), model)
    rng = np.random.default_rng(0)
    classes = ClassIncrementalClassifier(memory=50)
    for label in range(4):
        event = classes.learn_task(4.0 * np.eye(D)[label] + rng.standard_normal((30, D)), np.full(30, label))
        journal = journal if label else Journal(tmp_path / "b.everspan", classes)
        journal.learned([event.task])
    X = rng.standard_normal((50, D))
    loaded = ClassIncrementalClassifier.load(tmp_path / "b.everspan")
    np.testing.assert_array_equal(loaded.predict_proba(X), classes.predict_proba(X))


def test_who_writes_second_is_told_and_nothing_is_lost(tmp_path):
    path, stream = tmp_path / "a.everspan", [(i, X, y) for i, (_, X, y) in enumerate(tasks(12))]
    first = LifelongRegressor()
    first.learn_task(*stream[0][1:], task=0)
    one = Journal(path, first)
    second = LifelongRegressor.load(path)
    other = Journal(path, second)
    first.learn_task(*stream[1][1:], task=1)
    one.learned([1])
    second.learn_task(*stream[2][1:], task=2)
    with pytest.raises(StoreError, match="another process has learned into it meanwhile"):
        other.learned([2])
    check_same(LifelongRegressor.load(path), first)
    second = LifelongRegressor.load(path)
    other = Journal(path, second)
    second.learn_task(*stream[2][1:], task=2)
    other.learned([2])
    check_same(LifelongRegressor.load(path), second)
    assert LifelongRegressor.load(path).tasks_ == [0, 1, 2]


def test_a_journal_of_a_model_that_is_old_writes_nothing(tmp_path):
    path, stream = tmp_path / "a.everspan", list(tasks(4))
    model = LifelongRegressor()
    model.learn_task(*stream[0][1:], task=0)
    journal = Journal(path, model)
    old = LifelongRegressor.load(path)
    model.learn_task(*stream[1][1:], task=1)
    journal.learned([1])
    late = Journal(path, old)  # the other has written meanwhile
    old.learn_task(*stream[2][1:], task=2)
    with pytest.raises(StoreError, match="another process has learned into it meanwhile"):
        late.learned([2])
    check_same(LifelongRegressor.load(path), model)


def test_saving_over_a_file_that_is_followed_or_was_killed(tmp_path):
    """What lies in SQLite's journal beside the file is neither lost nor applied to what replaces it."""
    path, stream = tmp_path / "a.everspan", list(tasks(30))
    model = _after(stream, 5)
    journal = Journal(path, model)
    for name, X, y in stream[5:20]:
        model.learn_task(X, y, task=name)
        journal.learned([name])
    beside = path.with_name(path.name + "-wal")
    assert beside.stat().st_size
    killed = tmp_path / "b.everspan"
    killed.write_bytes(path.read_bytes())
    killed.with_name(killed.name + "-wal").write_bytes(beside.read_bytes())
    check_same(LifelongRegressor.load(killed), model)
    other = _after(stream[20:], 6)
    other.save(killed)
    check_same(LifelongRegressor.load(killed), other)
    gone = tmp_path / "c.everspan"
    gone.with_name(gone.name + "-wal").write_bytes(beside.read_bytes())
    other.save(gone)
    check_same(LifelongRegressor.load(gone), other)
    other.save(path)  # while it is followed: who follows is told
    model.learn_task(*stream[20][1:], task=stream[20][0])
    with pytest.raises(StoreError, match="another process"):
        journal.learned([stream[20][0]])
    check_same(LifelongRegressor.load(path), other)


WORKER = """
import os, sys
sys.path.insert(0, sys.argv[2])
import test_journal
from everspan import LifelongRegressor
from everspan.estimators._saving import Journal
path = sys.argv[1]
stream = list(test_journal.tasks(120))
if os.path.exists(path):
    model = LifelongRegressor.load(path)
    steps = int(sys.argv[3])
else:
    model, steps = LifelongRegressor(), 1
    model.learn_task(*stream[0][1:], task=stream[0][0])
journal = Journal(path, model)
inner = journal._writer.transaction
def marked():
    os.write(1, b"(")
    return inner()
journal._writer.transaction = marked
for name, X, y in stream[steps:]:
    model.learn_task(X, y, task=name)
    journal.learned([name])
    os.write(1, b")")
journal.close()
os.write(1, b".")
"""


def test_kill_9_at_any_moment_loses_nothing_that_was_finished(tmp_path):
    path, stream, rng = tmp_path / "a.everspan", list(tasks(120)), np.random.default_rng(0)
    steps, inside, kills = 1, 0, 0
    while kills < 12:
        command = [sys.executable, "-c", WORKER, str(path), str(Path(__file__).parent), str(steps)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
            assert worker.stdout is not None
            said = b""
            for _ in range(int(rng.integers(1, 10))):  # then inside a transaction, or while the next task is learned
                said += worker.stdout.read(1)
            while kills % 2 == 0 and not said.endswith(b"("):
                more = worker.stdout.read(1)
                said += more or b"("
            worker.send_signal(signal.SIGKILL)
            said += worker.stdout.read()
        kills += 1
        inside += said.endswith(b"(")
        model, done = LifelongRegressor.load(path), steps + said.count(b")")
        states = {count: _after(stream, count) for count in (done, done + 1)}  # the last one may have got through
        steps = next(count for count, state in states.items() if state.history_ == model.history_)
        check_same(model, states[steps])
        if steps >= 110:
            break
    assert inside, "no kill fell inside a transaction"
    model = LifelongRegressor.load(path)
    for name, X, y in stream[steps:]:
        model.learn_task(X, y, task=name)
    check_same(model, _after(stream, len(stream)))


def _after(stream, count):
    model = LifelongRegressor()
    for name, X, y in stream[:count]:
        model.learn_task(X, y, task=name)
    return model
