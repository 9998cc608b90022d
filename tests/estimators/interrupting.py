"""Interrupts at any line or bytecode: 20 a public method in the tests, 500 in ``benchmarks/interrupts.py``."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path
from traceback import extract_tb

import numpy as np

import everspan
from everspan import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
from everspan.estimators._saving import contents_of
from everspan.functions import ReLU
from everspan.store import TASK

from .crowd import PROBE, D, stream

SOURCE = str(Path(everspan.__file__).parent)


class Interrupt:
    """Counts the lines or bytecodes of everspan that this thread runs, and raises KeyboardInterrupt at one of them."""

    def __init__(self, opcodes, at=None):
        self.opcodes, self.at, self.count = opcodes, at, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _called(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(SOURCE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = self.opcodes, not self.opcodes
        return self._stepped

    def _stepped(self, _frame, event, _):
        if event in ("line", "opcode"):
            self.count += 1
            if self.count == self.at:
                raise KeyboardInterrupt
        return self._stepped


def digest(model):
    """All that can be seen of a model, times aside: what a file would hold, predictions, names, parameters."""
    seen = hashlib.blake2b(digest_size=16)

    def note(*values):
        for value in values:
            seen.update(value if isinstance(value, bytes) else repr(value).encode())

    note(sorted(model.get_params(deep=False).items(), key=lambda item: item[0]))
    if "representation_" not in vars(model):
        note(sorted(name for name in vars(model) if name.endswith("_")))
        return seen.hexdigest()
    contents, seconds = contents_of(model), TASK.index("seconds")
    note(sorted(contents.about.items()))
    for name, values in sorted(contents.arrays.items()):
        note(name, values.shape, values.tobytes())
    for row in contents.tasks:
        note(*row[:seconds], *row[seconds + 1 :])
    for row in contents.predictors:
        note(*row)
    note(model.tasks_, list(model.history_.places), model.n_features_in_)
    if isinstance(model, ClassIncrementalClassifier):
        note(model.predict_proba(PROBE).tobytes(), model.classes_.tolist())
    else:
        names = model.tasks_[:8]
        scores = model.predict if isinstance(model, LifelongRegressor) else model.predict_with_probability
        note(*(np.asarray(scores(PROBE, task=name)).tolist() for name in names))
        note(np.asarray(scores(PROBE, tasks=[names[i % len(names)] for i in range(len(PROBE))])).tolist())
    note(model.transform(PROBE).tobytes())
    return seen.hexdigest()


@cache
def _learned(kind):
    """A model in use; each call of a test gets a copy."""
    if kind is ClassIncrementalClassifier:
        model = kind(memory=60)
        for label in range(3):
            model.learn_task(*_of_class(label))
        return model
    model = kind(representation=ReLU(most=2, starts=1)) if kind is Network else kind()
    own = LifelongClassifier if kind is Network else kind
    for name, X, y in stream(own, 3 if kind is Network else 12):
        model.learn_task(X, y, task=name)
    return model


class Network(LifelongClassifier):
    """A model whose features are functions."""


def _of_class(label):
    rng = np.random.default_rng(label)
    return 2.0 * np.eye(D)[label] + rng.standard_normal((20, D)), [label] * 20


class Source:
    """Labels on demand, the same in every call."""

    def __init__(self, kind):
        self.rng, self.kind = np.random.default_rng(3), kind

    def draw(self, n):
        X = self.rng.standard_normal((n, D))
        return X, X[:, 0] if self.kind is LifelongRegressor else np.where(X[:, 0] > 0.0, "high", "low")


def _table(kind):
    tasks = [*stream(kind, 5, seed=7)]
    names = np.repeat([name for name, _, _ in tasks], [len(y) for _, _, y in tasks])
    return np.vstack([X for _, X, _ in tasks]), np.concatenate([y for _, _, y in tasks]), names


def _fitted(model, kind):
    X, y, names = _table(kind)
    return model.fit(X, y, tasks=names)


def _fitted_partly(model, kind):
    X, y, names = _table(kind)
    return model.partial_fit(X, y, tasks=names)


def _learned_one(model, kind, task, seed=5):
    _, X, y = next(stream(kind, 1, seed=seed))
    return model.learn_task(X, y, task=task)


def _together(model, kind):
    return model.learn_tasks(
        [*stream(kind, 4, seed=8), *((("new", name), X, y) for name, X, y in stream(kind, 10, seed=9))]
    )


def _predicted(model, kind):
    model.predict(PROBE, tasks=[0, 1, 2, 3, 4, 5])
    model.transform(PROBE)
    return model.linear_predictor(task=3)


def _set_anew(model, kind):
    model.set_params(epsilon=0.3)
    return _learned_one(model, kind, "new")


# What is done, by kind of model: a name, and a function of the model and its kind.
STREAM_METHODS = {
    "learn_task, new": lambda model, kind: _learned_one(model, kind, "new"),
    "learn_task, more rows": lambda model, kind: _learned_one(model, kind, 2),
    "learn_task, source": lambda model, kind: model.learn_task(Source(kind), task="source"),
    "learn_tasks": _together,
    "fit": _fitted,
    "partial_fit": _fitted_partly,
    "forget": lambda model, kind: model.forget(3),
    "forget the first": lambda model, kind: model.forget(0),
    "predict": _predicted,
    "set_params, learn_task": _set_anew,
}
METHODS = {
    (kind, name): own for kind in (LifelongClassifier, LifelongRegressor) for name, own in STREAM_METHODS.items()
}
METHODS |= {
    (LifelongClassifier, "predict_proba"): lambda model, kind: model.predict_proba(PROBE, task=1),
    (Network, "learn_task, new"): lambda model, kind: _learned_one(model, LifelongClassifier, "new"),
    (Network, "forget the first"): lambda model, kind: model.forget(0),
    (ClassIncrementalClassifier, "fit"): lambda model, kind: model.fit(*_table(LifelongClassifier)[:2]),
    (ClassIncrementalClassifier, "learn_task"): lambda model, kind: model.learn_task(*_of_class(3)),
    (ClassIncrementalClassifier, "partial_fit"): lambda model, kind: model.partial_fit(*_of_class(1)),
    (ClassIncrementalClassifier, "forget"): lambda model, kind: model.forget(1),
    (ClassIncrementalClassifier, "predict"): lambda model, kind: model.predict(PROBE),
}
KEEPS_WHOLE_TASKS = ("learn_tasks", "set_params, learn_task")  # what they did before they were interrupted stays


def check_lock(model, interrupt):
    """The lock is free; else the interrupt came where no real one can.

    That is between the end of a ``with`` block and the call that releases its lock: Python handles signals after calls,
    backward jumps and where functions begin, and there is none of these in between.
    """
    ours = [frame for frame in extract_tb(interrupt.__traceback__) if frame.filename.startswith(SOURCE)]
    while model._lock._is_owned():
        assert ours[-1].line.startswith("with self._lock:"), (
            f"an interrupt at {ours[-1].line!r} leaves the model locked"
        )
        model._lock.release()


def states_of(kind, does):
    """The digests of a model before and after, and of all states between them."""
    model, found = deepcopy(_learned(kind)), []
    commit = type(model)._commit

    def noted(self, step):
        done = commit(self, step)
        if self is model:
            found.append(digest(model))
        return done

    found.append(digest(model))
    type(model)._commit = noted
    try:
        does(model, kind)
    finally:
        del type(model)._commit
    return [*found, digest(model)] if digest(model) != found[-1] else found


def interrupted(kind, name, trials, seed=0):
    """Interrupt a method so many times; how often it was in the states before, between and after."""
    does, rng = METHODS[kind, name], np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = states_of(kind, does)
        if name == "set_params, learn_task":
            states.insert(1, digest(deepcopy(_learned(kind)).set_params(epsilon=0.3)))
        steps = {}
        for opcodes in (False, True):
            with Interrupt(opcodes) as run:
                does(deepcopy(_learned(kind)), kind)
            steps[opcodes] = run.count
        model, where = deepcopy(_learned(kind)), dict.fromkeys(("before", "between", "after"), 0)
        for trial in range(trials):
            opcodes = bool(trial % 2)
            try:
                with Interrupt(opcodes, at=int(rng.integers(1, steps[opcodes] + 1))):
                    does(model, kind)
            except KeyboardInterrupt as interrupt:
                check_lock(model, interrupt)
            found = digest(model)
            assert found in states, f"{kind.__name__}.{name}: a state that nobody committed, at trial {trial}"
            assert found in (states[0], states[-1]) or name in KEEPS_WHOLE_TASKS
            place = states.index(found)
            where["before" if place == 0 else "after" if found == states[-1] else "between"] += 1
            if place:
                model = deepcopy(_learned(kind))
        does(model, kind)
        assert digest(model) == states[-1], f"{kind.__name__}.{name}: learns on as if nothing had happened"
    return where


def files_interrupted(trials, seed=0):
    """Interrupt `save` over an older model and `load`; how often the file was the old one or the new one."""
    rng, where = np.random.default_rng(seed), {"before": 0, "after": 0}
    old, new = deepcopy(_learned(LifelongClassifier)), deepcopy(_learned(LifelongClassifier))
    _learned_one(new, LifelongClassifier, "new")
    digests = [digest(old), digest(new)]
    with tempfile.TemporaryDirectory() as folder:
        first, path = Path(folder, "old.everspan"), Path(folder, "model.everspan")
        old.save(first)

        def saved():
            shutil.copy(first, path)
            models[-1].save(path)

        calls = (saved, lambda: LifelongClassifier.load(path))
        steps = {}
        for call in calls:
            for opcodes in (False, True):
                models = [deepcopy(new)]  # which knows nothing of the file
                with Interrupt(opcodes) as run:
                    call()
                steps[call, opcodes] = run.count
        for trial in range(trials):
            call, opcodes = calls[trial // 2 % 2], bool(trial % 2)
            models = [deepcopy(new)]
            try:
                with Interrupt(opcodes, at=int(rng.integers(1, steps[call, opcodes] + 1))):
                    call()
            except KeyboardInterrupt:
                pass
            found = digest(LifelongClassifier.load(path))
            assert found in digests, "the file is neither the old nor the new one"
            assert digest(models[-1]) == digests[1]
            if call is saved and found == digests[1]:
                models[-1].save(path)  # an interrupt after the commit locks nobody out
            where["before" if found == digests[0] else "after"] += 1
        new.save(path)
        assert digest(LifelongClassifier.load(path)) == digests[1]
    return where
