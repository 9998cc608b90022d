"""What all tasks share: features learned one by one and refined into a small subspace.

Here they are directions in the input space; functions of ReLU units are in ``functions.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self

import numpy as np

from .learners import Fit, Learner
from .refinement import GramRefinement, Refinement, refine, refine_gram
from .tasks import Array, Rows

Refiner = Callable[[Array, int, Array], Any]
_LOST = 1e-10  # a feature whose part outside the representation is shorter adds nothing but rounding


class Representation(Protocol):
    """What the loop and the predictors ask of features: linear directions, or functions of units.

    A predictor is a *direction*: weights for what ``lift`` makes of a row. There is an inner product of directions, and
    the columns of ``basis`` are orthonormal under it.
    """

    @property
    def origin(self) -> Array: ...
    @property
    def features(self) -> Array: ...
    @property
    def errors(self) -> Array: ...
    @property
    def basis(self) -> Array: ...
    @property
    def dimension(self) -> int: ...

    def lift(self, X: Array) -> Array:
        """What directions weigh, for centred rows."""

    def scores(self, lifted: Array, direction: Array) -> Array:
        """What a direction makes of lifted rows."""

    def feature(self, index: int) -> Array:
        """A learned feature as a direction."""

    def transform(self, X: Array) -> Array:
        """The features of centred rows."""

    def wider(self) -> bool:
        """Whether tasks can be tried on more than the features, on all that ``lift`` makes."""

    def learner(self, on_features: Learner, regression: bool, radius: float) -> Any:
        """Who learns a task on its own."""

    def padded(self, direction: Array) -> Array:
        """A direction from when there was less to weigh, as one of now."""

    def length(self, direction: Array) -> float: ...

    def scale(self, fit: Any) -> float:
        """What the newest feature must be multiplied with to be this fit."""

    def grown(self, fit: Any, error: float, labels: float, rows: Rows) -> Self:
        """One learned feature more."""

    def without_feature(self, index: int) -> Self:
        """One learned feature less."""

    def moved(self, origin: Array) -> Self:
        """The same features around another origin, if they can be: else as they are."""

    def outclasses(self, error: float) -> bool:
        """Whether every feature is known at least twice as well as one with this error."""

    def radii(self, radius: float) -> Array:
        """How near the truth each feature is known to be, or need not be nearer."""

    def accurate(self, radius: float) -> bool:
        """Whether most features are known as well as the theorems ask."""

    def refined(self, refiner: Refiner, k: int, radius: float) -> tuple[Self, Any]:
        """A small subspace near all learned features takes the place of the basis."""

    def apparent_dimension(self) -> int:
        """How many directions the learned features share."""


class KnownFeatures:
    """How well features are known, by the errors they were measured to have and the labels they were learned from."""

    errors: Array
    labels: Array

    def accuracies(self) -> Array:
        """How far from the truth features typically are that were learned from about as many labels as each.

        The error of a single one is measured on too few rows to tell a feature that is good from one that was lucky.
        One that is far worse than its like is taken at its own word.
        """
        counts, place = np.unique(self.labels, return_inverse=True)
        alike = np.abs(np.subtract.outer(np.log2(counts), np.log2(self.labels))) <= 1.0
        typical = np.array([np.median(self.errors[row]) for row in alike])[place]
        accuracies: Array = np.where(self.errors > 3.0 * typical, self.errors, typical)
        return accuracies

    def outclasses(self, error: float) -> bool:
        """Whether every feature is known at least twice as well as one with this error."""
        return bool(len(self.errors)) and 2.0 * float(self.accuracies().max()) <= error

    def radii(self, radius: float) -> Array:
        """How near the truth each feature is known to be, or need not be nearer."""
        radii: Array = np.maximum(self.accuracies(), radius)
        return radii

    def accurate(self, radius: float) -> bool:
        """Whether most features are known as well as the theorems ask."""
        return float(np.median(self.accuracies())) <= radius


@dataclass(frozen=True, eq=False)
class LinearRepresentation(KnownFeatures):
    """The map x -> basis' (x - origin), and every feature that was learned on the way to it.

    Nothing in it ever changes: growing and refining give a new one, so that a call that fails leaves the old.

    Attributes
    ----------
    origin : array of shape (d,)
    features : array of shape (n, d)
        Every direction learned directly, of unit length, kept for ever as refinement's input.
    errors : array of shape (n,)
        How far each seems to be from the truth, as a distance.
    labels : array of shape (n,)
        From how many labels each was learned.
    basis : array of shape (d, r)
        Orthonormal columns.
    """

    origin: Array
    features: Array
    errors: Array
    labels: Array
    basis: Array

    @classmethod
    def empty(cls, origin: Array) -> LinearRepresentation:
        d = len(origin)
        return cls(origin, np.zeros((0, d)), np.zeros(0), np.zeros(0), np.zeros((d, 0)))

    @property
    def dimension(self) -> int:
        return int(self.basis.shape[1])

    def lift(self, X: Array) -> Array:
        """What directions weigh: the columns of centred rows."""
        return X

    def scores(self, lifted: Array, direction: Array) -> Array:
        """What a direction makes of rows."""
        scores: Array = lifted.dot(direction)
        return scores

    def feature(self, index: int) -> Array:
        """A learned feature."""
        own: Array = self.features[index]
        return own

    def transform(self, X: Array) -> Array:
        """The features of centred rows."""
        Z: Array = X.dot(self.basis)
        return Z

    def wider(self) -> bool:
        """Whether tasks are tried on more than the features: no, on all columns they are learned."""
        return False

    def learner(self, on_features: Learner, regression: bool, radius: float) -> Learner:
        """Who learns a task on its own: the same as on features."""
        return on_features

    def padded(self, direction: Array) -> Array:
        return direction

    def length(self, direction: Array) -> float:
        return float(np.linalg.norm(direction))

    def scale(self, fit: Fit) -> float:
        """What the newest feature must be multiplied with to be this fit."""
        return float(np.linalg.norm(fit.coef))

    def grown(self, fit: Fit, error: float, labels: float, rows: Rows) -> LinearRepresentation:
        """One learned feature more: the direction of a fit."""
        return self.with_feature(fit.coef, error, labels)

    def with_feature(self, direction: Array, error: float, labels: float) -> LinearRepresentation:
        """One learned feature more; the basis grows by the part of it that is new, and its first columns stay."""
        feature = direction / np.linalg.norm(direction)
        new = feature
        for _ in range(2):  # once more for what rounding left
            new = new - self.basis.dot(self.basis.T.dot(new))
        length = float(np.linalg.norm(new))
        basis = self.basis if length < _LOST else np.column_stack([self.basis, new / length])
        return replace(
            self,
            features=np.vstack([self.features, feature]),
            errors=np.append(self.errors, error),
            labels=np.append(self.labels, labels),
            basis=basis,
        )

    def moved(self, origin: Array) -> LinearRepresentation:
        """The same directions around another origin."""
        return replace(self, origin=origin)

    def without_feature(self, index: int) -> LinearRepresentation:
        """One learned feature less; the basis is the span of the others."""
        others = LinearRepresentation.empty(self.origin)
        for feature in np.delete(self.features, index, axis=0):
            others = others.with_feature(feature, 0.0, 1.0)
        return replace(
            self,
            features=np.delete(self.features, index, axis=0),  # as they were, to the bit
            errors=np.delete(self.errors, index),
            labels=np.delete(self.labels, index),
            basis=others.basis,
        )

    def replaced(self, index: int) -> LinearRepresentation:
        """The newest feature in the place of an older one; the basis is the span of those that are left."""
        left = self.without_feature(index)
        newest = len(left.features) - 1
        order = np.insert(np.arange(newest), index, newest)
        return replace(left, features=left.features[order], errors=left.errors[order], labels=left.labels[order])

    def refined(self, refiner: Refiner, k: int, radius: float) -> tuple[LinearRepresentation, Any]:
        """Algorithm 3: a small subspace near all learned features takes the place of the basis.

        Near is meant in units of how well each feature is known: one learned from too few labels must not draw the
        subspace away from those that are accurate. Where all are as accurate as the theorems ask, that is their radius.
        """
        result = refiner(self.features, k, self.radii(radius))
        return replace(self, basis=checked_basis(result, self.features.shape[1])), result

    def apparent_dimension(self) -> int:
        """How many directions the learned features share, by what the errors of the features cannot explain."""
        values = np.linalg.svd(self.features / (self.accuracies() + 1e-7)[:, None], compute_uv=False)
        return apparent_dimension(np.asarray(values, dtype=np.float64), *self.features.shape)


def checked_basis(result: Any, d: int) -> Array:
    """The basis that a refiner answered with, if it is one."""
    basis = np.asarray(getattr(result, "basis", result), dtype=np.float64)
    if basis.ndim != 2 or len(basis) != d or not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-6):
        raise ValueError(f"the refiner must return {d} rows and orthonormal columns, but the shape is {basis.shape}")
    return basis


def apparent_dimension(values: Array, n: int, d: int) -> int:
    """Of n features in d dimensions, measured in units of their errors, the singular values that noise cannot explain.

    Features are n rows of a matrix of rank k plus noise of row length one, and random such noise has singular values up
    to about 1 + sqrt(n / d). Of q directions kept, the n - q others must look like that: the least such q. (With few
    and inaccurate features nearly all are kept; the count becomes exact as they get more.)
    """
    q = len(values)
    while q > 1 and values[q - 1] < 1.05 * (1.0 + np.sqrt((n - q + 1) / d)):
        q -= 1
    return q


@dataclass(frozen=True)
class SubspaceRefiner:
    """`everspan.refine` with its method and rounding chosen.

    "auto" is the program of the paper where features are as accurate as its theorem asks: it stays near every one of
    them. Where most are not, what they are off by is chance more than anything else, and averages out in the subspace
    nearest to all of them in the mean, while the farthest of them would draw the other away.
    """

    method: Literal["auto", "sdp", "svd"] = "sdp"
    rounding: Literal["certified", "extreme", "paper"] = "certified"

    def suited(self, accurate: bool) -> SubspaceRefiner:
        """The one to take for features that are as accurate as the theorems ask, or are not."""
        if self.method != "auto":
            return self
        return replace(self, method="sdp" if accurate or self.rounding != "certified" else "svd")

    def __call__(self, W: Array, k: int, radii: Array) -> Refinement:
        method = self._plain()
        return refine(W, k, method=method, rounding=self.rounding, radius=self._good_enough(), radii=radii)

    def gram(self, G: Array, k: int, radii: Array) -> GramRefinement:
        """The same from inner products alone."""
        method = self._plain()
        return refine_gram(G, k, method=method, rounding=self.rounding, radius=self._good_enough(), radii=radii)

    def _plain(self) -> Literal["sdp", "svd"]:
        return "sdp" if self.method == "auto" else self.method  # nobody said that they are not accurate

    def _good_enough(self) -> float | None:
        return 1.0 if (self._plain(), self.rounding) == ("sdp", "certified") else None
