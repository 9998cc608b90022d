"""Many tasks fitted at once: each as if it were alone, to the bit, and all as an independent solver fits them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as ReferenceRidge

from everspan.learners import Auto, BayesPoint, Logistic, Ridge, _logistic, least_squares
from everspan.tasks import Rows

KINDS = ["separable", "noisy", "collinear", "repeated", "outlier", "huge", "tiny", "far"]
SIZES = {"seed": st.integers(0, 10**6), "n": st.integers(2, 120), "d": st.integers(1, 12)}


def task(rng, n, d, kind):
    X = rng.standard_normal((n, d))
    if kind == "collinear":
        X[:, -1] = X[:, 0] + 1e-9 * X[:, -1]
    if kind == "repeated":
        X[:, -1] = X[:, 0]
    if kind == "outlier":  # where Newton's full steps fly off
        X[0] *= 30.0
    X *= {"huge": 1e100, "tiny": 1e-100}.get(kind, 1.0)
    X += 1e6 if kind == "far" else 0.0
    target = X @ rng.standard_normal(d)
    wrong = rng.random(n) < (0.0 if kind == "separable" else 0.15)
    y = np.where((target > np.median(target)) != wrong, 1.0, -1.0)
    if abs(y.sum()) == n:
        y[0] = -y[0]
    return X, y


def stack(seed, tasks, n, d, kinds=KINDS):
    rng = np.random.default_rng(seed)
    X, y = zip(*(task(rng, n, d, rng.choice(kinds)) for _ in range(tasks)), strict=True)
    return np.stack(X), np.stack(y)


def assert_same(fit, other):
    assert fit.coef.tobytes() == other.coef.tobytes()
    assert fit.unseen.tobytes() == other.unseen.tobytes()
    assert (fit.intercept, fit.noise) == (other.intercept, other.noise)
    assert np.isfinite(fit.coef).all()


def learners(fit_intercept, balanced):
    settings = {"fit_intercept": fit_intercept, "balanced": balanced}
    return [Logistic(**settings), Logistic((1e-6,), **settings), Ridge(**settings)]


@settings(max_examples=60, deadline=None)
@given(**SIZES, tasks=st.integers(1, 40), fit_intercept=st.booleans(), balanced=st.booleans())
def test_every_task_of_many_is_fitted_as_if_it_were_alone(seed, n, d, tasks, fit_intercept, balanced):
    X, y = stack(seed, tasks, n, d)
    for learner in learners(fit_intercept, balanced):
        fits = learner.fit_many(X, y)
        assert len(fits) == tasks
        for i in range(tasks):
            assert_same(fits[i], learner.fit(Rows(X[i], y[i])))


@settings(max_examples=20, deadline=None)
@given(**SIZES, tasks=st.integers(2, 40))
def test_neither_companions_nor_place_nor_layout_matter(seed, n, d, tasks):
    X, y = stack(seed, tasks, n, d)
    some = np.random.default_rng(seed).permutation(tasks)[: 1 + seed % tasks]
    for learner in learners(fit_intercept=True, balanced=False):
        fits = learner.fit_many(X, y)
        others = learner.fit_many(np.asfortranarray(X[some]), np.asfortranarray(y[some]))
        for place, i in enumerate(some):
            assert_same(fits[i], others[place])


@pytest.mark.parametrize(("n", "d"), [(30, 50), (60, 40), (300, 3)], ids=["few rows", "wide", "many rows"])
def test_larger_tasks_too(n, d):
    """More columns than a small solver is for, and rows enough that a quarter of them chooses the strength."""
    X, y = stack(0, 5, n, d, ["noisy", "outlier"])
    for learner in learners(fit_intercept=True, balanced=False):
        fits = learner.fit_many(X, y)
        for i in range(5):
            assert_same(fits[i], learner.fit(Rows(X[i], y[i])))


def test_tasks_that_fly_off_are_among_them(monkeypatch):
    """The tests above would not see a task that is done again in the wrong place if there were none."""
    guarded, count = _logistic._Tasks.guarded, []
    monkeypatch.setattr(_logistic._Tasks, "guarded", lambda tasks: (count.append(len(tasks.state)), guarded(tasks))[1])
    X, y = stack(0, 40, 30, 5, ["outlier", "noisy"])
    Logistic().fit_many(X, y)
    assert 1 <= len(count) < 40
    assert set(count) == {1}


def test_separable_rows_seldom_fly_off(monkeypatch):
    """A quarter of many rows chooses the strength; where it is separable and all of them are not, that flew off."""
    guarded, count = _logistic._Tasks.guarded, []
    monkeypatch.setattr(_logistic._Tasks, "guarded", lambda tasks: (count.append(1), guarded(tasks))[1])
    Logistic().fit_many(*stack(0, 100, 1000, 10, ["separable"]))
    assert len(count) <= 20  # of a hundred; it was 61


def in_solvers_form(kind):
    """Tasks in the solver's own form."""
    X, y = stack(0, 50, 100, 5, [kind])
    matrix = np.concatenate([X.transpose(0, 2, 1) * y[:, None], np.tile(np.eye(5), (50, 1, 1))], axis=2)
    return _logistic._Tasks(matrix, None, None, np.ones(5), 100.0)


