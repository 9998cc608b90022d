"""One model in many threads: readers see whole states, writers take turns, copies go their own ways."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import _filed, _on_disk
from everspan.learners import Logistic

from .crowd import KINDS, PROBE, Crowd, D, answer, answers_of_states, learn_all, stream
from .test_together import state

pytestmark = pytest.mark.filterwarnings("ignore:task .* seems to have changed")


@cache
def _learned(kind, tasks):
    model = kind(random_state=0)
    learn_all(model, stream(kind, tasks))
    return model


def learned(kind, tasks=12):
    return copy.deepcopy(_learned(kind, tasks))


@pytest.fixture
def on_disk(monkeypatch, tmp_path):
    """A function that saves a model and loads it as a large one, whose tasks stay on disk."""
    monkeypatch.setattr(_filed, "EAGER", 5)

    def loaded(model):
        model.save(tmp_path / "model.everspan")
        lazy = type(model).load(tmp_path / "model.everspan")
        assert "_on_disk" in vars(lazy)
        return lazy

    return loaded


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_while_tasks_are_learned_are_those_of_one_committed_state(kind, lazy, on_disk):
    model = learned(kind)
    new, known = [*stream(kind, 45, seed=1)], [*stream(kind, 15, seed=2)]
    given = [*(((name, "new"), X, y) for name, X, y in new), *((name % 12, X, y) for name, X, y in known)]
    questions = [[name] for name in range(8)] + [[0, 7, 11], [*range(3, 9)]]
    after, expected = answers_of_states(model, given, questions)
    assert sum(map(len, expected)) > 3 * len(questions), "the answers change as tasks are learned"
    model = on_disk(model) if lazy else model
    crowd = Crowd(model, questions, expected, least=24, early=8 if lazy else 0, paced=True)
    crowd.while_it(lambda: learn_all(model, crowd.in_turn(given)))
    assert (crowd.errors, crowd.wrong) == ([], [])
    assert crowd.asked >= 8 * 24
    assert state(model) == state(after), "readers change nothing"


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_while_tasks_are_learned_together_and_forgotten_are_those_of_one_state(kind):
    model, questions = learned(kind), [[3], [4, 5, 6]]
    given = [((name, "new"), X, y) for name, X, y in stream(kind, 20, seed=2)]
    after, expected = answers_of_states(model, given, questions)
    gone = [(place, "new") for place in (19, 3)]
    for name in gone:
        after.forget(name)
        for place, names in enumerate(questions):
            expected[place].add(answer(after, names))

    def learns():
        model.learn_tasks(crowd.in_turn(given))
        for name in crowd.in_turn(gone):
            model.forget(name)

    crowd = Crowd(model, questions, expected, paced=True)
    crowd.while_it(learns)
    assert (crowd.errors, crowd.wrong) == ([], [])
    assert state(model) == state(after)


def in_threads(*functions):
    """Run them at the same time; their errors."""
    errors, start = [], threading.Barrier(len(functions))

    def run(function):
        start.wait()
        try:
            function()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("together", [False, True])
def test_two_threads_that_learn_learn_in_some_order(kind, together):
    model, start = learned(kind), learned(kind)
    streams = [[((name, seed), X, y) for name, X, y in stream(kind, 10, seed)] for seed in (3, 4)]

    def learns(given):
        model.learn_tasks(given) if together else learn_all(model, given)

    assert in_threads(*(lambda given=given: learns(given) for given in streams)) == []
    rows = {name: (name, X, y) for given in streams for name, X, y in given}
    order = model.tasks_[12:]
    assert sorted(order) == sorted(rows)
    for given in streams:
        assert [name for name in order if name[1] == given[0][0][1]] == [name for name, _, _ in given]
    learn_all(start, [rows[name] for name in order])
    assert state(model) == state(start)


class Held(Logistic):
    """A learner that waits until it is let go."""

    begun, go = threading.Event(), threading.Event()

    def fit(self, rows):
        self.begun.set()
        assert self.go.wait(60)
        return super().fit(rows)


def test_a_prediction_neither_waits_for_a_task_that_is_being_learned_nor_sees_it():
    Held.go.set()
    model = LifelongClassifier(learner=Held())
    learn_all(model, stream(LifelongClassifier, 5))
    before, history = answer(model, [2]), list(model.history_)
    Held.begun.clear()
    Held.go.clear()
    _, X, y = next(stream(LifelongClassifier, 1, seed=5))
    thread = threading.Thread(target=model.learn_task, args=(X, y), kwargs={"task": "new"})
    thread.start()
    try:
        assert Held.begun.wait(60)
        assert (answer(model, [2]), list(model.history_), "new" in model.tasks_) == (before, history, False)
        assert answer(copy.deepcopy(model), [2]) == before
    finally:
        Held.go.set()
        thread.join()
    assert model.tasks_[-1] == "new"


def test_a_history_that_was_read_stays_as_it_was():
    model = learned(LifelongRegressor)
    history, events, table = model.history_, list(model.history_), model.history_.table()
    learn_all(model, stream(LifelongRegressor, 14, seed=5))
    model.forget(0)
    assert (list(history), history.table(), list(history.places)) == (events, table, [*range(12)])
    assert len(model.history_) == 13


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda model: pickle.loads(pickle.dumps(model))}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_and_its_original_go_their_own_ways(kind, name):
    model = learned(kind)
    other = COPIES[name](model)
    assert model._lock is not other._lock
    assert state(model) == state(other)
    streams = [[((name + 7) % 16, X, y) for name, X, y in stream(kind, 9, seed)] for seed in (6, 7)]
    expected = [learned(kind) for _ in range(2)]
    for one, given in zip(expected, streams, strict=True):
        learn_all(one, given)
    assert in_threads(lambda: learn_all(model, streams[0]), lambda: learn_all(other, streams[1])) == []
    assert [state(model), state(other)] == [state(one) for one in expected]


def test_a_lock_is_no_parameter_and_a_clone_has_its_own():
    model = learned(LifelongClassifier, 2)
    twin = clone(model)
    assert "_lock" not in model.get_params()
    assert twin._lock is not model._lock
    assert not hasattr(twin, "history_")


def test_parameters_are_set_all_or_none():
    model = LifelongClassifier()
    with pytest.raises(ValueError, match="nonsense"):
        model.set_params(epsilon=0.3, nonsense=1)
    assert model.epsilon == 0.1
    assert model.set_params(epsilon=0.3) is model
    assert model.epsilon == 0.3


def test_a_source_that_changes_the_model_it_teaches_is_refused():
    model = learned(LifelongClassifier, 8)
    _, X, y = next(stream(LifelongClassifier, 1, seed=8))

    class Meddler:
        def draw(self, n):
            model.learn_task(X, y, task="meanwhile")
            return X, y

    expected = copy.deepcopy(model)
    expected.learn_task(X, y, task="meanwhile")
    with pytest.raises(RuntimeError, match="changed by what it learned from"):
        model.learn_task(Meddler(), task="new")
    assert state(model) == state(expected)
    for one in (model, expected):
        learn_all(one, stream(LifelongClassifier, 12, seed=9))
    assert state(model) == state(expected)


def test_threads_that_load_at_the_same_moment_load_once(on_disk, monkeypatch):
    whole = learned(LifelongClassifier, 48)
    lazy, reads = on_disk(whole), []
    monkeypatch.setattr(_on_disk, "read", lambda *args, own=_on_disk.read: (reads.append(args), own(*args))[1])
    looks = (lambda: lazy.tasks_, lambda: lazy.history_, lambda: lazy.predictors_, lambda: answer(lazy, range(6)))
    assert in_threads(*looks, *looks) == []
    assert len(reads) == 1
    assert state(lazy) == state(whole)


def test_reads_of_few_tasks_of_a_large_file_never_read_it_whole(on_disk, monkeypatch):
    whole = learned(LifelongClassifier, 48)
    lazy, read = on_disk(whole), []

    def read_tasks(connection, keys, own=_on_disk.read_tasks):
        found = own(connection, keys)
        read.extend(row[0] for row in found.tasks)
        return found

    monkeypatch.setattr(_on_disk, "read_tasks", read_tasks)
    monkeypatch.setattr(_on_disk, "read", lambda *_: pytest.fail("the whole file was read"))
    monkeypatch.setattr(_on_disk, "_PARTS", 16)
    expected = [whole.decision_function(PROBE, task=task) for task in range(48)]
    for place in range(240):
        task = place % 12  # as many as are kept
        assert np.array_equal(lazy.decision_function(PROBE, task=task), expected[task])
    assert len(read) == 12, "each task is read once"
    for place in range(96):
        assert np.array_equal(lazy.decision_function(PROBE, task=place % 48), expected[place % 48])
    assert len(read) <= 12 + 96
    assert len(vars(lazy)["_on_disk"]._parts) == 16


def test_the_parts_of_a_large_file_in_memory_have_a_bounded_number_of_tasks(on_disk, monkeypatch):
    lazy = on_disk(learned(LifelongRegressor, 48))
    monkeypatch.setattr(_on_disk, "_HELD", 30)
    for first in range(38):
        lazy.predict(np.zeros((10, D)), tasks=range(first, first + 10))
    assert [len(part["history_"]) for part in vars(lazy)["_on_disk"]._parts.values()] == [10, 10, 10]


def test_a_parameter_set_on_a_large_model_reaches_the_tasks_that_were_read(on_disk):
    whole = learned(LifelongClassifier, 48)
    lazy = on_disk(whole)
    assert np.array_equal(lazy.predict(PROBE, task=3), whole.predict(PROBE, task=3))
    for model in (whole, lazy):
        model.set_params(old_tasks="freeze")
    assert "_on_disk" in vars(lazy)
    assert lazy.decision_function(PROBE, task=3).tobytes() == whole.decision_function(PROBE, task=3).tobytes()


def test_a_model_is_copied_while_others_predict():
    """Their caches come into the state while it is copied."""
    model = KINDS[0]()
    learn_all(model, stream(KINDS[0], 6))
    stop, errors = threading.Event(), []

    def ask():
        while not stop.is_set():
            vars(model).pop("_cache", None)
            vars(model).pop("_resolved", None)
            model.predict(PROBE, task=model.tasks_[0])

    threads = [threading.Thread(target=ask) for _ in range(3)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(300):
            try:
                copy.copy(model)
            except RuntimeError as error:
                errors.append(error)
    finally:
        stop.set()
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert not errors
