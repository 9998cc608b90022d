"""Assumption 1's constants from data of known value, and data that break it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from everspan.theory import spread, whitening

N = 60_000


def gaussian(rng, d):
    return rng.normal(size=(N, d))


def ball(rng, d):
    x = rng.normal(size=(N, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True) * rng.random((N, 1)) ** (1.0 / d)


def laplace(rng, d):
    return rng.laplace(size=(N, d))


# For independent Laplace columns the boundary e_1 has density 1/2 at zero, and the mean of |w . x| over the others is 1
# for one of them and 1.5 / sqrt 2 for two; the boundary (e_1 + e_2) / sqrt 2 gives 1/4 in its own plane.
@pytest.mark.parametrize(
    ("made", "d", "c1", "c2"),
    [
        (gaussian, 5, 1.0 / math.pi, 1.0 / math.pi),
        (ball, 3, 1.0 / math.pi, 1.0 / math.pi),
        (laplace, 2, 0.25, 0.5),
        (laplace, 3, 0.25, 0.75 / math.sqrt(2.0)),
    ],
)
def test_constants_of_known_distributions_within_a_tenth(made, d, c1, c2):
    found = spread(made(np.random.default_rng(2), d))
    assert found.holds
    assert found.c1 == pytest.approx(c1, rel=0.1)
    assert found.c2 == pytest.approx(c2, rel=0.1)
    assert found.c1_interval[0] <= found.c1 <= found.c1_interval[1]
    assert found.constants().c2 >= found.constants().c1


def broken():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(20_000, 5))
    yield "lie in a subspace", rows[:, :3] @ rng.normal(size=(3, 5))
    yield "pile up", np.sign(rows)
    yield "pile up", rows * (rng.random(rows.shape) < 0.3)
    yield "centre the rows", np.abs(rows) + 1.0
    yield "whiten", rows * [1.0, 1.0, 1.0, 1.0, 100.0]
    yield "say the same", 0.05 * rows + rng.choice([-1.0, 1.0], (20_000, 1)) * np.eye(5)[0]


@pytest.mark.parametrize(("reason", "rows"), list(broken()))
def test_data_that_break_the_assumption_are_told(reason, rows):
    found = spread(rows)
    assert not found.holds
    assert reason in found.verdict
    with pytest.raises(ValueError, match="no constants to go by"):
        found.constants()


def test_whitening_makes_log_concave_data_well_spread():
    rng = np.random.default_rng(4)
    rows = rng.gamma(2.0, size=(20_000, 4)) * [1.0, 10.0, 100.0, 3.0]
    assert not spread(rows).holds
    shift, matrix = whitening(rows)
    assert spread((rows - shift) @ matrix).holds
    with pytest.raises(ValueError, match="lie in a subspace"):
        whitening(rows[:, [0, 1, 1]])


def test_the_same_seed_gives_the_same_answer():
    rows = np.random.default_rng(5).normal(size=(2000, 3))
    assert spread(rows) == spread(rows)


@pytest.mark.parametrize("rows", [np.zeros((10, 3)), np.zeros((1000, 1)), np.full((1000, 2), np.nan)])
def test_bad_rows_are_refused(rows):
    with pytest.raises(ValueError, match="rows"):
        spread(rows)
