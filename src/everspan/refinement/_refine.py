"""The public calls: check the input, reduce, solve, round, certify."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _rounding, _working_set
from ._arrays import Array
from ._certificate import lower_bound, primal_value
from ._reduction import Reduction, reduce_gram, reduce_rows
from ._small import one_thread_for
from ._validate import (
    Method,
    Options,
    Rounding,
    checked_matrix,
    checked_options,
    checked_positive,
    checked_radii,
    checked_unit,
    normalised,
)

_EPS = float(np.finfo(np.float64).eps)
_ITERATIONS = 100


class RefinementWarning(UserWarning):
    """The certificate is valid, but its gap is larger than the tolerance asked for."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is known about a refined subspace V; distances are in units of ``radii`` where those were given.

    Attributes
    ----------
    distances : array of shape (n,)
        Distance of every feature to V.
    sdp_value : float
        Square root of the best feasible value t of the relaxed program (paper, eq. 2.2), an upper bound on its optimum.
    lower_bound : float
        No subspace of dimension k is nearer than this to all features. Proved by ``weights``, and lowered by all that
        rounding errors could have added.
    gap : float
        (sdp_value^2 - lower_bound^2) / max |w_i|^2.
    iterations : int
        Interior-point iterations spent.
    weights : array of shape (n,)
        The dual certificate, on the simplex: lower_bound^2 is the sum of all but the k largest squared singular values
        of diag(sqrt(weights)) @ W, less the rounding allowance. Anyone can check it without trusting the solver.
    """

    distances: Array
    sdp_value: float
    lower_bound: float
    gap: float
    iterations: int
    weights: Array

    @property
    def max_distance(self) -> float:
        """The largest distance of a feature to V."""
        return float(self.distances.max())


@dataclass(frozen=True, eq=False)
class Refinement(Certificate):
    """A small subspace near all features, and its certificate (see `Certificate` for the other fields).

    Attributes
    ----------
    basis : array of shape (d, q)
        Orthonormal columns that span the subspace.
    """

    basis: Array

    @property
    def dimension(self) -> int:
        """The dimension q of the subspace."""
        return int(self.basis.shape[1])


@dataclass(frozen=True, eq=False)
class GramRefinement(Certificate):
    """A `Refinement` known through inner products only.

    Attributes
    ----------
    combination : array of shape (n, q)
        The orthonormal basis of the subspace as combinations of the features: column j is sum_i combination[i, j] w_i,
        so combination.T @ G @ combination is the identity.
    """

    combination: Array

    @property
    def dimension(self) -> int:
        """The dimension q of the subspace."""
        return int(self.combination.shape[1])


@dataclass(frozen=True, eq=False)
class DimensionBounds:
    """Both sides of the paper's problem (2.1): the least dimension of a subspace within ``radius`` of all features.

    Attributes
    ----------
    lower : int
        No smaller subspace is within the radius (proved by a dual bound).
    upper : int
        The dimension of ``basis``, which is within the radius.
    basis : array of shape (d, upper)
        Orthonormal columns.
    max_distance : float
        The largest distance of a feature to the span of ``basis``.
    """

    lower: int
    upper: int
    basis: Array
    max_distance: float


def refine(
    W: ArrayLike,
    k: int,
    method: Method = "sdp",
    rounding: Rounding = "certified",
    tol: float = 1e-8,
    *,
    dimension: int | None = None,
    radius: float | None = None,
    radii: ArrayLike | None = None,
    max_iterations: int = _ITERATIONS,
) -> Refinement:
    """Find a small subspace near all features (representation refinement, paper Section 2.2, Algorithm 3).

    Minimises over subspaces V of dimension about k the largest distance of a feature to V, through the semidefinite
    relaxation (2.2), and proves how good the answer is.

    Parameters
    ----------
    W : array of shape (n, d)
        One feature a row.
    k : int
        The dimension aimed at. At or above the rank of W the span itself is returned, with all distances zero.
    method : {"sdp", "svd"}
        "svd" is the plain alternative: the top k right singular vectors, best on average instead of at worst. Its
        certificate is the bound of uniform weights.
    rounding : {"certified", "extreme", "paper"}
        How the relaxed optimum becomes a subspace.

        * "certified": the fewest q >= k principal directions of the relaxed optimum (or of an extreme point) whose
          largest distance is within sqrt(2) of the optimum for k, or of ``radius`` where that is larger. Never more
          than 2k - 1.
        * "extreme": an extreme point of the program, q <= k + floor(sqrt(2n + 1/4) - 3/2), with the distance of the
          relaxed optimum itself, which is at most the optimum for k.
        * "paper": Theorem 5, q = 2k - 1 (within sqrt 2 of the optimum for k), or any ``dimension`` q >= k (within
          sqrt((q + 1) / (q - k + 1))).
    tol : float
        The gap to reach. Where the optimum is tiny the solver goes on to a relative gap of 1e-6.
    dimension : int, optional
        q for rounding="paper".
    radius : float, optional
        For rounding="certified": a distance that is good enough (the accuracy of the features, say).
    radii : array of shape (n,), optional
        Per-feature radii: distances are measured as d(w_i, V) / radii[i], for features that are known unequally well.
    max_iterations : int
        Limit on interior-point iterations. A certificate is valid even when this stops the solver early.

    Returns
    -------
    Refinement

    Examples
    --------
    Ten features near a plane in 50 dimensions:

    >>> import numpy as np
    >>> from everspan.refinement import refine
    >>> rng = np.random.default_rng(0)
    >>> W = rng.standard_normal((10, 2)) @ rng.standard_normal((2, 50)) + 0.01 * rng.standard_normal((10, 50))
    >>> plane = refine(W, k=2)
    >>> plane.dimension
    2
    >>> bool(plane.lower_bound <= plane.max_distance <= 2**0.5 * plane.sdp_value)
    True
    >>> plane.gap <= 1e-8
    True
    """
    options = checked_options(k, method, rounding, tol, dimension, radius, max_iterations)
    features = checked_matrix(W, "W")
    scale = checked_radii(radii, len(features))
    unit, rows = normalised(features, scale)
    lock, limit = one_thread_for(rows)
    with lock, limit:
        reduction = reduce_rows(rows)
        V, certificate = _refine_reduced(reduction, options, unit)
    return Refinement(**certificate, basis=reduction.lift @ V)


def refine_gram(
    G: ArrayLike,
    k: int,
    method: Method = "sdp",
    rounding: Rounding = "certified",
    tol: float = 1e-8,
    *,
    dimension: int | None = None,
    radius: float | None = None,
    radii: ArrayLike | None = None,
    max_iterations: int = _ITERATIONS,
) -> GramRefinement:
    """`refine` from the inner products G = W W' of the features alone: for functions and kernels.

    Half the digits of the features are lost in G: distances below about 1e-7 of the largest feature are noise, and the
    certificate allows for that. Parameters as for `refine`.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.refinement import refine_gram
    >>> W = np.array([[1.0, 0.0, 0.1], [0.0, 1.0, -0.1], [1.0, 1.0, 0.1]])
    >>> plane = refine_gram(W @ W.T, k=2)
    >>> plane.combination.shape, round(plane.max_distance, 3)
    ((3, 2), 0.033)
    """
    options = checked_options(k, method, rounding, tol, dimension, radius, max_iterations)
    gram = checked_matrix(G, "G")
    if gram.shape[0] != gram.shape[1]:
        raise ValueError(f"G must be a square matrix of inner products, but its shape is {gram.shape}")
    if not np.allclose(gram, gram.T, rtol=0.0, atol=1e-8 * float(np.abs(gram).max())):
        raise ValueError("G must be a symmetric matrix of inner products, but it is not symmetric")
    scale = checked_radii(radii, len(gram))
    peak, finest = float(np.abs(gram).max()) or 1.0, 1.0 if scale is None else float(scale.min())
    gram, unit = gram / peak, checked_unit(math.sqrt(peak), finest)
    if scale is not None:
        gram = gram / (scale / finest) / (scale / finest)[:, None]
    gram = 0.5 * gram + 0.5 * gram.T
    lock, limit = one_thread_for(gram)
    with lock, limit:
        reduction = reduce_gram(gram)
        V, certificate = _refine_reduced(reduction, options, unit)
    combination = reduction.lift @ V
    if combination.size:  # small eigenvalues of G are inaccurate: make the columns orthonormal under G itself
        combination = np.linalg.solve(np.linalg.cholesky(combination.T @ gram @ combination), combination.T).T
    combination = combination / math.sqrt(peak)
    if scale is not None:
        combination = combination / (scale / finest)[:, None]
    return GramRefinement(**certificate, combination=combination)


def smallest_dimension(W: ArrayLike, radius: float, *, tol: float = 1e-8) -> DimensionBounds:
    """Bound the least dimension of a subspace within ``radius`` of all features (the paper's problem 2.1).

    The problem itself is NP-hard. A dimension k is ruled out when the dual bound for k is above the radius; the upper
    bound is a subspace that was found.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.refinement import smallest_dimension
    >>> rng = np.random.default_rng(0)
    >>> W = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 40)) + 0.001 * rng.standard_normal((20, 40))
    >>> bounds = smallest_dimension(W, radius=0.02)
    >>> bounds.lower, bounds.upper
    (3, 3)
    """
    features = checked_matrix(W, "W")
    radius, tol = checked_positive(radius, "radius"), checked_positive(tol, "tol")
    unit, rows = normalised(features, None)
    lock, limit = one_thread_for(rows)
    with lock, limit:
        reduction = reduce_rows(rows, keep_all=True)
        lower, best = _smallest_reduced(reduction, radius / unit, tol)
    basis = reduction.lift @ best
    return DimensionBounds(lower, best.shape[1], basis, unit * float(_distances(rows, basis).max()))


def _smallest_reduced(reduction: Reduction, limit: float, tol: float) -> tuple[int, Array]:
    """The least dimension that no dual bound rules out, by bisection, and the smallest basis found within limit."""
    C = reduction.C
    n, r = C.shape
    plain = reduction.distances(np.eye(r))  # C is in principal coordinates: this is the SVD
    upper = _rounding.first_within(plain, 0, limit)
    best = np.eye(r)[:, :upper]
    uniform = np.full(n, 1.0 / n)
    if math.sqrt(reduction.largest) - reduction.slack <= limit:  # nothing is proved to be needed
        return 0, best
    low = next((k for k in range(1, upper) if lower_bound(reduction, uniform, k) <= limit), upper)
    high, tried = upper, upper
    while low < high or (low < upper and tried != low):
        k = tried = (low + high) // 2
        point = _working_set.solve(C, k, tol=tol, max_iterations=_ITERATIONS)
        for basis in (_rounding.by_eigenvalue(point.Y), _rounding.extreme(C, point.Y, k)[0]):
            q = _rounding.first_within(reduction.distances(basis), k, limit)
            if q < upper:
                upper, best = q, basis[:, :q]
        if lower_bound(reduction, point.weights, k) > limit:
            low = k + 1
        else:
            high = k
    return low, best


def _refine_reduced(reduction: Reduction, options: Options, unit: float) -> tuple[Array, dict[str, Any]]:
    """An orthonormal basis in the reduced coordinates, and the certificate's fields in the caller's units."""
    C, k = reduction.C, options.k
    n, r = C.shape
    equal = np.full(n, 1.0 / n)
    if k >= r:
        value = float(reduction.outside.max())
        return np.eye(r), _certificate_fields(reduction, reduction.outside, value, 0.0, unit, 0, equal)
    if options.method == "svd":
        distances = reduction.distances(np.eye(r))[:, k]
        value = float(distances.max())
        bound = min(lower_bound(reduction, equal, k), value)
        return np.eye(r)[:, :k], _certificate_fields(reduction, distances, value, bound, unit, 0, equal)
    tol = 0.9 * options.tol  # the rest is for rounding
    point = _working_set.solve(C, k, tol=tol, max_iterations=options.max_iterations)
    value, basis, distances = _rounded(reduction, point.Y, options, unit)
    weights, bound = point.weights, lower_bound(reduction, point.weights, k)
    if value**2 - bound**2 > options.tol * reduction.largest:  # the solver was stopped; equal weights may prove more
        weights, bound = max((weights, bound), (equal, lower_bound(reduction, equal, k)), key=lambda pair: pair[1])
    fields = _certificate_fields(reduction, distances, value, min(bound, value), unit, point.iterations, weights)
    if fields["gap"] > options.tol:
        seen = f"{fields['gap']:.1e}, not {options.tol:.1e}"
        warnings.warn(
            f"refinement stopped at a gap of {seen}; its certificate is valid", RefinementWarning, stacklevel=3
        )
    return basis, fields


def _rounded(reduction: Reduction, Y: Array, options: Options, unit: float) -> tuple[float, Array, Array]:
    """The value of the relaxed optimum, the basis that the rounding makes of it, and the distances to that."""
    C, k, r = reduction.C, options.k, reduction.C.shape[1]
    basis = _rounding.by_eigenvalue(Y)
    distances = reduction.distances(basis)
    value = primal_value(reduction, Y, float(distances[:, k].max()))
    if options.rounding == "paper":
        q = min(2 * k - 1 if options.dimension is None else options.dimension, r)
    elif options.rounding == "extreme":
        basis, q = _rounding.extreme(C, Y, k)
        distances = reduction.distances(basis)
    else:
        floor = 8.0 * _EPS * math.sqrt(reduction.largest)
        limit = math.sqrt(2.0) * max(value, (options.radius or 0.0) / unit) * (1.0 + 1e-9) + floor
        q = _rounding.first_within(distances, k, limit)
        if q > k:  # symmetric features leave the eigenvectors of Y open; an extreme point settles them better
            other = _rounding.extreme(C, Y, k)[0]
            others = reduction.distances(other)
            fewer = _rounding.first_within(others, k, limit)
            if fewer < q:
                basis, distances, q = other, others, fewer
    return value, basis[:, :q], distances[:, q]


def _certificate_fields(
    reduction: Reduction, distances: Array, value: float, bound: float, unit: float, iterations: int, weights: Array
) -> dict[str, Any]:
    return {
        "distances": unit * distances,
        "sdp_value": unit * value,
        "lower_bound": unit * bound,
        "gap": (value**2 - bound**2) / (reduction.largest or 1.0),
        "iterations": iterations,
        "weights": weights,
    }


def _distances(rows: Array, basis: Array) -> Array:
    outside = rows - (rows @ basis) @ basis.T
    distances: Array = np.sqrt(np.einsum("ij,ij->i", outside, outside))
    return distances
