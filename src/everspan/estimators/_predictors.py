"""The predictors of all tasks, a few numbers each, and the representations they were fitted on."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..representation import Representation
from ..spread import Spread
from ..tasks import Array


class Predictors:
    """Linear predictors as coefficients on the version of the representation they were fitted on.

    A predictor never changes. Where old tasks are re-projected, that happens when a predictor is read: its direction
    is projected onto the current basis, always from where it was first. So growing costs nothing for old tasks, moves
    never add up, and a predictor whose move would be too far is simply read as it was.

    A direct predictor (of a task that grew) stands on its own learned feature: its version is -1. One on all units of a
    nonlinear representation stands on none: its version is -2, its coefficients are the direction itself.
    """

    def __init__(self) -> None:
        self.bases: list[Array | None] = []
        self._used: list[int] = []  # predictors that stand on each version
        self._coefficients = array("d")
        self._ends = array("q")
        self._versions = array("q")
        self._features = array("q")  # the feature learned from the same rows, or -1
        self._intercepts = array("d")
        self._errors = array("d")  # in turn: the reference and the plausible error of each
        self._task_ends = array("q")  # a task has one predictor, or one for each of its classes
        self._means: dict[int, Array] = {}  # of tasks whose rows lie elsewhere than the first task's

    def end_task(self, mean: Array | None = None) -> None:
        """The predictors added since the last call are those of one task, whose rows have this mean if not zero."""
        if mean is not None:
            self._means.update(dict.fromkeys(range(self._task_ends[-1] if self._task_ends else 0, len(self)), mean))
        self._task_ends.append(len(self))

    def of_task(self, position: int) -> range:
        """The predictors of the task at this position of the stream."""
        return range(self._task_ends[position - 1] if position else 0, self._task_ends[position])

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def nbytes(self) -> int:
        """Bytes of all predictors, bases aside."""
        columns: list[array[Any]] = [self._coefficients, self._ends, self._versions, self._features, self._intercepts]
        means = sum(mean.nbytes for mean in self._means.values())
        return means + sum(column.itemsize * len(column) for column in (*columns, self._errors, self._task_ends))

    def new_version(self, basis: Array) -> None:
        """Make this the basis that the next predictors stand on; forget versions that nothing stands on."""
        if self.bases and not self._used[-1]:
            self.bases[-1] = None
        for version, old in enumerate(self.bases):  # a basis that only grew shares its memory with the new one
            if old is not None and old.shape[1] < basis.shape[1] and np.array_equal(old, basis[:, : old.shape[1]]):
                self.bases[version] = basis[:, : old.shape[1]]
        self.bases.append(basis)
        self._used.append(0)

    def add(
        self, coefficients: Array, intercept: float, reference: float, plausible: float, feature: int | None = None
    ) -> None:
        """A predictor on the newest version, whose error was ``reference``, and plausibly up to ``plausible``."""
        self._used[-1] += 1
        self._append(len(self.bases) - 1, feature, coefficients, intercept, (reference, plausible))

    def add_direct(self, feature: int, length: float, intercept: float, reference: float, plausible: float) -> None:
        """A predictor that is ``length`` times the learned feature."""
        self._append(-1, feature, np.array([length]), intercept, (reference, plausible))

    def add_whole(
        self, direction: Array, intercept: float, reference: float, plausible: float, feature: int | None = None
    ) -> None:
        """A predictor that weighs all units there are."""
        self._append(-2, feature, direction, intercept, (reference, plausible))

    def _append(
        self, version: int, feature: int | None, coefficients: Array, intercept: float, errors: Sequence[float]
    ) -> None:
        self._coefficients.extend(coefficients.tolist())
        self._ends.append(len(self._coefficients))
        self._versions.append(version)
        self._features.append(-1 if feature is None else feature)
        self._intercepts.append(intercept)
        self._errors.extend(errors)

    def mark(self) -> tuple[int, int, int, Array]:
        """Where `truncate` can come back to."""
        newest = self.bases[-1]
        assert newest is not None
        return len(self), len(self._task_ends), len(self.bases), newest

    def truncate(self, length: int, tasks: int, versions: int, basis: Array) -> None:
        """Back to an earlier state, by its `mark`."""
        for version in self._versions[length:]:
            if version >= 0:
                self._used[version] -= 1
        for index in [index for index in self._means if index >= length]:
            del self._means[index]
        end = self._ends[length - 1] if length else 0
        del self._coefficients[end:], self._ends[length:], self._versions[length:], self._features[length:]
        del self._intercepts[length:], self._errors[2 * length :]
        del self._task_ends[tasks:], self.bases[versions:], self._used[versions:]
        self.bases[-1] = basis

    def without(self, position: int) -> tuple[Predictors, list[int]]:
        """The predictors of all tasks but the one at this position, and the learned features that leave with it."""
        lost = [self._features[index] for index in self.of_task(position) if self._features[index] >= 0]
        kept = Predictors()
        kept.bases, kept._used = list(self.bases), [0] * len(self.bases)
        for other in range(len(self._task_ends)):
            if other == position:
                continue
            for index in self.of_task(other):
                version, feature = self._versions[index], self._features[index]
                if version >= 0:
                    kept._used[version] += 1
                feature -= sum(gone < feature for gone in lost)
                errors = self._errors[2 * index : 2 * index + 2]
                kept._append(version, feature, self._own(index), self._intercepts[index], errors)
            kept.end_task(self._means.get(self.of_task(other).start))
        kept.bases = [basis if used else None for basis, used in zip(kept.bases, kept._used, strict=True)]
        return kept, lost

    def _own(self, index: int) -> Array:
        start = self._ends[index - 1] if index else 0
        return np.frombuffer(self._coefficients, dtype=np.float64)[start : self._ends[index]].copy()

    def original(self, index: int, representation: Representation) -> Array:
        """The direction that was learned for the task."""
        version, own = self._versions[index], self._own(index)
        if version == -1:
            direction: Array = own[0] * representation.feature(self._features[index])
            return direction
        if version == -2:
            return own
        basis = self.bases[version]
        assert basis is not None
        lifted: Array = basis.dot(own)
        return lifted

    def read(
        self, index: int, representation: Representation, spread: Spread | None, epsilon: float, proved: bool
    ) -> tuple[Array, float]:
        """The direction and the intercept of a task's predictor as it is now.

        With a ``spread`` it is moved onto the current basis in two cases. Either Assumption 1 keeps it within epsilon
        there, by its reference: the error it was measured to have, or a bound on it (``proved``). Or its error may well
        come from not lying in the basis: were the truth there, a direction this far off would have to err that much,
        and it plausibly does. A proof of epsilon is never given up for plausibility.
        """
        direction, intercept = self.original(index, representation), self._intercepts[index]
        if spread is None or not representation.dimension:
            return direction, intercept
        coordinates = representation.basis.T.dot(direction)
        length, left = float(np.linalg.norm(direction)), float(np.linalg.norm(coordinates))
        if length == 0.0 or left <= 1e-9 * length:
            return direction, intercept
        reference, plausible = self._errors[2 * index : 2 * index + 2]
        cosine = left / length
        keeps = spread.after_move(reference, cosine) <= epsilon
        gains = spread.implied(cosine) <= plausible and not (proved and reference <= epsilon)
        if not keeps and not gains:
            return direction, intercept
        projected = representation.basis.dot(coordinates)
        mean = self._means.get(index)
        if mean is not None:  # the mean score of the task's rows stays what it was
            intercept += float((direction - projected).dot(mean))
        return projected, intercept
