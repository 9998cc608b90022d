"""Synthetic tasks that share a few features, linear or ReLU units: the paper's Section 5.1, and more beside it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, overload

import numpy as np

from ..tasks import Array

Kind = Literal["classification", "regression"]


class NamedTask(NamedTuple):
    """A task's name, rows and labels."""

    name: str
    X: Array
    y: Array


@dataclass
class DrawnTask:
    """One task of a stream as a source of labels: ``draw(n)`` gives fresh rows every time."""

    columns: int
    truth: Callable[[Array], Array]
    kind: Kind
    noise: float
    rng: np.random.Generator
    drawn: int = 0

    def draw(self, n: int) -> tuple[Array, Array]:
        self.drawn += n
        X = self.rng.standard_normal((n, self.columns))
        scores = self.truth(X)
        if self.kind == "regression":
            return X, scores + self.noise * self.rng.standard_normal(n)
        flipped = self.rng.random(n) < self.noise
        return X, np.where((scores >= 0.0) != flipped, 1.0, -1.0)


class _Stream(Sequence[NamedTask], ABC):
    """Tasks whose rows are standard Gaussian; a task's rows do not depend on which others are looked at."""

    def __init__(self, d: int, k: int, tasks: int, rows: int, kind: Kind, noise: float, seed: int) -> None:
        if not 1 <= k <= d:
            raise ValueError(f"k must be between 1 and d, but k={k} and d={d}")
        self.columns, self.tasks, self.rows, self.kind, self.noise, self.seed = d, tasks, rows, kind, noise, seed

    @abstractmethod
    def truth(self, index: int, X: Array) -> Array:
        """What a task's labels are the signs of, or are without their noise."""

    def __len__(self) -> int:
        return self.tasks

    @overload
    def __getitem__(self, index: int) -> NamedTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[NamedTask]: ...
    def __getitem__(self, index: int | slice) -> NamedTask | list[NamedTask]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        return NamedTask(f"task {position}", *self._fresh(position, 1).draw(self.rows))

    def test(self, index: int, rows: int = 1000) -> NamedTask:
        """Other rows of the same task."""
        position = range(len(self))[index]
        return NamedTask(f"task {position}", *self._fresh(position, 2).draw(rows))

    def source(self, index: int) -> DrawnTask:
        """The task as a source of labels on demand."""
        return self._fresh(range(len(self))[index], 3)

    def _fresh(self, position: int, purpose: int) -> DrawnTask:
        rng = np.random.default_rng([self.seed, purpose, position])
        return DrawnTask(self.columns, partial(self.truth, position), self.kind, self.noise, rng)


class LinearStream(_Stream):
    """Tasks y = sign(a_i . x), or y = a_i . x, whose unit targets a_i lie in one subspace of k dimensions.

    Parameters
    ----------
    d, k : int
        Dimensions of the inputs and of the shared subspace.
    tasks : int
    rows : int
        Rows of a task.
    kind : {"classification", "regression"}
    noise : float
        Share of flipped labels, or standard deviation of the noise on the target.
    seed : int
        The same seed gives the same tasks; a task's rows do not depend on which others are looked at.

    Examples
    --------
    >>> from everspan.scenarios import LinearStream
    >>> stream = LinearStream(d=10, k=2, tasks=3, rows=50, seed=0)
    >>> name, X, y = stream[1]
    >>> name, X.shape, sorted(set(y.tolist()))
    ('task 1', (50, 10), [-1.0, 1.0])
    >>> stream.source(1).draw(5)[0].shape
    (5, 10)
    """

    def __init__(
        self,
        d: int = 100,
        k: int = 5,
        tasks: int = 100,
        rows: int = 200,
        *,
        kind: Kind = "classification",
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(d, k, tasks, rows, kind, noise, seed)
        rng = np.random.default_rng([seed, 0])
        shared, combinations = rng.standard_normal((k, d)), rng.standard_normal((tasks, k))  # W*, c*_i
        targets = combinations @ shared
        self.targets: Array = targets / np.linalg.norm(targets, axis=1, keepdims=True)
        self.subspace: Array = np.linalg.qr(shared.T)[0]

    def truth(self, index: int, X: Array) -> Array:
        scores: Array = X @ self.targets[index]
        return scores


class ReLUStream(_Stream):
    """Tasks y = sign(c_i . relu(W x) - b_i), or without the sign, that share k ReLU units.

    The constant b_i is the mean of c_i . relu(W x), so that neither label is rare.

    Parameters
    ----------
    d, k : int
        Dimensions of the inputs, and units.
    tasks : int
    rows : int
        Rows of a task.
    kind : {"classification", "regression"}
    noise : float
        Share of flipped labels, or standard deviation of the noise on the target.
    seed : int
        The same seed gives the same tasks; a task's rows do not depend on which others are looked at.

    Examples
    --------
    >>> from everspan.scenarios import ReLUStream
    >>> stream = ReLUStream(d=10, k=2, tasks=3, rows=50, seed=0)
    >>> stream[2].X.shape, stream.units.shape
    ((50, 10), (2, 10))
    """

    def __init__(
        self,
        d: int = 20,
        k: int = 5,
        tasks: int = 60,
        rows: int = 2000,
        *,
        kind: Kind = "classification",
        noise: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(d, k, tasks, rows, kind, noise, seed)
        rng = np.random.default_rng([seed, 0])
        units, combinations = rng.standard_normal((k, d)), rng.standard_normal((tasks, k))
        self.units: Array = units / np.linalg.norm(units, axis=1, keepdims=True)
        self.combinations: Array = combinations / np.linalg.norm(combinations, axis=1, keepdims=True)

    def truth(self, index: int, X: Array) -> Array:
        combination = self.combinations[index]
        scores: Array = np.maximum(X @ self.units.T, 0.0) @ combination - combination.sum() / math.sqrt(2.0 * math.pi)
        return scores