@pytest.mark.parametrize("kind", ["separable", "noisy"])
def test_the_first_step_is_made_about_as_long_as_the_solution(kind):
    tasks = in_solvers_form(kind)
    solution = tasks.solve(np.full((50, 1, 1), 0.1)).solution
    tasks.state[:] = 0.0
    tasks.step()
    plain = tasks.solution.copy()
    tasks.start()
    after, before = (np.linalg.norm(start - solution, axis=2) for start in (tasks.solution, plain))
    assert np.median(after / before) < 0.8


def test_a_class_that_is_rare_among_many_rows_gets_its_share():
    """The constant has next to no penalty, so probabilities add up to as many rows as there are."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((100_000, 5))
    y = np.full(len(X), -1.0)
    y[np.argsort(1.5 * X[:, 0] + rng.logistic(size=len(X)))[-10:]] = 1.0
    fit = Logistic().fit(Rows(X, y))
    assert expit(X @ fit.coef + fit.intercept).sum() == pytest.approx(10.0, rel=1e-3)


def test_rows_far_off_on_the_wrong_side_do_not_end_it_early():
    """Guarded steps that promise little may have far to go; this one ended at 345 where 283 is the least."""
    rng = np.random.default_rng(209)
    n, d = int(rng.choice([50, 200, 500, 2000])), int(rng.choice([2, 4, 8]))
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    wrong = int(rng.integers(1, 4))
    X[:wrong] *= 10.0 ** rng.uniform(0, 5)
    y[:wrong] *= -1
    fit = Logistic((1e-3,)).fit(Rows(X, y))
    loss = np.logaddexp(0.0, -y * (X @ fit.coef + fit.intercept)).sum()
    reference = LogisticRegression(C=1e6, max_iter=10_000, tol=1e-10, solver="newton-cholesky").fit(X, y)
    assert loss < np.logaddexp(0.0, -y * reference.decision_function(X)).sum() + 1.0


@pytest.mark.parametrize("kind", ["separable", "noisy"])
@pytest.mark.parametrize(("there", "here"), [(3.0, 0.1), (0.1, 3.0), (0.1, 1e-3), (1e-3, 0.1)])
def test_a_solution_is_followed_towards_that_of_another_strength(kind, there, here):
    tasks = in_solvers_form(kind)
    start, end = (tasks.solve(np.full((50, 1, 1), strength)) for strength in (here, there))
    before = np.linalg.norm(start.solution - end.solution, axis=2)
    after = np.linalg.norm(start.followed(there, np.ones(5)) - end.solution, axis=2)
    assert np.median(after / before) < (0.75 if there < here else 1.0)


def test_tasks_fitted_together_choose_their_own_strengths():
    X, y = stack(0, 20, 60, 5, ["separable"])
    y[::2] = np.where(np.random.default_rng(0).random((10, 60)) < 0.5, 1.0, -1.0)  # nothing to learn
    fits = Logistic().fit_many(X, y)
    single = np.stack([Logistic((strength,)).fit_many(X, y).coef for strength in Logistic().strengths])
    distance = np.abs(single - fits.coef).max(2) / np.abs(fits.coef).max(1)
    assert distance.min(0).max() < 1e-3
    assert len(set(distance.argmin(0))) >= 3


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(5, 120), d=st.integers(1, 12), strength=st.sampled_from([10.0, 0.1]))
def test_logistic_is_scikit_learns_for_every_task(seed, n, d, strength):
    X, y = stack(seed, 5, n, d, ["separable", "noisy", "repeated"])
    fits = Logistic((strength,)).fit_many(X, y)
    for i in range(5):
        centred = X[i] - X[i].mean(0)
        Z = centred / np.sqrt(np.mean(centred**2))
        reference = LogisticRegression(C=1.0 / strength, tol=1e-10, max_iter=10_000).fit(Z, y[i])
        expected = reference.decision_function(Z)
        np.testing.assert_allclose(fits[i].scores(X[i]), expected, atol=2e-2 * np.abs(expected).max())


@settings(max_examples=15, deadline=None)
@given(**SIZES, fit_intercept=st.booleans())
def test_ridge_is_scikit_learns_for_every_task_and_leaves_rows_out(seed, n, d, fit_intercept):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((5, n, d)) + 1.0
    y = (X @ rng.standard_normal((5, d, 1)))[:, :, 0] + 0.5 * rng.standard_normal((5, n))
    fits = Ridge((0.1,), fit_intercept=fit_intercept).fit_many(X, y)
    for i in range(5):
        shown = X[i] - X[i].mean(0) if fit_intercept else X[i]
        reference = ReferenceRidge(alpha=0.1 * np.sum(shown**2) / d, fit_intercept=fit_intercept)
        fitted = reference.fit(X[i], y[i])
        np.testing.assert_allclose(fits[i].coef, fitted.coef_, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(fits[i].intercept, fitted.intercept_, rtol=1e-7, atol=1e-9)
        if n > 2:
            refit = reference.fit(X[i][1:], y[i][1:])
            np.testing.assert_allclose(fits[i].unseen[0], refit.predict(X[i][:1])[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("small", [{"_WIDE": 1}, {"_BLOCK": 50}], ids=["columns", "rows"])
def test_large_hessians_are_summed_to_the_same(small, monkeypatch):
    X, y = stack(0, 4, 120, 5, ["noisy"])
    expected = Logistic().fit_many(X, y)
    for name, size in small.items():
        monkeypatch.setattr(_logistic, name, size)
    fits = Logistic().fit_many(X, y)
    np.testing.assert_allclose(fits.coef, expected.coef, rtol=1e-9)
    np.testing.assert_allclose(fits.unseen, expected.unseen, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("d", [3, 40])
def test_columns_that_repeat_are_no_trouble_without_any_penalty(d):
    X, y = stack(0, 3, 200, d, ["repeated"])
    fits = Logistic((0.0,)).fit_many(X, y)
    np.testing.assert_allclose(fits.coef[:, 0], fits.coef[:, -1], atol=1e-3 * np.abs(fits.coef).max())


def test_auto_fits_many_tasks_at_once_only_where_logistic_is_its_choice():
    X, y = stack(0, 3, 60, 5, ["noisy"])
    assert Auto().fit_many(X, y).coef.tobytes() == Logistic().fit_many(X, y).coef.tobytes()
    few, labels = stack(0, 3, 10, 5, ["noisy"])
    assert Auto().fit_many(few, labels) is None
    assert (Auto().fit(Rows(few[0], labels[0])).coef == BayesPoint().fit(Rows(few[0], labels[0])).coef).all()


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"X must have shape .* but they have \(5, 3\) and \(5,\)"):
        least_squares().fit_many(np.zeros((5, 3)), np.zeros(5))
