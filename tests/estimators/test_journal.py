"""A file that follows its model: what is in it after every task, after kill -9, and with two who write."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.atomic import part_beside
from everspan.estimators._saving import Journal
from everspan.scenarios import LinearStream
from everspan.store import StaleError, StoreError

from ..hot_journals import copy_of_a_killed

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
    with pytest.raises(StoreError, match="another process has changed it meanwhile"):
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
    with pytest.raises(StoreError, match="another process has changed it meanwhile"):
        late.learned([2])
    check_same(LifelongRegressor.load(path), model)


def test_a_hot_journal_heals_when_the_file_is_opened(tmp_path):
    """A kill in the middle of a transaction: reading, saving over it and learning into it all find what was there."""
    path, stream = tmp_path / "a.everspan", list(tasks(30))
    model = _after(stream, 20)
    model.save(path)
    for name, use in {
        "read": lambda killed: None,
        "saved over": lambda killed: _after(stream, 20).save(killed),
        "learned into": lambda killed: Journal(killed, LifelongRegressor.load(killed)).rewrite(),
    }.items():
        killed = tmp_path / f"{name}.everspan"
        copy_of_a_killed(path, killed)
        use(killed)
        check_same(LifelongRegressor.load(killed), model)
        assert not killed.with_name(killed.name + "-journal").exists()


def test_a_journal_of_a_file_that_is_gone_is_not_applied_to_the_next(tmp_path):
    path, stream = tmp_path / "a.everspan", list(tasks(30))
    _after(stream, 20).save(path)
    killed, other = tmp_path / "killed.everspan", _after(stream[20:], 6)
    copy_of_a_killed(path, killed)
    killed.unlink()
    other.save(killed)
    check_same(LifelongRegressor.load(killed), other)


def test_who_follows_a_file_is_told_that_another_model_replaced_it(tmp_path):
    path, stream = tmp_path / "a.everspan", list(tasks(30))
    model, other = _after(stream, 20), _after(stream[20:], 6)
    journal = Journal(path, model)
    other.save(path)
    model.learn_task(*stream[20][1:], task=stream[20][0])
    with pytest.raises(StaleError, match="another process"):
        journal.learned([stream[20][0]])
    check_same(LifelongRegressor.load(path), other)


def test_a_copy_of_a_file_that_went_its_own_way_is_another_file(tmp_path):
    """The numbers of changes are equal, the states are not: who knows one does not write over the other."""
    path, twin, stream = tmp_path / "a.everspan", tmp_path / "b.everspan", list(tasks(30))
    _after(stream, 5).save(path)
    shutil.copy(path, twin)
    models = [LifelongRegressor.load(file) for file in (path, twin)]
    for model, file, (name, X, y) in zip(models, (path, twin), stream[5:7], strict=True):
        model.learn_task(X, y, task=name)
        model.save(file)
    twin.replace(path)
    models[0].learn_task(*stream[8][1:], task="late")
    with pytest.raises(StaleError, match="another process has changed it"):
        models[0].save(path)
    check_same(LifelongRegressor.load(path), models[1])


def test_of_two_models_of_one_file_the_second_to_save_is_refused(tmp_path):
    path, stream = tmp_path / "a.everspan", list(tasks(8))
    first = _after(stream, 5)
    first.save(path)
    second = LifelongRegressor.load(path)
    second.learn_task(*stream[5][1:], task="second")
    second.save(path)
    second.save(path)  # its own changes are no surprise to it
    first.learn_task(*stream[6][1:], task="first")
    with pytest.raises(StaleError, match="another process has changed it"):
        first.save(path)
    assert LifelongRegressor.load(path).tasks_[-1] == "second"
    first.save(tmp_path / "other.everspan")


def test_a_model_that_was_saved_into_a_copy_is_not_locked_out_of_its_own_file(tmp_path):
    path, twin, stream = tmp_path / "a.everspan", tmp_path / "b.everspan", list(tasks(6))
    _after(stream, 4).save(path)
    model = LifelongRegressor.load(path)
    shutil.copy(path, twin)
    model.save(twin)
    model.learn_task(*stream[4][1:], task="later")
    model.save(path)  # nobody else has changed it
    model.save(twin)
    check_same(LifelongRegressor.load(path), model)
    other = LifelongRegressor.load(path)
    other.learn_task(*stream[5][1:], task="other")
    other.save(path)
    with pytest.raises(StaleError):
        model.save(path)


def test_two_models_that_save_to_one_path_do_not_overwrite_each_other_by_turns(tmp_path):
    """The first replaces what was there, as `save` says; from then on each of them knows whose file it was."""
    path, stream = tmp_path / "a.everspan", list(tasks(12))
    one, other = _after(stream, 4), _after(stream[5:], 4)
    one.save(path)
    other.save(path)
    with pytest.raises(StaleError, match="another process has changed it"):
        one.save(path)
    check_same(LifelongRegressor.load(path), other)
    loaded = LifelongRegressor.load(path)
    _after(stream, 2).save(path)
    with pytest.raises(StaleError):
        loaded.save(path)
    loaded.save(tmp_path / "elsewhere.everspan")


def test_files_of_format_1_are_told_apart(tmp_path):
    """They have no identity, and their counts of changes are equal."""
    kept = Path(__file__).parents[1] / "one_file" / "formats" / "format-1.everspan"
    one, other = tmp_path / "a.everspan", tmp_path / "b.everspan"
    for path in (one, other):
        shutil.copy(kept, path)
    model, late = LifelongClassifier.load(one), LifelongClassifier.load(one)
    model.save(other)  # another file is replaced, as any other would be
    again = LifelongClassifier.load(one)
    again.forget("s3")
    again.save(one)
    with pytest.raises(StaleError):
        late.save(one)  # the file was brought to format 2 and changed meanwhile


@pytest.mark.parametrize("gone", ["file", "folder", "replaced"])
def test_a_file_that_is_removed_or_replaced_while_it_is_written_is_an_error(tmp_path, gone):
    (tmp_path / "shop").mkdir()
    path, stream = tmp_path / "shop" / "a.everspan", list(tasks(8))
    model = _after(stream, 3)
    journal = Journal(path, model)
    model.learn_task(*stream[3][1:], task="there")
    journal.learned(["there"])
    if gone == "folder":
        shutil.rmtree(path.parent)
    else:
        path.unlink()
    if gone == "replaced":
        _after(stream, 2).save(path)
    model.learn_task(*stream[4][1:], task="lost")
    with pytest.raises(StaleError, match="was removed"):
        journal.learned(["lost"])
    journal.close()
    assert not path.exists() or len(LifelongRegressor.load(path).history_) == 2


def test_leftovers_of_stopped_processes_are_removed_and_those_in_use_are_not(tmp_path):
    path, stream = tmp_path / "a.everspan", list(tasks(4))
    left = [tmp_path / ".a.everspan.123456.part", tmp_path / ".a.everspan.123456.part-journal"]
    for file in left:
        file.write_bytes(b"half a file")
    with part_beside(path) as used, part_beside(tmp_path / "b.everspan") as other:
        model = _after(stream, 2)
        model.save(path)
        assert used.exists()
        assert other.exists()
    assert sorted(tmp_path.iterdir()) == [path]
    for use in (lambda: model.save(path), lambda: LifelongRegressor.load(path)):
        left[0].write_bytes(b"half a file")
        use()
        assert sorted(tmp_path.iterdir()) == [path]


def test_the_log_says_what_a_service_needs_to_know(tmp_path, caplog):
    path, stream = tmp_path / "a.everspan", list(tasks(30))
    caplog.set_level("INFO", "everspan.store")
    model = _after(stream, 20)
    model.save(path)
    copy_of_a_killed(path, tmp_path / "b.everspan")
    second = LifelongRegressor.load(tmp_path / "b.everspan")
    second.save(tmp_path / "b.everspan")
    _after(stream, 3).save(tmp_path / "b.everspan")
    second.learn_task(*stream[20][1:], task="late")
    with pytest.raises(StaleError):
        Journal(tmp_path / "b.everspan", second).learned(["late"])
    said = [record.getMessage().split(": ")[1] for record in caplog.records]
    assert [what.split()[0] for what in said] == ["made", "healed,", "committed", "another", "committed", "refused"]


WORKER = """
import os, sys
sys.path.insert(0, sys.argv[2])
from tests.estimators import test_journal
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
        command = [sys.executable, "-c", WORKER, str(path), str(Path(__file__).parents[2]), str(steps)]
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
