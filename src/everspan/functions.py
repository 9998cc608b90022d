"""What all tasks share when features are not linear: functions made of ReLU units, refined through inner products.

A task that fails learns a small network of its own. What joins the representation is the network's *function*: single
units are not learned accurately, their sum is. Functions live in L2 of the rows, where refinement needs nothing but
their inner products (paper, Appendix C).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from .learners import NetworkFit, TwoLayer, activations
from .representation import KnownFeatures, Refiner, apparent_dimension, checked_basis
from .tasks import Array, Rows

REFERENCE = 4000  # rows that inner products are taken over
_LOST = 1e-6  # a function whose part outside the others is a smaller share of it adds nothing but rounding


@dataclass(frozen=True)
class ReLU:
    """Features that are networks of ReLU units, as ``representation=ReLU(...)``; "relu" is this with its defaults.

    Parameters
    ----------
    units : int, optional
        Units that a failing task learns; None: found out from its rows.
    most : int
        Units that it may go up to.
    biases : bool
        Whether units have a constant of their own.
    inner_products : {"sample", "gaussian"}
        Of functions: over rows that were seen (a few thousand, kept), or in closed form for standard Gaussian rows
        and units without biases.
    starts : int
        Random starts of a network.

    Examples
    --------
    >>> from everspan import LifelongClassifier
    >>> from everspan.functions import ReLU
    >>> model = LifelongClassifier(representation=ReLU(most=8))
    """

    units: int | None = None
    most: int = 12
    biases: bool = True
    inner_products: Literal["sample", "gaussian"] = "sample"
    starts: int = 2

    def __post_init__(self) -> None:
        for name in ("units", "most", "starts"):
            value = getattr(self, name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1
            if not whole and not (name == "units" and value is None):
                raise ValueError(f"{name} must be a whole number of at least 1, but it is {value!r}")
        if self.inner_products not in ("sample", "gaussian"):
            raise ValueError(f"inner_products must be 'sample' or 'gaussian', but they are {self.inner_products!r}")
        if self.inner_products == "gaussian" and self.biases:
            raise ValueError("inner products in closed form are those of units without biases: biases=False")

    def empty(self, origin: Array, centred: bool) -> FunctionRepresentation:
        """Nothing learned yet; ``centred`` functions are the same where they differ by a constant."""
        d = len(origin)
        none = np.zeros((0, 0))
        return FunctionRepresentation(
            self, centred, origin, np.zeros((0, d)), np.zeros(0), none, np.zeros(0), np.zeros(0), none
        )


def relu_products(weights: Array) -> tuple[Array, Array]:
    """E[relu(u . x) relu(v . x)] of all pairs of rows, and E[relu(u . x)], for standard Gaussian x.

    With t the angle between u and v, the first is |u| |v| (sin t + (pi - t) cos t) / (2 pi), the arc-cosine kernel of
    Cho and Saul (2009), and the second |u| / sqrt(2 pi).

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.functions import relu_products
    >>> products, means = relu_products(np.eye(2))
    >>> products.round(4), means.round(4)
    (array([[0.5   , 0.1592],
           [0.1592, 0.5   ]]), array([0.3989, 0.3989]))
    """
    lengths = np.linalg.norm(weights, axis=1)
    units = weights / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    cosines = np.clip(units @ units.T, -1.0, 1.0)
    angles = np.arccos(cosines)
    products = (np.sin(angles) + (np.pi - angles) * cosines) / (2.0 * np.pi) * np.outer(lengths, lengths)
    return np.asarray(products), np.asarray(lengths / np.sqrt(2.0 * np.pi))


@dataclass(frozen=True)
class Frugal:
    """A network's learner that takes units known before in the place of new ones where it can.

    New units are pruned one by one while known and remaining ones together make a function within ``tolerance`` of the
    one that was learned, as a share of its length, over the rows. It happens inside the fit, so whatever is said of the
    error is said of the function that is kept.
    """

    network: TwoLayer
    weights: Array
    biases: Array
    tolerance: float
    folds: ClassVar[int] = TwoLayer.folds

    def fit(self, rows: Rows) -> NetworkFit:
        fit, known = self.network.fit(rows), len(self.weights)
        sample = rows.part(_some(len(rows), REFERENCE))
        X, weight = sample.X, np.full(len(sample), 1.0) if sample.weight is None else sample.weight
        weight = weight / weight.sum()
        outputs = np.hstack([activations(X, self.weights, self.biases), activations(X, fit.weights, fit.biases)])
        means = weight @ outputs if self.network.fit_intercept else np.zeros(outputs.shape[1])
        centred = outputs - means
        gram = (centred * weight[:, None]).T @ centred
        function = np.concatenate([np.zeros(known), fit.coef])
        whole = float(function @ gram @ function)
        kept = list(range(len(function)))
        coef = function
        while len(kept) > known:
            fewer = {unit: [other for other in kept if other != unit] for unit in kept[known:]}
            found = {unit: _nearest(gram, function, left) for unit, left in fewer.items()}
            unit = min(found, key=lambda one: found[one][1])
            if found[unit][1] > self.tolerance**2 * whole:
                break
            kept, coef = fewer[unit], found[unit][0]
        own = [unit - known for unit in kept if unit >= known]
        chosen = [*range(known), *(known + unit for unit in own)]
        intercept = fit.intercept + float(means @ (function - coef))
        return NetworkFit(
            np.vstack([self.weights, fit.weights[own]]),
            np.append(self.biases, fit.biases[own]),
            coef[chosen],
            intercept,
            fit.noise,
            len(own),
        )


def _some(n: int, most: int) -> NDArray[np.intp]:
    """Positions of at most so many of n rows, from all over: rows may be sorted."""
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).astype(np.intp)


def _nearest(gram: Array, function: Array, kept: list[int]) -> tuple[Array, float]:
    """The combination of some units that is nearest to a function, and the square of its distance."""
    if not kept:
        return np.zeros(len(function)), float(function @ gram @ function)
    inner = gram[np.ix_(kept, kept)]
    ridge = 1e-7 * max(float(np.trace(inner)) / len(kept), 1e-300)  # units may be all but the same
    found = np.zeros(len(function))
    found[kept] = np.linalg.solve(inner + ridge * np.eye(len(kept)), gram[kept] @ function)
    rest = function - found
    return found, float(rest @ gram @ rest)


@dataclass(frozen=True, eq=False)
class FunctionRepresentation(KnownFeatures):
    """Functions of ReLU units: those that were learned, and a few combinations of them that stay near all.

    Nothing in it ever changes: growing and refining give a new one. Units only ever join, so that what was said in
    terms of the first so many of them stays as it was.

    Attributes
    ----------
    origin : array of shape (d,)
    weights, biases : array of shape (units, d), (units,)
        All units that were learned.
    features : array of shape (n, units)
        Every function learned directly, as a combination of units.
    errors, labels : array of shape (n,)
        How far each seems to be from the truth, as a share of its length, and from how many labels it was learned.
    basis : array of shape (units, r)
        The functions that tasks are tried on, orthonormal over the reference rows.
    reference : array of shape (rows, d)
        Rows that inner products are taken over.
    sources : array of shape (rows,)
        The growth that every reference row is from.
    blocks, ends, grown_at : tuple of int
        How many units there were after every growth, after each of ``features`` was learned, and at which growth.
    """

    kind: ReLU
    centred: bool
    origin: Array
    weights: Array
    biases: Array
    features: Array
    errors: Array
    labels: Array
    basis: Array
    reference: Array | None = None
    blocks: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    grown_at: tuple[int, ...] = ()
    sources: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    products: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def dimension(self) -> int:
        return int(self.basis.shape[1])

    @property
    def units(self) -> int:
        return len(self.weights)

    # Rows and what is said about them ---------------------------------------------------------------------------------

    def lift(self, X: Array) -> Array:
        """What all predictors are combinations of: the outputs of the units for centred rows.

        Units that joined together are computed together, always in the same way, so that the outputs of those that were
        there first are the same to the bit whatever joins later.
        """
        outputs = np.empty((len(X), self.units), order="F")
        for start, end in pairwise((0, *self.blocks)):
            outputs[:, start:end] = activations(X, self.weights[start:end], self.biases[start:end])
        return outputs

    def scores(self, lifted: Array, direction: Array) -> Array:
        """What a direction, of the first units or of all, makes of lifted rows."""
        scores: Array = lifted[:, : len(direction)].dot(direction)
        return scores

    def feature(self, index: int) -> Array:
        """A learned function as a combination of the units there were when it was learned."""
        own: Array = self.features[index, : self.ends[index]]
        return own

    def transform(self, X: Array) -> Array:
        """The features of centred rows."""
        Z: Array = self.lift(X).dot(self.basis)
        return Z

    def wider(self) -> bool:
        """Whether all units can say more than the functions tasks are tried on first."""
        return self.units > self.dimension > 0

    def learner(self, on_features: Any, regression: bool, radius: float) -> Frugal:
        """Who learns a task that the features at hand do not serve, to about this distance."""
        kind = self.kind
        network = TwoLayer(
            regression,
            kind.units,
            kind.most,
            kind.biases,
            self.centred,
            bool(getattr(on_features, "balanced", False)),
            kind.starts,
        )
        return Frugal(network, self.weights, self.biases, 0.5 * radius)

    # Directions: combinations of units --------------------------------------------------------------------------------

    def padded(self, direction: Array) -> Array:
        """A combination of the first units as one of all."""
        return np.concatenate([direction, np.zeros(self.units - len(direction))])

    def length(self, direction: Array) -> float:
        return float(np.sqrt(max(float(direction @ self.products @ direction), 0.0)))

    def scale(self, fit: Any) -> float:
        """What the newest feature must be multiplied with to be this fit."""
        return 1.0

    # Growing ----------------------------------------------------------------------------------------------------------

    def grown(self, fit: NetworkFit, error: float, labels: float, rows: Rows) -> FunctionRepresentation:
        """One learned function more; the basis grows by the part of it that is new."""
        new = fit.new
        reference, sources = self._with_rows(rows.X)
        wider = replace(
            self,
            weights=fit.weights,  # those known before, and the new ones
            biases=fit.biases,
            features=np.vstack([np.hstack([self.features, np.zeros((len(self.features), new))]), fit.coef]),
            errors=np.append(self.errors, error),
            labels=np.append(self.labels, labels),
            basis=np.vstack([self.basis, np.zeros((new, self.dimension))]),
            reference=reference,
            sources=sources,
            blocks=(*self.blocks, len(fit.weights)),
            ends=(*self.ends, len(fit.weights)),
            grown_at=(*self.grown_at, len(self.blocks)),
        )
        return wider._measured()._with_direction(wider.features[-1])

    def _with_rows(self, X: Array) -> tuple[Array | None, NDArray[np.intp]]:
        """The reference with rows of one growth more, as many of each, and the growth that every row is from."""
        if self.kind.inner_products == "gaussian":
            return None, self.sources
        known = np.zeros((0, X.shape[1])) if self.reference is None else self.reference
        growths = [np.flatnonzero(self.sources == source) for source in np.unique(self.sources)]
        most = REFERENCE // (len(growths) + 1)
        kept = np.concatenate([np.zeros(0, np.intp), *(places[_some(len(places), most)] for places in growths)])
        new = _some(len(X), most)
        return np.vstack([known[kept], X[new]]), np.append(self.sources[kept], np.full(len(new), len(self.blocks)))

    def _measured(self) -> FunctionRepresentation:
        """With the inner products of all units; the basis made orthonormal under them."""
        if self.kind.inner_products == "gaussian":
            products, means = relu_products(self.weights)
            if self.centred:
                products = products - np.outer(means, means)
        else:
            assert self.reference is not None
            outputs = self.lift(self.reference)
            if self.centred:
                outputs = outputs - outputs.mean(axis=0)
            products = outputs.T @ outputs / max(len(outputs), 1)
        measured = replace(self, products=products)
        return replace(measured, basis=measured._orthonormal(self.basis))

    def _orthonormal(self, basis: Array) -> Array:
        """The same span, its columns orthonormal under the inner products; what is no function by itself goes."""
        gram = basis.T @ self.products @ basis
        lengths = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
        kept = lengths > 0.0
        if not kept.any():
            return np.zeros((self.units, 0))
        scaled = basis[:, kept] / lengths[kept]
        values, vectors = np.linalg.eigh(scaled.T @ self.products @ scaled)
        apart = values > _LOST**2
        return np.asarray(scaled @ (vectors[:, apart] / np.sqrt(values[apart]))[:, ::-1])

    def _with_direction(self, direction: Array) -> FunctionRepresentation:
        """The basis with the part of a function that is outside it, of length one, where there is any."""
        whole, new = self.length(direction), direction
        for _ in range(2):  # once more for what rounding left
            new = new - self.basis @ (self.basis.T @ (self.products @ new))
        left = self.length(new)
        if left <= _LOST * whole or left == 0.0:
            return self
        return replace(self, basis=np.column_stack([self.basis, new / left]))

    def spread(self) -> Array:
        """The root mean square of the columns around the origin, over the rows that are kept; zero if none are."""
        if self.reference is None or not len(self.reference):
            return np.zeros(len(self.origin))
        return np.asarray(np.sqrt(np.square(self.reference).mean(axis=0)))

    def moved(self, origin: Array) -> FunctionRepresentation:
        """The same functions around another origin: biases take up the difference. Units without biases stay."""
        if not self.kind.biases:
            return self
        shift = origin - self.origin
        reference = None if self.reference is None else self.reference - shift
        return replace(self, origin=origin, biases=self.biases + self.weights.dot(shift), reference=reference)

    def without_feature(self, index: int) -> FunctionRepresentation:
        """One learned function less, and its rows; the basis is the span of the others. Its units stay: others may
        stand on them.
        """
        others = self.sources != self.grown_at[index]
        fewer = replace(
            self,
            reference=None if self.reference is None else self.reference[others],
            sources=self.sources[others] if self.reference is not None else self.sources,
            grown_at=self.grown_at[:index] + self.grown_at[index + 1 :],
            features=np.delete(self.features, index, axis=0),
            errors=np.delete(self.errors, index),
            labels=np.delete(self.labels, index),
            ends=self.ends[:index] + self.ends[index + 1 :],
        )
        if fewer.reference is not None and len(fewer.reference):  # else the inner products stay as they were
            fewer = fewer._measured()
        return replace(fewer, basis=fewer._orthonormal(fewer.features.T))

    # Refining ---------------------------------------------------------------------------------------------------------

    def _scaled(self) -> Array:
        """All learned functions, of length one."""
        lengths = np.array([self.length(feature) for feature in self.features])
        return np.asarray(self.features / np.where(lengths > 0.0, lengths, 1.0)[:, None])

    def accurate(self, radius: float) -> bool:
        """Taken for granted: that the mean is better where they are not has been seen for directions alone."""
        return True

    def refined(self, refiner: Refiner, k: int, radius: float) -> tuple[FunctionRepresentation, Any]:
        """Algorithm 3 in function space: few combinations near all learned functions take the place of the basis."""
        functions = self._scaled()
        gram = functions @ self.products @ functions.T
        gram = 0.5 * (gram + gram.T)
        if hasattr(refiner, "gram"):
            result = refiner.gram(gram, k, self.radii(radius))
            combination = result.combination
        else:  # a refiner of the user's own sees the functions as vectors
            values, vectors = np.linalg.eigh(gram)
            kept = values > 1e-12 * max(float(values[-1]), 1e-300)
            vectors, roots = vectors[:, kept], np.sqrt(values[kept])
            result = refiner(vectors * roots, k, self.radii(radius))
            combination = (vectors / roots) @ checked_basis(result, len(roots))
        return replace(self, basis=self._orthonormal(functions.T @ combination)), result

    def apparent_dimension(self) -> int:
        """How many directions the learned functions share, by what their errors cannot explain."""
        functions = self._scaled() / (self.accuracies() + 1e-7)[:, None]
        gram = functions @ self.products @ functions.T
        values = np.sqrt(np.maximum(np.linalg.eigvalsh(0.5 * (gram + gram.T))[::-1], 0.0))
        return apparent_dimension(values, len(self.features), max(self.units, 1))
