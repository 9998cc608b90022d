"""Estimates that are right on average and bounds that hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from everspan.checks import (
    CHECKS,
    AreaAbove,
    AutoCheck,
    HoldOut,
    LogLoss,
    SquaredError,
    ZeroOne,
    clopper_pearson,
    cross_validated_scores,
    mean_square_bounds,
)
from everspan.learners import Averaging, Fit, Logistic
from everspan.tasks import Rows


def labelled(seed, n, d=5, noise=0.1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return Rows(X, np.where((X[:, 0] >= 0) != (rng.random(n) < noise), 1.0, -1.0))


@pytest.mark.parametrize(("wrong", "n"), [(0, 10), (3, 40), (40, 40), (1, 1)])
@pytest.mark.parametrize("risk", [0.05, 1e-4])
def test_clopper_pearson_is_scipys(wrong, n, risk):
    low, high = clopper_pearson(wrong, n, risk)
    interval = binomtest(wrong, n).proportion_ci(1 - 2 * risk, method="exact")
    assert low == pytest.approx(interval.low, abs=1e-9)
    assert high == pytest.approx(interval.high, abs=1e-9)


def test_bounds_hold_as_often_as_they_say():
    """A fixed predictor of error 0.15, held out from 2,000 samples of 80 rows."""
    rng = np.random.default_rng(0)
    wrong = rng.binomial(80, 0.15, 2000)
    misses = np.mean([clopper_pearson(int(w), 80, 0.05)[1] < 0.15 for w in wrong])
    assert 0.01 < misses <= 0.05 + 0.01


@pytest.mark.parametrize("residuals", ["normal", "uniform", "laplace"])
def test_mean_square_bounds_hold_as_often_as_they_say(residuals):
    rng = np.random.default_rng(1)
    draws = getattr(rng, residuals)(size=(2000, 60)) if residuals != "uniform" else rng.uniform(-1, 1, (2000, 60))
    truth = {"normal": 1.0, "uniform": 1 / 3, "laplace": 2.0}[residuals]
    bounds = [mean_square_bounds(row, 0.05) for row in draws]
    allowed = 0.06 if residuals != "laplace" else 0.2  # heavier tails than normal: the docstring promises less
    assert np.mean([high < truth for _, high in bounds]) <= allowed
    assert np.mean([low > truth for low, _ in bounds]) <= allowed


@pytest.mark.parametrize("name", ["loo", "cv", "holdout", "auto"])
def test_estimates_from_unseen_rows_are_right_on_average_and_training_errors_are_not(name):
    estimates, truths, training = [], [], []
    for seed in range(40):
        rows, fresh = labelled(seed, 60), labelled(1000 + seed, 2000)
        fit, assessment = CHECKS[name].measure(Logistic().fit, rows, ZeroOne(), 0.05, seed)
        estimates.append(assessment.error)
        truths.append(ZeroOne().mean(fresh, fit.scores(fresh.X)))
        training.append(assessment.training)
        assert (assessment.upper is not None) == (name == "holdout"), "a bound is given only from unseen rows"
        assert assessment.plausible >= assessment.error
    assert abs(np.mean(estimates) - np.mean(truths)) < 0.03
    assert np.mean(training) < np.mean(truths) - 0.02


def test_rows_are_held_out_and_never_seen():
    rows = labelled(0, 101)
    seen = []

    def fit(part):
        seen.append(part)
        return Averaging().fit(part)

    for check in (HoldOut(), HoldOut(shuffle=False)):
        seen.clear()
        _, assessment = check.measure(fit, rows, ZeroOne(), 0.05, seed=3)
        held = rows.X[assessment.rows]
        assert len(held) == 25
        assert not (held[:, None] == seen[0].X[None]).all(-1).any()
    constant = Fit(np.zeros(5), 1.0)
    assert HoldOut().measure(lambda part: constant, rows.part(slice(1)), ZeroOne(), 0.05, 0)[1].upper is None


def test_cross_validation_never_scores_a_row_by_a_fit_that_saw_it():
    rows = labelled(0, 23)
    scored = []

    class Spy:
        unseen = None

        def __init__(self, part):
            self.part = part

        def scores(self, X):
            scored.extend(X[:, 0].tolist())
            assert not set(X[:, 0]) & set(self.part.X[:, 0])
            assert len(set(self.part.y)) == 2, "every class is in every fit"
            return np.zeros(len(X))

    cross_validated_scores(Spy, rows, 10, 0)
    assert sorted(scored) == sorted(rows.X[:, 0])


def test_auto_holds_out_where_rows_are_plenty():
    assert AutoCheck().measure(Logistic().fit, labelled(0, 999), ZeroOne(), 0.05, 0)[1].upper is None
    assert AutoCheck().measure(Logistic().fit, labelled(0, 1000), ZeroOne(), 0.05, 0)[1].upper is not None


def test_losses_by_hand():
    rows = Rows(np.zeros((4, 1)), np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, 1.0, 1.0, 3.0]))
    scores = np.array([2.0, -1.0, -1.0, 3.0])
    assert ZeroOne().mean(rows, scores) == pytest.approx(4 / 6)
    assert ZeroOne(balanced=True).mean(rows, scores) == pytest.approx((1 / 2 + 3 / 4) / 2)
    plain = Rows(rows.X, rows.y)
    assert AreaAbove().mean(plain, scores) == pytest.approx(1 - 1.5 / 4)
    assert LogLoss().mean(plain, np.zeros(4)) == pytest.approx(np.log(2))
    assert SquaredError(2.0).mean(plain, np.zeros(4)) == pytest.approx(0.5)
    assert ZeroOne().bounds(rows, scores, 0.05) is None, "weighted rows are not independent trials"
    assert ZeroOne().mean(plain, np.zeros(4)) == 0.5, "sign(0) is +1"
