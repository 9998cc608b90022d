"""What goes in: one clear error for bad input, the right answer for odd but good input."""

from __future__ import annotations

import numpy as np
import pytest

from everspan.refinement import refine, refine_gram, smallest_dimension

W = np.random.default_rng(0).standard_normal((6, 4))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([[1.0, np.nan], [0.0, 1.0]], r"W must be finite, but W\[0, 1\] is nan"),
        ([[1.0, 2.0], [-np.inf, 1.0]], r"W must be finite, but W\[1, 0\] is -inf"),
        (np.zeros((0, 3)), r"at least one row and one column, but its shape is \(0, 3\)"),
        (np.zeros((3, 0)), r"at least one row and one column, but its shape is \(3, 0\)"),
        ([1.0, 2.0], r"one feature a row, but its shape is \(2,\)"),
        (np.zeros((2, 2, 2)), r"one feature a row, but its shape is \(2, 2, 2\)"),
        ([[1 + 2j, 1.0]], "real numbers, but its dtype is complex128"),
        ([["a", "b"]], "real numbers, but its dtype is <U1"),
        ([[None, 1.0]], "real numbers, but its dtype is object"),
        ([[1.0, 2.0], [3.0]], "W must be a matrix with one feature a row, but its rows differ in length"),
        (np.ma.masked_array([[1.0, 2.0]], [[False, True]]), "W must have no missing entries, but it is a masked array"),
        (np.array([[np.longdouble("1e400"), 1.0]]), r"W must be finite, but W\[0, 0\] is inf"),
    ],
)
def test_bad_features_are_named(features, message):
    for call in (lambda: refine(features, 1), lambda: smallest_dimension(features, 0.1)):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be at least 1, but it is 0"),
        ({"k": -2}, "k must be at least 1, but it is -2"),
        ({"k": 1.5}, "k must be a whole number, but it is 1.5"),
        ({"k": True}, "k must be at least 1, but it is True"),
        ({"k": "2"}, "k must be a whole number, but it is '2'"),
        ({"k": 2, "method": "pca"}, "method must be one of 'sdp', 'svd', but it is 'pca'"),
        ({"k": 2, "rounding": "up"}, "rounding must be one of .* but it is 'up'"),
        ({"k": 2, "tol": 0.0}, "tol must be a positive number, but it is 0.0"),
        ({"k": 2, "tol": float("nan")}, "tol must be a positive number, but it is nan"),
        ({"k": 2, "radius": -1.0}, "radius must be a positive number, but it is -1.0"),
        ({"k": 2, "dimension": 3}, 'dimension goes with method="sdp" and rounding="paper"'),
        ({"k": 2, "rounding": "paper", "dimension": 1}, "dimension must be at least k = 2, but it is 1"),
        ({"k": 2, "radii": [1.0, 2.0]}, r"radii must be 6 numbers, but it has dtype float64 and shape \(2,\)"),
        ({"k": 2, "radii": [1.0, 1, 1, 1, 1, 0]}, "radii must be positive and finite, but it goes from 0.0 to 1.0"),
        ({"k": 2, "radius": True}, "radius must be a positive number, but it is True"),
        ({"k": 2, "tol": 10**400}, "tol must be a positive number"),
        ({"k": 2, "radius": 0.1, "rounding": "paper"}, 'radius goes with method="sdp" and rounding="certified"'),
        ({"k": 2, "radii": np.full(6, 1e-320)}, "cannot be measured in radii of"),
        ({"k": 2, "max_iterations": 0}, "max_iterations must be at least 1"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        refine(W, **options)


def test_a_bad_radius_or_tolerance_of_the_smallest_dimension_is_named():
    with pytest.raises(ValueError, match="radius must be a positive number, but it is 0"):
        smallest_dimension(W, 0)
    with pytest.raises(ValueError, match="tol must be a positive number, but it is nan"):
        smallest_dimension(W, 0.1, tol=float("nan"))


def test_bad_inner_products_are_named():
    with pytest.raises(ValueError, match=r"square matrix of inner products, but its shape is \(6, 4\)"):
        refine_gram(W, 2)
    with pytest.raises(ValueError, match="not symmetric"):
        refine_gram([[1.0, 0.5], [0.0, 1.0]], 1)
    with pytest.raises(ValueError, match=r"positive semidefinite, but it has an eigenvalue of -0\.5 times its size"):
        refine_gram([[1.0, 2.0], [2.0, 1.0]], 1)
    with pytest.raises(ValueError, match="positive semidefinite"):
        refine_gram([[-1.0]], 1)


@pytest.mark.parametrize("method", ["sdp", "svd"])
def test_k_at_or_above_the_rank_returns_the_span(method):
    flat = W[:, :2] @ np.random.default_rng(1).standard_normal((2, 9))
    for k in (2, 3, 50):
        refinement = refine(flat, k, method=method)
        assert refinement.dimension == 2
        assert refinement.max_distance == refinement.sdp_value == refinement.lower_bound == refinement.gap == 0
        np.testing.assert_allclose(flat @ refinement.basis @ refinement.basis.T, flat, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1.0, 1e100, 1e200])
