"""Every learner against an independent solver, against refitting without a row, and against repeating rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge as ReferenceRidge

from everspan.learners import (
    Auto,
    Averaging,
    BayesPoint,
    Foreign,
    HardMargin,
    Logistic,
    Ridge,
    balanced,
    least_squares,
    named_learner,
)
from everspan.tasks import Rows

HALFSPACES = [Auto(), BayesPoint(), Logistic(), HardMargin(), least_squares(), Averaging()]


def halfspace(seed, n, d, noise=0.0, offset=0.0):
    rng = np.random.default_rng(seed)
    target = rng.standard_normal(d)
    target /= np.linalg.norm(target)
    X = rng.standard_normal((n, d))
    y = np.where((X @ target + offset >= 0) != (rng.random(n) < noise), 1.0, -1.0)
    return Rows(X, y), target


def error(fit, target):
    return float(np.arccos(np.clip(fit.coef @ target / np.linalg.norm(fit.coef), -1, 1)) / np.pi)


@pytest.mark.parametrize(("n", "d"), [(60, 3), (200, 10), (30, 50)])
@pytest.mark.parametrize("strength", [10.0, 0.1])
def test_logistic_is_scikit_learns(n, d, strength):
    rows, _ = halfspace(0, n, d, noise=0.1, offset=0.3)
    fit = Logistic((strength,)).fit(rows)
    centred = rows.X - rows.X.mean(0)
    scale = np.sqrt(np.mean(centred**2))
    reference = LogisticRegression(C=1 / strength, tol=1e-10, max_iter=10_000).fit(centred / scale, rows.y)
    expected = reference.decision_function(centred / scale)
    np.testing.assert_allclose(fit.scores(rows.X), expected, atol=2e-2 * np.abs(expected).max())


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "d"), [(40, 3), (25, 40)])
def test_ridge_is_scikit_learns_and_its_rows_left_out_are_refits(n, d, fit_intercept):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d)) + 1.0
    rows = Rows(X, X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n))
    learner = Ridge((0.1,), fit_intercept=fit_intercept)
    fit = learner.fit(rows)
    shown = X - X.mean(0) if fit_intercept else X
    strength = 0.1 * np.sum(shown**2) / d
    reference = ReferenceRidge(alpha=strength, fit_intercept=fit_intercept).fit(X, rows.y)
    np.testing.assert_allclose(fit.coef, reference.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(fit.intercept, reference.intercept_, rtol=1e-8, atol=1e-10)
    for left_out in (0, n - 1):
        others = np.arange(n) != left_out
        refit = ReferenceRidge(alpha=strength, fit_intercept=fit_intercept).fit(X[others], rows.y[others])
        np.testing.assert_allclose(fit.unseen[left_out], refit.predict(X[[left_out]])[0], rtol=1e-6)


def test_ridge_chooses_the_strength_that_predicts_best_and_finds_the_noise():
    rng = np.random.default_rng(2)
    X, target = rng.standard_normal((400, 5)), np.array([1.0, -1, 0, 0, 2])
    noisy = Ridge().fit(Rows(X, X @ target + 0.5 * rng.standard_normal(400)))
    assert 0.8 * 0.25 < noisy.noise < 1.2 * 0.25
    clean = Ridge().fit(Rows(X, X @ target))
    np.testing.assert_allclose(clean.coef, target, atol=1e-5)
    few = Rows(rng.standard_normal((15, 100)), rng.standard_normal(15))  # nothing to learn: the strongest is best
    assert np.linalg.norm(Ridge().fit(few).coef) < 0.2 * np.linalg.norm(least_squares().fit(few).coef)


@pytest.mark.parametrize("learner", [Logistic((0.1,)), BayesPoint((10.0,))], ids=["logistic", "bayes point"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_scores_of_rows_left_out_are_near_those_of_refits(learner, noise):
    rows, _ = halfspace(3, 60, 4, noise)
    fit = learner.fit(rows)
    refits = []
    for left_out in range(60):
        others = np.arange(60) != left_out
        refits.append(learner.fit(rows.part(others)).scores(rows.X[[left_out]])[0])
    refits = np.array(refits)
    wrong, estimated = (refits * rows.y < 0).sum(), (fit.unseen * rows.y < 0).sum()
    assert abs(int(wrong) - int(estimated)) <= 2
    assert np.corrcoef(refits, fit.unseen)[0, 1] > 0.9


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(8, 40), d=st.integers(1, 12), kind=st.sampled_from(range(3)))
def test_a_weight_of_two_is_two_rows_and_a_weight_of_zero_is_none(seed, n, d, kind):
    learner = (Logistic(), BayesPoint(), Ridge())[kind]
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = rng.integers(0, 3, n).astype(float)
    weight[:2] = 1.0
    repeated = np.repeat(np.arange(n), weight.astype(int))
    weighted, plain = learner.fit(Rows(X, y, weight)), learner.fit(Rows(X[repeated], y[repeated]))
    precision = 2e-3 if kind == 1 else 1e-5  # sweeps of expectation propagation stop when nothing moves by 1e-3
    np.testing.assert_allclose(weighted.coef, plain.coef, atol=precision * (1 + np.abs(plain.coef).max()))
    scores = weighted.unseen[repeated]
    np.testing.assert_allclose(scores, plain.unseen, atol=10 * precision * (1 + np.abs(plain.unseen).max()))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 1e3]), shift=st.floats(-5, 5))
@pytest.mark.parametrize("learner", [Logistic(), BayesPoint()], ids=["logistic", "bayes point"])
def test_units_and_origin_of_the_columns_do_not_matter(learner, seed, scale, shift):
    rows, _ = halfspace(seed, 50, 4, noise=0.05)
    moved = Rows(scale * (rows.X + shift), rows.y)
    np.testing.assert_allclose(
        learner.fit(moved).scores(moved.X), learner.fit(rows).scores(rows.X), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("learner", HALFSPACES, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize(("n", "d"), [(10, 2), (10, 30), (300, 5)])
def test_every_learner_gets_better_than_chance_from_ten_rows_on(learner, n, d):
    errors = [error(learner.fit(rows), target) for rows, target in (halfspace(seed, n, d) for seed in range(20))]
    assert np.mean(errors) < (0.45 if d > n else 0.25)


@pytest.mark.parametrize("learner", HALFSPACES, ids=lambda learner: type(learner).__name__)
def test_constant_and_repeated_columns_do_no_harm(learner):
    rows, target = halfspace(5, 200, 3)
    wider = Rows(np.column_stack([rows.X, np.full(200, 7.0), rows.X[:, 0]]), rows.y)
    fit = learner.fit(wider)
    assert np.isfinite(fit.coef).all()
    combined = fit.coef[:3] + np.array([fit.coef[4], 0, 0])
    assert np.arccos(combined @ target / np.linalg.norm(combined)) / np.pi < 0.12


def test_the_order_of_the_learners_where_labels_are_few():
    """The notes' table at d=100, N=200: the Bayes point first, averaging last."""
    samples = [halfspace(seed, 200, 100) for seed in range(12)]
    mean = {
        type(learner).__name__: np.mean([error(learner.fit(rows), target) for rows, target in samples])
        for learner in HALFSPACES[1:]
    }
    assert mean["BayesPoint"] < 0.19
    assert mean["BayesPoint"] < mean["Logistic"] + 0.002 < mean["Ridge"] < mean["Averaging"]
    assert mean["BayesPoint"] < mean["HardMargin"]


