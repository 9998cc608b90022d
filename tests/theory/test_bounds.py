"""The theorems' formulas against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan.spread import HalfspaceSpread
from everspan.theory import (
    Setting,
    all_at_once,
    balcan_parameters,
    epsilon_acc,
    independent,
    table_1,
    theorem_1,
    theorem_2,
    theorem_3,
    theorem_4,
    theorem_5,
    theorem_6,
    theorem_7,
)

# d = 100, k = 4, m = 50, epsilon = 0.1: d k^1.5 / epsilon = 8,000 and k m / epsilon = 2,000
PLAIN = Setting(d=100, k=4, m=50, epsilon=0.1, logarithms=False)
FULL = Setting(d=100, k=4, m=50, epsilon=0.1)
OUTER = math.log(math.log(4) / 0.1)  # 2.629


def test_theorem_1_and_its_lower_bounds():
    for theorem in (theorem_1, theorem_2, theorem_6):
        bound = theorem(PLAIN)
        assert (bound.growth_labels, bound.reuse_labels) == pytest.approx((8000.0, 2000.0))
        assert bound.labels == pytest.approx(10_000.0)


def test_theorem_3_with_its_logarithms():
    bound = theorem_3(FULL)
    assert pytest.approx(2.6292, abs=1e-4) == OUTER
    assert bound.growth_labels == pytest.approx(8000.0 * OUTER * math.log(40.0))  # 77,590
    assert bound.growth_labels == pytest.approx(77_590, rel=1e-3)
    assert bound.reuse_labels == pytest.approx(2000.0 * OUTER * math.log(10.0))
    assert bound.growths == bound.dimension == pytest.approx(8.0 * OUTER)


def test_theorem_4_spends_less_on_tasks_by_one_logarithm():
    basic, refined = theorem_3(FULL), theorem_4(FULL)
    assert refined.growth_labels == basic.growth_labels
    assert basic.reuse_labels / refined.reuse_labels == pytest.approx(OUTER)
    assert refined.dimension == 7


@pytest.mark.parametrize(
    ("c", "dimension", "factor"), [(2.0, 9, math.sqrt(2.0)), (3.0, 14, math.sqrt(1.5)), (1.5, 7, math.sqrt(3.0))]
)
def test_theorem_5(c, dimension, factor):
    assert theorem_5(5, c) == (dimension, pytest.approx(factor))


def test_theorem_7():
    bound = theorem_7(PLAIN)
    assert (bound.growth_labels, bound.reuse_labels, bound.dimension) == pytest.approx((160_000.0, 2000.0, 4))
    assert theorem_7(FULL).growth_labels == pytest.approx(160_000.0 * math.log(40.0))


def test_nonlinear_features_cost_a_factor_of_k():
    nonlinear = Setting(d=100, k=4, m=50, epsilon=0.1, features="nonlinear", logarithms=False)
    for theorem in (theorem_1, theorem_3, theorem_4, theorem_7):
        assert theorem(nonlinear).labels == pytest.approx(4.0 * theorem(PLAIN).labels)
    assert theorem_7(nonlinear).dimension == 16
    assert theorem_3(nonlinear).dimension == pytest.approx(4.0 * theorem_3(PLAIN).dimension)
    assert [row.source for row in table_1(nonlinear)] == ["Theorem 7", "Theorem 3", "Theorem 4"]


def test_table_1_has_its_five_rows_in_order():
    rows = table_1(PLAIN)
    assert [row.growth_labels for row in rows] == pytest.approx([16_000.0, 16_000.0, 160_000.0, 8000.0, 8000.0])
    assert all(row.reuse_labels == pytest.approx(2000.0) for row in rows)
    assert [row.dimension for row in rows] == pytest.approx([4, 4, 4, 8.0 * OUTER, 7])


@given(st.integers(2, 30), st.floats(0.001, 0.3), st.integers(1, 10_000), st.integers(30, 3000))
def test_the_order_of_the_methods_is_the_papers(k, epsilon, m, d):
    s = Setting(d=d, k=k, m=m, epsilon=epsilon, logarithms=False)
    assert theorem_2(s).labels <= theorem_4(s).labels * (1 + 1e-9)
    assert theorem_4(s).labels <= all_at_once(s).labels <= theorem_7(s).labels
    assert (
        theorem_4(Setting(d=d, k=k, m=m, epsilon=epsilon)).labels
        <= theorem_3(Setting(d=d, k=k, m=m, epsilon=epsilon)).labels
    )


def test_every_task_by_itself_costs_d_for_each():
    assert independent(PLAIN).labels == pytest.approx(100 * 50 / 0.1)


def test_epsilon_acc_is_that_of_the_learner():
    spread = HalfspaceSpread(0.25, 0.5)
    assert epsilon_acc(0.1, 5, spread) == spread.epsilon_acc(0.1, 5)
    assert epsilon_acc(0.2, 16, c=2.0) == pytest.approx(0.025)


@given(st.floats(0.01, 0.4), st.integers(1, 40), st.floats(0.05, 1.0), st.floats(1.0, 4.0))
def test_balcans_parameters_meet_both_conditions_of_the_proof(epsilon, k, c1, ratio):
    spread = HalfspaceSpread(c1, c1 * ratio)
    gamma, accuracy = balcan_parameters(epsilon, k, spread)
    assert gamma <= epsilon / spread.c2 - accuracy / spread.c1 + 1e-12
    assert gamma + 4.0 * k * accuracy / (spread.c1 * gamma) == pytest.approx(epsilon / spread.c2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": 101}, "101 features do not fit into 100"),
        ({"epsilon": 0.0}, "epsilon must lie between 0 and 1"),
        ({"m": 0}, "m must be at least 1"),
        ({"features": "odd"}, "'linear' or 'nonlinear'"),
        ({"constant": -1.0}, "constant must be above zero"),
    ],
)
def test_bad_sizes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Setting(**({"d": 100, "k": 4, "m": 50, "epsilon": 0.1} | changes))