def test_radii_of_any_size_are_a_unit(scale):
    expected = refine(W, 2)
    radii = np.full(len(W), scale)
    assert refine(W, 2, radii=radii).sdp_value * scale == pytest.approx(expected.sdp_value, rel=1e-6)
    gram = refine_gram(W @ W.T, 2, radii=radii)
    assert gram.sdp_value * scale == pytest.approx(expected.sdp_value, rel=1e-6)
    np.testing.assert_allclose(gram.combination.T @ (W @ W.T) @ gram.combination, np.eye(gram.dimension), atol=1e-10)


def test_what_double_precision_cannot_see_is_still_reported():
    """A feature 1e18 times smaller than another is below the accuracy of the decomposition, but not nothing."""
    tiny = refine(np.diag([1e12, 1e-6]), 1)
    np.testing.assert_allclose(tiny.distances, [0.0, 1e-6])
    assert tiny.lower_bound <= 1e-6 <= tiny.sdp_value * (1 + 1e-12)
    bounds = smallest_dimension(np.diag([1e12, 1e-6]), 1e-8)
    assert (bounds.upper, bounds.max_distance) == (2, 0.0)


def test_the_least_dimension_is_zero_where_the_radius_reaches_every_feature():
    for seed in range(50):
        feature = np.random.default_rng(seed).standard_normal((1, 7))
        assert smallest_dimension(feature, np.nextafter(np.linalg.norm(feature), np.inf)).lower == 0
        assert smallest_dimension(feature, 0.999 * np.linalg.norm(feature)).lower == 1


def test_zero_features_span_nothing():
    refinement = refine(np.zeros((3, 5)), 1)
    assert refinement.basis.shape == (5, 0)
    assert refinement.max_distance == 0
    assert refine_gram(np.zeros((3, 3)), 2).combination.shape == (3, 0)
    assert smallest_dimension(np.zeros((3, 5)), 0.1).upper == 0


def test_zero_and_repeated_rows_change_nothing():
    plain = refine(W, 2)
    padded = refine(np.vstack([W, W[:3], np.zeros((2, 4))]), 2)
    assert padded.sdp_value**2 == pytest.approx(plain.sdp_value**2, abs=1e-7)


def test_equal_features_are_one_feature():
    refinement = refine(np.tile([3.0, 4.0], (5, 1)), 1)
    assert refinement.dimension == 1
    np.testing.assert_allclose(np.abs(refinement.basis[:, 0]), [0.6, 0.8], atol=1e-15)
    assert refinement.max_distance == 0


def test_whole_numbers_booleans_lists_and_single_precision_are_welcome():
    numbers = [[3, 0, 1], [0, 2, 1], [1, 1, 5], [2, 2, 2]]
    expected = refine(np.array(numbers, dtype=float), 2).sdp_value
    for features in (numbers, np.array(numbers, dtype=np.int8), np.array(numbers, dtype=np.float32)):
        assert refine(features, np.int64(2)).sdp_value == pytest.approx(expected, rel=1e-9)
    assert refine(np.eye(3, dtype=bool), 1).sdp_value == pytest.approx(np.sqrt(2 / 3), rel=1e-8)


def test_the_input_is_left_as_it_was():
    features = W.copy()
    refine(features, 2)
    smallest_dimension(features, 0.5)
    np.testing.assert_array_equal(features, W)


def test_a_single_feature_and_a_single_column():
    assert refine([[2.0, 0.0]], 1).dimension == 1
    assert refine([[2.0], [1.0]], 1).dimension == 1
