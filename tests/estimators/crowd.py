"""Threads that predict while others learn: a few in the tests, 8 x 300 x 300 tasks in ``benchmarks/threads.py``."""

from __future__ import annotations

import threading
import warnings
from copy import deepcopy

import numpy as np

from everspan import LifelongClassifier, LifelongRegressor

D = 5
KINDS = (LifelongClassifier, LifelongRegressor)
PROBE = np.random.default_rng(99).standard_normal((6, D))


def stream(kind, tasks, seed=0):
    """(name, X, y) of tasks, easy, noisy and off the origin, whose names are numbers."""
    rng = np.random.default_rng(seed)
    shared = np.linalg.qr(rng.standard_normal((D, 2)))[0]
    for name in range(tasks):
        rows = 12 if name % 4 else 40
        X = rng.standard_normal((rows, D)) + 0.5 * (name % 3)
        y = X @ shared @ rng.standard_normal(2) + (0.05 if name % 2 else 0.7) * rng.standard_normal(rows)
        yield name, X, y if kind is LifelongRegressor else np.where(y > np.median(y), "high", "low")


def answer(model, names):
    """What a model says of the probe, as bytes: for one task, or for a task a row."""
    says = model.predict if isinstance(model, LifelongRegressor) else model.decision_function
    if len(names) == 1:
        return says(PROBE, task=names[0]).tobytes()
    return says(PROBE, tasks=[names[row % len(names)] for row in range(len(PROBE))]).tobytes()


def answers_of_states(model, given, questions):
    """A copy of the model that learned these tasks one by one, and the answers to every question of all its states."""
    model, found = deepcopy(model), [set() for _ in questions]
    for task in [None, *given]:
        learn_all(model, [] if task is None else [task])
        for place, names in enumerate(questions):
            found[place].add(answer(model, names))
    return model, found


def learn_all(model, given):
    """Learn tasks one by one, whatever is warned about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X, y in given:
            model.learn_task(X, y, task=name)


class Crowd:
    """Threads that ask a model questions while somebody learns; what they saw that is the answer of no state.

    Every thread asks ``early`` questions before the learning begins and at least so many in all. It goes on until all
    is learned; of tasks that are ``paced`` it asks half a question a task.
    """

    def __init__(self, model, questions, expected, threads=8, least=5, early=0, paced=False):
        self.model, self.questions, self.expected = model, questions, expected
        self.least, self.early = least, early
        self.turns = threading.Semaphore(0) if paced else None
        self.asked, self.wrong, self.errors = 0, [], []
        self.done, self.begin = threading.Event(), threading.Barrier(threads + 1)
        self.threads = [threading.Thread(target=self._ask, args=(place,)) for place in range(threads)]

    def _ask(self, seed):
        rng, asked = np.random.default_rng(seed), 0
        while not self.done.is_set() or asked < self.least:
            if asked == self.early:
                self.begin.wait()
            if asked >= self.early and self.turns is not None:
                self.turns.acquire()
            asked += 1
            place = int(rng.integers(len(self.questions)))
            try:
                if answer(self.model, self.questions[place]) not in self.expected[place]:
                    self.wrong.append(self.questions[place])
                if asked > self.early and asked % 5 == 0 and not whole_history(self.model):
                    self.wrong.append("history")
            except Exception as error:
                self.errors.append(repr(error))
        self.asked += asked

    def in_turn(self, given):
        """These tasks; with each of them half of the threads may ask once more."""
        for task in given:
            self.turns.release(len(self.threads) // 2)
            yield task

    def while_it(self, learns):
        """Ask while this function runs."""
        for thread in self.threads:
            thread.start()
        self.begin.wait()
        try:
            learns()
        finally:
            self.done.set()
            if self.turns is not None:
                self.turns.release(len(self.threads) * (self.least + 1))
            for thread in self.threads:
                thread.join()
        return self


def whole_history(model):
    """Whether the names and the events that can be seen at one moment belong together."""
    history = model.history_
    return [event.task for event in history] == list(history.places)
