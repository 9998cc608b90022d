"""Threads that predict while others learn: a few in the tests, 8 x 300 x 300 tasks in ``benchmarks/threads.py``."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from copy import deepcopy

import numpy as np

from everspan import LifelongClassifier, LifelongRegressor

D = 5
KINDS = (LifelongClassifier, LifelongRegressor)
PROBE = np.random.default_rng(99).standard_normal((6, D))


def stream(kind, tasks, seed=0, again=0):
    """(name, X, y) of new tasks, easy, noisy and off the origin; of the last ones, ``again`` are more rows."""
    rng = np.random.default_rng(seed)
    shared = np.linalg.qr(rng.standard_normal((D, 2)))[0]
    for place in range(tasks):
        rows = 12 if place % 4 else 40
        name = place if place < tasks - again else place - tasks + again
        weights = shared @ np.random.default_rng((seed, name)).standard_normal(2)
        X = rng.standard_normal((rows, D)) + 0.5 * (place % 3)
        y = X @ weights + (0.05 if place % 2 else 0.7) * rng.standard_normal(rows)
        yield name, X, y if kind is LifelongRegressor else np.where(y > np.median(y), "high", "low")


def answer(model, names):
    """What a model says of the probe, as bytes: for one task, or for a task a row."""
    if len(names) == 1:
        scores = (model.predict if isinstance(model, LifelongRegressor) else model.decision_function)(
            PROBE, task=names[0]
        )
    else:
        tasks = [names[row % len(names)] for row in range(len(PROBE))]
        scores = (model.predict if isinstance(model, LifelongRegressor) else model.decision_function)(
            PROBE, tasks=tasks
        )
    return scores.tobytes()


def answers_of_states(model, given, questions):
    """For every question, the answers of all states that the model has while it learns these tasks one by one."""
    model, found = deepcopy(model), [set() for _ in questions]
    for task in [None, *given]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if task is not None:
                model.learn_task(task[1], task[2], task=task[0])
        for place, names in enumerate(questions):
            found[place].add(answer(model, names))
    return found


class Crowd:
    """Threads that ask a model questions until somebody has learned all; what they saw that no state says."""

    def __init__(self, model, questions, expected, threads=8, most=None):
        self.model, self.questions, self.expected, self.most = model, questions, expected, most
        self.seen, self.wrong, self.errors = Counter(), [], []
        self.done, self.started = threading.Event(), threading.Barrier(threads + 1)
        self.threads = [threading.Thread(target=self._ask, args=(place,)) for place in range(threads)]

    def _ask(self, seed):
        rng, asked = np.random.default_rng(seed), 0
        self.started.wait()
        while (not self.done.is_set() if self.most is None else asked < self.most) or asked < 5:
            asked += 1
            place = int(rng.integers(len(self.questions)))
            try:
                found = answer(self.model, self.questions[place])
                if not check_history(self.model):
                    self.wrong.append("history")
            except Exception as error:
                self.errors.append(repr(error))
                continue
            self.seen[place, found] += 1
            if found not in self.expected[place]:
                self.wrong.append(self.questions[place])

    def while_it(self, learns):
        """Ask while this function runs."""
        for thread in self.threads:
            thread.start()
        self.started.wait()
        try:
            learns()
        finally:
            self.done.set()
            for thread in self.threads:
                thread.join()
        return self


def check_history(model):
    """Whether the names and the events that can be seen at one moment belong together."""
    history = model.history_
    return [event.task for event in history] == list(history.places) and len(model.tasks_) >= len(history)


def learn_all(model, given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X, y in given:
            model.learn_task(X, y, task=name)
