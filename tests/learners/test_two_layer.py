"""The two-layer network: its slopes are right, it learns what a halfspace cannot, and rows count as often as said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from everspan.learners import TwoLayer
from everspan.learners._two_layer import _Problem
from everspan.tasks import Rows


@given(seed=st.integers(0, 1000), regression=st.booleans(), biases=st.booleans(), intercept=st.booleans())
@settings(max_examples=20, deadline=None)
def test_slopes_are_those_of_the_loss(seed, regression, biases, intercept):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 3)), rng.standard_normal(30)
    rows = Rows(X, y if regression else np.sign(y), rng.uniform(0.5, 2.0, 30))
    learner = TwoLayer(regression=regression, biases=biases, fit_intercept=intercept)
    problem, size = _Problem.of(rows, learner), 2
    flat = rng.standard_normal(2 * 3 + 2 * 2 + 1)
    if not biases:
        flat[6:8] = 0.0
    free = np.ones(len(flat), dtype=bool)
    free[6:8], free[-1] = biases, intercept

    def moved(some):
        whole = flat.copy()
        whole[free] = some
        return whole

    error = check_grad(
        lambda some: problem.value(moved(some), size, 0.1)[0],
        lambda some: problem.value(moved(some), size, 0.1)[1][free],
        flat[free],
    )
    assert error < 1e-5
    assert not problem.value(flat, size, 0.1)[1][~free].any()


def test_it_learns_what_a_halfspace_cannot_and_finds_how_many_units_that_takes():
    rng = np.random.default_rng(0)
    X, new = rng.standard_normal((3000, 6)), rng.standard_normal((3000, 6))
    either = TwoLayer().fit(Rows(X, np.where(np.abs(X[:, 0]) > 0.7, 1.0, -1.0)))
    assert np.mean((either.scores(new) > 0) == (np.abs(new[:, 0]) > 0.7)) > 0.97
    assert 2 <= len(either.coef) <= 8
    half = TwoLayer().fit(Rows(X, np.sign(X[:, 0])))
    assert len(half.coef) <= 3
    np.testing.assert_allclose(np.linalg.norm(either.weights, axis=1), 1.0)


def test_regression_finds_the_function_and_the_noise():
    rng = np.random.default_rng(1)
    X = 3.0 * rng.standard_normal((2000, 5))
    truth = 100.0 + 10.0 * np.maximum(X[:, 0], 0.0)
    fit = TwoLayer(regression=True).fit(Rows(X, truth + 3.0 * rng.standard_normal(2000)))
    assert np.mean(np.square(fit.scores(X) - truth)) < 0.02 * np.var(truth)
    assert fit.noise == pytest.approx(9.0, rel=0.15)


def test_without_biases_and_constant_the_function_is_homogeneous():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 4))
    fit = TwoLayer(biases=False, fit_intercept=False).fit(Rows(X, np.sign(X[:, 0] + 1e-9)))
    assert not fit.biases.any()
    assert fit.intercept == 0.0
    np.testing.assert_allclose(fit.scores(2.0 * X), 2.0 * fit.scores(X))
    assert not fit.scores(np.zeros((1, 4))).any()


def test_the_same_rows_give_the_same_network_and_weights_count():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((120, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    one, again = TwoLayer(units=4).fit(Rows(X, y)), TwoLayer(units=4).fit(Rows(X, y))
    np.testing.assert_array_equal(one.weights, again.weights)
    rare = np.where(y > 0.0, 50.0, 1.0)
    weighty = TwoLayer(units=4).fit(Rows(X, y, rare))
    assert np.mean(weighty.scores(X) > 0.0) >= np.mean(one.scores(X) > 0.0)
    balanced = TwoLayer(units=1, balanced=True).fit(Rows(X, np.where(X[:, 0] > 1.2, 1.0, -1.0)))
    assert np.isfinite(balanced.coef).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_are_no_trouble(n):
    X = np.eye(3)[np.arange(n) % 3]
    fit = TwoLayer().fit(Rows(X, np.where(np.arange(n) % 2, 1.0, -1.0)))
    assert np.isfinite(fit.scores(X)).all()


def test_a_weight_counts_repetitions():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 3))
    y = np.where(np.abs(X[:, 0]) > 0.7, 1.0, -1.0)
    heavy = TwoLayer(units=3).fit(Rows(X, y, np.full(60, 50.0)))
    many = TwoLayer(units=3).fit(Rows(np.repeat(X, 50, axis=0), np.repeat(y, 50)))
    light = TwoLayer(units=3).fit(Rows(X, y))
    assert np.abs(heavy.scores(X)).mean() == pytest.approx(np.abs(many.scores(X)).mean(), rel=0.5)
    assert np.abs(heavy.scores(X)).mean() > 2.0 * np.abs(light.scores(X)).mean()


def test_rows_in_turn_do_not_mislead_the_choice_of_units():
    rng = np.random.default_rng(1)
    quarter = np.arange(2000) % 4
    X = rng.standard_normal((2000, 4))
    X[:, 3] = quarter == 3
    y = np.where(quarter == 3, X[:, 0], 2.0 * np.abs(X[:, 0]) + 2.0 * np.abs(X[:, 1]))
    fit = TwoLayer(regression=True).fit(Rows(X, y))
    assert np.mean(np.square(fit.scores(X) - y)) < 0.05 * np.var(y)


def test_more_units_are_tried_where_more_are_allowed():
    X = np.random.default_rng(0).uniform(-2.0, 2.0, (2000, 1))
    y = np.sin(6.0 * X[:, 0])
    few, many = (TwoLayer(regression=True, most=most).fit(Rows(X, y)) for most in (4, 40))
    assert len(few.coef) <= 4 < len(many.coef)
    assert np.mean(np.square(many.scores(X) - y)) < 0.6 * np.mean(np.square(few.scores(X) - y))
