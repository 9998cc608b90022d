"""Rows that come a few at a time: tasks end about as well as if all had come at once, and so does what they share."""

import warnings

import numpy as np
import pytest

from everspan import LifelongClassifier, LifelongRegressor
from everspan.estimators import DriftWarning

KINDS = [LifelongRegressor, LifelongClassifier]


class Stream:
    """Tasks that share k directions, and rows of each."""

    def __init__(self, kind, d, tasks=16, k=3, seed=0):
        self.rng, self.regression, self.d = np.random.default_rng(seed), kind is LifelongRegressor, d
        self.noise = 0.3
        self.shared = self.rng.standard_normal((k, d))
        weights = self.rng.standard_normal((tasks, k)) @ self.shared
        self.weights = weights / np.linalg.norm(weights, axis=1, keepdims=True)

    def rows(self, task, n):
        X = self.rng.standard_normal((n, self.d))
        y = X @ self.weights[task] + self.noise * self.rng.standard_normal(n)
        return X, y if self.regression else (y > 0).astype(int)

    def score(self, model):
        return np.mean([model.score(*self.rows(task, 1000), task=task) for task in range(len(self.weights))])

    def angle(self, model):
        """Between the worst known of the shared directions and the representation."""
        cosines = np.linalg.svd(np.linalg.qr(self.shared.T)[0].T @ model.representation_.basis, compute_uv=False)
        return np.arccos(min(cosines[-1], 1.0)) if len(cosines) == len(self.shared) else np.pi / 2


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftWarning)
        yield


def trickled(model, stream, parts, n):
    """The rows of all tasks, n at a time, in turn; and all of them by task."""
    every = [[stream.rows(task, n) for _ in range(parts)] for task in range(len(stream.weights))]
    for part in range(parts):
        for task, own in enumerate(every):
            model.learn_task(*own[part], task=task)
    return [(np.concatenate([X for X, _ in own]), np.concatenate([y for _, y in own])) for own in every]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "parts", "n"), [(20, 20, 10), (80, 8, 40), (80, 2, 160)])
def test_rows_in_parts_come_near_all_rows_at_once(kind, d, parts, n):
    stream, model, at_once = Stream(kind, d), kind(), kind()
    for task, (X, y) in enumerate(trickled(model, stream, parts, n)):
        at_once.learn_task(X, y, task=task)
    assert stream.score(model) > stream.score(at_once) - 0.04


def test_a_prior_that_was_learned_from_few_rows_is_learned_again():
    stream, model = Stream(LifelongClassifier, 20, tasks=60, seed=1), LifelongClassifier()
    trickled(model, stream, 12, 10)
    assert model.prior_.trusted  # so it has a word in every task
    assert stream.score(model) > 0.85


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [20, 300])
def test_many_rows_after_few_are_what_counts(kind, d):
    stream, model, at_once = Stream(kind, d), kind(), kind()
    for task in range(16):
        model.learn_task(*stream.rows(task, 10), task=task)
    for task in range(16):
        more = stream.rows(task, 3 * d)
        model.learn_task(*more, task=task)
        at_once.learn_task(*more, task=task)
    assert stream.score(model) > stream.score(at_once) - 0.04


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [20, 80])
def test_the_representation_learns_from_more_rows(kind, d):
    stream, model = Stream(kind, d), kind()
    for task in range(16):
        model.learn_task(*stream.rows(task, 30), task=task)
    before, features = stream.angle(model), len(model.representation_.features)
    for task in range(16):
        model.learn_task(*stream.rows(task, 600), task=task)
    assert len(model.representation_.features) <= features + 3  # tasks keep the place of their feature
    assert stream.angle(model) < 0.5 * before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [20, 80])
