"""Assumption 1's arithmetic, against Gaussian data where its constants are exact."""

from __future__ import annotations

import numpy as np
import pytest

from everspan.spread import HalfspaceSpread, RegressionSpread


@pytest.mark.parametrize("degrees", [1.0, 20.0, 60.0])
def test_halfspaces_at_an_angle_disagree_as_assumed(degrees):
    angle = np.radians(degrees)
    X = np.random.default_rng(0).standard_normal((400_000, 2))
    disagree = np.mean((X[:, 0] >= 0) != (X @ [np.cos(angle), np.sin(angle)] >= 0))
    spread = HalfspaceSpread()
    assert spread.implied(np.cos(angle)) == pytest.approx(disagree, abs=3e-3)
    assert spread.after_move(0.05, np.cos(angle)) == pytest.approx(0.05 + disagree, abs=3e-3)
    assert spread.distance(angle / np.pi) == pytest.approx(np.sin(angle))


@pytest.mark.parametrize("degrees", [1.0, 20.0])
def test_squared_errors_are_squared_distances(degrees):
    sine = np.sin(np.radians(degrees))
    spread = RegressionSpread()
    assert spread.distance(sine**2) == pytest.approx(sine)
    assert spread.implied(np.cos(np.radians(degrees))) == pytest.approx(sine**2)
    assert spread.after_move(0.04, np.cos(np.radians(degrees))) == pytest.approx((0.2 + sine) ** 2)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_epsilon_acc_is_that_of_the_proof(k):
    """(sqrt 2 + 1 / c') epsilon_acc = epsilon / (2 sqrt(k) c''), in squared errors for regression."""
    lower, upper = 1 / np.pi, np.sqrt(12 / 11) / np.pi
    reach = (np.sqrt(2) + 1 / lower) * HalfspaceSpread().epsilon_acc(0.1, k)
    assert reach == pytest.approx(0.1 / (2 * np.sqrt(k) * upper))
    spread = RegressionSpread(0.5, 2.0)
    reach = (np.sqrt(2) + 1 / np.sqrt(0.5)) * np.sqrt(spread.epsilon_acc(0.1, k))
    assert reach == pytest.approx(np.sqrt(0.1) / (2 * np.sqrt(k) * np.sqrt(2.0)))


@pytest.mark.parametrize("constants", [(0.0, 1.0), (0.5, 0.2), (-1.0, 1.0), (1.0, np.inf)])
def test_impossible_constants_are_refused(constants):
    with pytest.raises(ValueError, match="0 < c1 <= c2"):
        HalfspaceSpread(*constants)