def test_auto_is_the_bayes_point_for_few_rows_and_logistic_for_many():
    few, many = halfspace(0, 40, 20)[0], halfspace(0, 400, 5)[0]
    assert (Auto().fit(few).coef == BayesPoint().fit(few).coef).all()
    assert (Auto().fit(many).coef == Logistic().fit(many).coef).all()


def test_hard_margin_separates_with_the_largest_margin():
    rows, _ = halfspace(7, 60, 2)

    def margin(fit):
        return float((fit.scores(rows.X) * rows.y).min() / np.linalg.norm(fit.coef))

    widest = margin(HardMargin().fit(rows))
    assert widest > 0
    assert all(margin(learner.fit(rows)) <= widest * 1.01 for learner in (Logistic(), BayesPoint(), Averaging()))


def test_averaging_by_hand():
    rows = Rows(np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 1.0]]), np.array([1.0, 1.0, -1.0]), np.array([1.0, 2.0, 1.0]))
    fit = Averaging().fit(rows)
    np.testing.assert_allclose(fit.coef, [7 / 6, -0.5])
    np.testing.assert_allclose(fit.scores(np.array([[7 / 6, 0.5]])), 0.0, atol=1e-12)
    through_origin = Averaging(fit_intercept=False).fit(rows)
    np.testing.assert_allclose(through_origin.coef, [7 / 4, -1 / 4])


def test_balanced_classes_count_the_same():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 1, 950), rng.normal(1, 1, 50)])[:, None]
    rows = Rows(X, np.repeat([-1.0, 1.0], [950, 50]))
    for learner in (Logistic(), BayesPoint(), least_squares(), Averaging(), Foreign(LogisticRegression())):
        fit = balanced(learner).fit(rows)
        threshold = -fit.intercept / fit.coef[0]
        assert abs(threshold) < 0.35, type(learner).__name__
    with pytest.raises(ValueError, match="has no `balanced`"):
        balanced(object())


def test_a_million_rows():
    rows, target = halfspace(0, 1_000_000, 4, noise=0.05)
    assert error(Auto().fit(rows), target) < 0.01


def test_learners_by_name_and_foreign_ones():
    rows, target = halfspace(1, 300, 3)
    assert isinstance(named_learner("bayes_point", regression=False, fit_intercept=True), BayesPoint)
    foreign = named_learner(LogisticRegression(C=100), regression=False, fit_intercept=True)
    assert error(foreign.fit(rows), target) < 0.05
    own = Logistic((1.0,))
    assert named_learner(own, regression=False, fit_intercept=True) is own
    with pytest.raises(ValueError, match="learner must be one of auto, bayes_point"):
        named_learner("perceptron", regression=False, fit_intercept=True)
    with pytest.raises(ValueError, match="object with fit"):
        named_learner(3, regression=True, fit_intercept=True)