def test_files_and_forgetting_after_a_trickle(tmp_path, kind, d):
    stream, model = Stream(kind, d, tasks=10), kind()
    trickled(model, stream, 6, 20)
    model.save(tmp_path / "m.everspan")
    loaded = kind.load(tmp_path / "m.everspan")
    X, y = stream.rows(3, 200)
    for one in (model, loaded):
        one.learn_task(X, y, task=3)
        one.learn_task(X, y, task="new")
    assert all(np.array_equal(model.predict(X, task=task), loaded.predict(X, task=task)) for task in model.tasks_)
    grown = [model.predictors_.at(i).feature for i in range(len(model.predictors_))]
    assert sorted(feature for feature in grown if feature >= 0) == list(range(len(model.representation_.features)))
    others = {task: model.predict(X, task=task) for task in model.tasks_ if task != 3}
    lost = model.representation_.features[grown[3]] if grown[3] >= 0 else None
    model.set_params(old_tasks="freeze").forget(3)
    if lost is not None:
        assert np.linalg.norm(model.representation_.features - lost, axis=1).min() > 1e-6
    frozen = loaded.set_params(old_tasks="freeze")
    assert all(np.array_equal(model.predict(X, task=task), frozen.predict(X, task=task)) for task in others)


def fails_at(count, function):
    """The function, until it is called for the so-many-th time."""
    calls = iter(range(1, count + 1))

    def called(*args, **kwargs):
        if next(calls) == count:
            raise RuntimeError("the disk is full")
        return function(*args, **kwargs)

    return called


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_fails_takes_back_what_updates_did_to_the_representation(kind, monkeypatch):
    stream, model = Stream(kind, 80), kind()
    for task in range(16):
        model.learn_task(*stream.rows(task, 20), task=task)
    before = model.representation_
    X = stream.rows(0, 1)[0]
    predictions = [model.predict(X, task=task) for task in range(16)]
    table = [stream.rows(task, 300) for task in range(3)]
    rows, labels = np.vstack([X for X, _ in table]), np.concatenate([y for _, y in table])
    names = np.repeat([0, 1, 2], 300)
    rows[-1, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(rows, labels, tasks=names)
    assert model.representation_ is before
    assert all(np.array_equal(model.predict(X, task=task), predictions[task]) for task in range(16))
    rows[-1, 0] = 0.0
    monkeypatch.setattr(kind, "_record_update", fails_at(3, kind._record_update))
    with pytest.raises(RuntimeError, match="full"):
        model.partial_fit(rows, labels, tasks=names)
    monkeypatch.undo()
    assert model.representation_ is before
    assert all(np.array_equal(model.predict(X, task=task), predictions[task]) for task in range(16))
    model.partial_fit(rows, labels, tasks=names)
    assert model.representation_ is not before


@pytest.mark.parametrize("kind", KINDS)
def test_more_tasks_than_are_kept_in_columns_come_again_and_again(kind):
    stream, model = Stream(kind, 10, tasks=100), kind()
    trickled(model, stream, 4, 20)
    assert stream.score(model) > 0.85


@pytest.mark.parametrize("d", [20, 80])
@pytest.mark.parametrize("change", [np.negative, np.random.default_rng(0).permutation], ids=["flipped", "shuffled"])
def test_rows_that_contradict_a_task_teach_the_others_nothing(d, change):
    stream, model = Stream(LifelongRegressor, d), LifelongRegressor()
    for task in range(16):
        model.learn_task(*stream.rows(task, 400), task=task)
    before = model.representation_
    grown = [task for task in range(16) if model.predictors_.at(task).feature >= 0][:3]
    for task in grown:
        for _ in range(4):
            X, y = stream.rows(task, 400)
            model.learn_task(X, change(y), task=task)
    for task in grown:
        feature = model.predictors_.at(task).feature
        assert abs(before.features[feature] @ model.representation_.features[feature]) > 0.99
    assert np.degrees(stream.angle(model)) < 10


@pytest.mark.parametrize(("d", "parts", "n"), [(30, 3, 10), (60, 5, 12), (100, 5, 20)])
def test_as_many_noisy_labels_as_columns_do_no_harm(d, parts, n):
    stream, model = Stream(LifelongRegressor, d), LifelongRegressor()
    stream.noise = 1.0
    trickled(model, stream, parts, n)
    scores = [model.score(*stream.rows(task, 500), task=task) for task in range(16)]
    assert np.mean(scores) > -0.1
    assert min(scores) > -0.6


def test_tasks_of_three_classes_and_many_columns_come_in_parts():
    rng, model, at_once = np.random.default_rng(0), LifelongClassifier(), LifelongClassifier()
    shared = rng.standard_normal((4, 80))
    weights = [rng.standard_normal((3, 4)) @ shared / 3.0 for _ in range(8)]

    def drawn(own, n):
        X = rng.standard_normal((n, 80))
        return X, (X @ own.T + 0.5 * rng.gumbel(size=(n, 3))).argmax(axis=1)

    every = [drawn(own, 300) for own in weights]
    for part in range(6):
        for task, (X, y) in enumerate(every):
            own = slice(50 * part, 50 * part + 50)
            model.learn_task(X[own], y[own], task=task)
    for task, (X, y) in enumerate(every):
        at_once.learn_task(X, y, task=task)
    tests = [drawn(own, 1000) for own in weights]
    parts, whole = (np.mean([m.score(*test, task=t) for t, test in enumerate(tests)]) for m in (model, at_once))
    assert parts > whole - 0.05


def test_bases_that_nothing_stands_on_are_not_kept():
    stream, model = Stream(LifelongClassifier, 20), LifelongClassifier()
    trickled(model, stream, 10, 20)
    used = {model.predictors_.at(index).version for index in range(len(model.predictors_))}
    newest = len(model.predictors_.bases) - 1
    assert {v for v, basis in enumerate(model.predictors_.bases[:-1]) if basis is not None} <= used | {newest - 1}


def test_a_model_from_a_file_learns_on_to_the_bit_where_bases_only_grow(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(12):
        weights, model = rng.standard_normal((4, 60)), LifelongRegressor(refine_above=5)

        def drawn(task, n, weights=weights):
            X = rng.standard_normal((n, 60))
            return X, X @ weights[task % 4] + 0.1 * rng.standard_normal(n)

        for task in range(8):
            model.learn_task(*drawn(task, int(rng.integers(1, 60))), task=task)
        model.save(tmp_path / "m.everspan")
        loaded = LifelongRegressor.load(tmp_path / "m.everspan")
        for task in rng.integers(8, size=16).tolist():
            rows = drawn(task, 3)
            model.learn_task(*rows, task=task)
            loaded.learn_task(*rows, task=task)
        X, _ = drawn(0, 9)
        assert all(np.array_equal(model.predict(X, task=task), loaded.predict(X, task=task)) for task in range(8))


@pytest.mark.parametrize("seed", [7, 9])
def test_a_prior_of_rows_that_are_all_told_apart_stays_within_measure(seed):
    rng, model = np.random.default_rng(seed), LifelongClassifier()
    weights = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 50))
    for task in [*range(12), *rng.integers(12, size=36).tolist()]:
        X = rng.standard_normal((int(rng.integers(1, 4)), 50))
        model.learn_task(1e-6 * X, (X @ weights[task] > 0).astype(int), task=task)
    assert 1e-6 * np.abs(model.prior_.mean).max() < 1e4


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_learned_alike_whatever_the_scale_of_the_columns(kind):
    stream, one, other = Stream(kind, 20), kind(), kind()
    every = trickled(one, stream, 10, 20)
    for part in range(10):
        for task, (X, y) in enumerate(every):
            own = slice(20 * part, 20 * part + 20)
            other.learn_task(1e-6 * X[own], y[own], task=task)
    tests = [stream.rows(task, 1000) for task in range(16)]
    plain = np.mean([one.score(X, y, task=task) for task, (X, y) in enumerate(tests)])
    assert abs(np.mean([other.score(1e-6 * X, y, task=task) for task, (X, y) in enumerate(tests)]) - plain) < 0.01
