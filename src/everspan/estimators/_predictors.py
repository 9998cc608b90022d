"""The predictors of all tasks, a few numbers each, and the representations they were fitted on."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..prior import Summary
from ..representation import Representation
from ..spread import Spread
from ..tasks import Array


class Kept(NamedTuple):
    """One predictor: what it stands on (see `Predictors`), its weights, how well it did, and its rows in short."""

    version: int
    feature: int
    """The feature learned from the same rows, or -1."""
    coefficients: Array
    intercept: float
    errors: tuple[float, float]
    """The reference and the plausible error."""
    summary: Array
    """The packed `everspan.prior.Summary` of its rows; empty where none is kept."""
    doubt: int
    """Where it may be read through the prior that is learned from all tasks, how much doubt there is about it: some
    (1), much (2), or so much that it was learned on the prior (3); its summary is then one of columns. Else 0."""
    foreseen: float
    """The correlation of its rows' labels with what the prior said before it saw them; nan where there was none."""

    def mirrored(self) -> Kept:
        """The predictor of the same rows with both sides exchanged."""
        summary = Summary(self.summary).mirrored().packed if len(self.summary) else self.summary
        return self._replace(coefficients=-self.coefficients, intercept=-self.intercept, summary=summary)


NO_SUMMARY: Array = np.zeros(0)
UPDATED = -3  # the version of a predictor of a task that grew and has seen more rows since


class Predictors:
    """Linear predictors as coefficients on the version of the representation they were fitted on.

    A predictor never changes. Where old tasks are re-projected, that happens when a predictor is read: its direction
    is projected onto the current basis, always from where it was first. So growing costs nothing for old tasks, moves
    never add up, and a predictor whose move would be too far is simply read as it was.

    A direct predictor (of a task that grew) stands on its own learned feature: its version is -1. One on all units of a
    nonlinear representation, or on all columns, stands on none: its version is -2, its coefficients are the direction
    itself. So are those of a direct one once it has seen more rows (-3, ``UPDATED``). What `update` puts in the place
    of a predictor is kept beside the columns of numbers.
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
        self._summaries = array("d")
        self._summary_ends = array("q")
        self._doubts = array("b")
        self._foreseen = array("d")
        self._updates: dict[int, Kept] = {}
        self._replaced: list[tuple[int, Kept | None]] = []  # what `update` replaced since the last mark
        self._task_ends = array("q")  # a task has one predictor, or one for each of its classes
        self._means: dict[int, Array] = {}  # of tasks whose rows lie elsewhere than the first task's

    def end_task(self, mean: Array | None = None) -> None:
        """The predictors added since the last call are those of one task, whose rows have this mean if not zero."""
        if mean is not None:
            self._means.update(dict.fromkeys(range(self._task_ends[-1] if self._task_ends else 0, len(self)), mean))
        self._task_ends.append(len(self))

    def note_mean(self, position: int, mean: Array) -> None:
        """Rows of the task at this position have this mean, which is not zero."""
        self._means.update(dict.fromkeys(self.of_task(position), mean))

    def of_task(self, position: int) -> range:
        """The predictors of the task at this position of the stream."""
        return range(self._task_ends[position - 1] if position else 0, self._task_ends[position])

    def task_of(self, index: int) -> int:
        """The position of the task that a predictor is one of."""
        return bisect_right(self._task_ends, index)

    def __len__(self) -> int:
        return len(self._versions)

    @property
    def nbytes(self) -> int:
        """Bytes of all predictors, bases aside."""
        columns: list[array[Any]] = [self._coefficients, self._ends, self._versions, self._features, self._intercepts]
        columns += [self._errors, self._summaries, self._summary_ends, self._doubts, self._foreseen, self._task_ends]
        arrays = [
            *self._means.values(),
            *(a for kept in self._updates.values() for a in (kept.coefficients, kept.summary)),
        ]
        return sum(a.nbytes for a in arrays) + sum(column.itemsize * len(column) for column in columns)

    @property
    def summary_bytes(self) -> int:
        """Bytes of the summaries of rows that predictors were learned from."""
        return self._summaries.itemsize * len(self._summaries)

    def new_version(self, basis: Array) -> None:
        """Make this the basis that the next predictors stand on; forget versions that nothing stands on."""
        for version, old in enumerate(self.bases):
            if not self._used[version]:
                self.bases[version] = None
            elif old is not None and old.shape[1] < basis.shape[1] and np.array_equal(old, basis[:, : old.shape[1]]):
                self.bases[version] = basis[:, : old.shape[1]]  # one that only grew shares its memory with the new
        self.bases.append(basis)
        self._used.append(0)

    @property
    def version(self) -> int:
        """The newest version."""
        return len(self.bases) - 1

    def add(self, kept: Kept) -> None:
        """One more predictor."""
        if kept.version >= 0:
            self._used[kept.version] += 1
        self._coefficients.extend(kept.coefficients.tolist())
        self._ends.append(len(self._coefficients))
        self._versions.append(kept.version)
        self._features.append(kept.feature)
        self._intercepts.append(kept.intercept)
        self._errors.extend(kept.errors)
        self._summaries.extend(kept.summary.tolist())
        self._summary_ends.append(len(self._summaries))
        self._doubts.append(kept.doubt)
        self._foreseen.append(kept.foreseen)

    def add_tasks(self, coefficients: Array, intercepts: Array, errors: Array, summaries: Array) -> None:
        """Tasks with one predictor each on the newest version, one a row of these arrays, and no doubt about them."""
        count, width = coefficients.shape
        self._used[-1] += count
        self._ends.extend(len(self._coefficients) + width * place for place in range(1, count + 1))
        self._coefficients.frombytes(np.ascontiguousarray(coefficients).tobytes())
        size = summaries.shape[1]
        self._summary_ends.extend(len(self._summaries) + size * place for place in range(1, count + 1))
        self._summaries.frombytes(np.ascontiguousarray(summaries).tobytes())
        self._versions.extend([self.version] * count)
        self._features.extend([-1] * count)
        self._intercepts.frombytes(np.ascontiguousarray(intercepts).tobytes())
        self._errors.frombytes(np.ascontiguousarray(errors).tobytes())
        self._doubts.extend([0] * count)
        self._foreseen.extend([float("nan")] * count)
        self._task_ends.extend(range(len(self) - count + 1, len(self) + 1))

    def at(self, index: int) -> Kept:
        """A predictor as it is kept."""
        return self._updates.get(index) or self._first(index)

    def _first(self, index: int) -> Kept:
        return Kept(
            self._versions[index],
            self._features[index],
            _part(self._coefficients, self._ends, index),
            self._intercepts[index],
            (self._errors[2 * index], self._errors[2 * index + 1]),
            _part(self._summaries, self._summary_ends, index),
            self._doubts[index],
            self._foreseen[index],
        )

    def update(self, index: int, kept: Kept) -> None:
        """Put another predictor in the place of one."""
        self._replaced.append((index, self._updates.get(index)))
        self._put(index, kept)

    def _put(self, index: int, kept: Kept | None) -> None:
        old = self.at(index)
        if kept is None:
            self._updates.pop(index, None)
        else:
            self._updates[index] = kept
        for version, change in ((old.version, -1), (self.at(index).version, 1)):
            if version >= 0:
                self._used[version] += change

    def doubtful(self, least: int) -> list[Array]:
        """The summaries of all predictors about which there is so much doubt."""
        some = [index for index in range(len(self)) if self._doubts[index] or index in self._updates]
        return [kept.summary for kept in map(self.at, some) if kept.doubt >= least]

    def foreseen(self) -> Array:
        """How well the prior foresaw each task, where there was one to ask."""
        found: Array = np.array(self._foreseen)
        for index, kept in self._updates.items():
            found[index] = kept.foreseen
        return found[~np.isnan(found)]

    def basis(self, version: int) -> Array:
        """That of a version, laid out in memory as it is when it comes from a file: sums are the same to the bit."""
        basis = self.bases[version]
        assert basis is not None
        return np.ascontiguousarray(basis)

    def mark(self) -> tuple[int, int, list[Array | None]]:
        """Where `truncate` can come back to."""
        self._replaced = []
        return len(self), len(self._task_ends), list(self.bases)

    def truncate(self, length: int, tasks: int, bases: list[Array | None]) -> None:
        """Back to an earlier state, by its `mark`."""
        for index, before in reversed(self._replaced):
            self._put(index, before)
        self._replaced = []
        for version in self._versions[length:]:
            if version >= 0:
                self._used[version] -= 1
        for index in [index for index in self._means if index >= length]:
            del self._means[index]
        end, summary_end = (ends[length - 1] if length else 0 for ends in (self._ends, self._summary_ends))
        del self._coefficients[end:], self._ends[length:], self._versions[length:], self._features[length:]
        del self._summaries[summary_end:], self._summary_ends[length:], self._doubts[length:], self._foreseen[length:]
        del self._intercepts[length:], self._errors[2 * length :]
        del self._task_ends[tasks:], self._used[len(bases) :]
        self.bases = bases

    def without(self, position: int) -> tuple[Predictors, list[int]]:
        """The predictors of all tasks but the one at this position, and the learned features that leave with it."""
        lost = [kept.feature for kept in map(self.at, self.of_task(position)) if kept.feature >= 0]
        kept = Predictors()
        kept.bases, kept._used = list(self.bases), [0] * len(self.bases)
        for other in range(len(self._task_ends)):
            if other == position:
                continue
            for index in self.of_task(other):
                own = self.at(index)
                kept.add(own._replace(feature=own.feature - sum(gone < own.feature for gone in lost)))
            kept.end_task(self._means.get(self.of_task(other).start))
        kept.bases = [basis if used else None for basis, used in zip(kept.bases, kept._used, strict=True)]
        return kept, lost

    def on_newest(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.bool_], Array, Array]:
        """Of tasks: which have one predictor on the newest version and no doubt, those ones' weights and constants."""
        ends = np.array(self._task_ends, dtype=np.intp)
        if not len(ends):
            return np.zeros(len(positions), dtype=bool), np.zeros((0, 0)), np.zeros(0)
        last, first = ends[positions] - 1, np.where(positions > 0, ends[np.maximum(positions - 1, 0)], 0)
        plain = (last == first) & (positions >= 0)
        versions, doubts = np.array(self._versions), np.array(self._doubts)
        plain &= (versions[last] == self.version) & (doubts[last] == 0)
        if self._updates:
            plain &= ~np.isin(last, np.fromiter(self._updates, dtype=np.intp, count=len(self._updates)))
        chosen, newest = last[plain], self.bases[-1]
        assert newest is not None
        width = newest.shape[1]
        starts = np.array(self._ends)[chosen] - width
        coefficients = np.array(self._coefficients)[starts[:, None] + np.arange(width)]
        return plain, coefficients, np.array(self._intercepts)[chosen]

    def original(self, index: int, representation: Representation) -> Array:
        """The direction that was learned for the task."""
        own = self.at(index)
        if own.version == -1:
            direction: Array = own.coefficients[0] * representation.feature(own.feature)
            return direction
        if own.version in (-2, UPDATED):
            return own.coefficients
        lifted: Array = self.basis(own.version).dot(own.coefficients)
        return lifted

    def read(
        self, index: int, representation: Representation, spread: Spread | None, epsilon: float, proved: bool
    ) -> tuple[Array, float]:
        """The direction and the intercept of a task's predictor as it is now.

        With a ``spread`` it is moved onto the current basis in two cases. Either Assumption 1 keeps it within epsilon
        there, by its reference: the error it was measured to have, or a bound on it (``proved``). Or its error may well
        come from not lying in the basis: were the truth there, a direction this far off would have to err that much,
        and it plausibly does. A proof of epsilon is never given up for plausibility. One that has seen rows of its own
        since is moved in the second case alone.
        """
        own, direction = self.at(index), self.original(index, representation)
        intercept = own.intercept
        if spread is None or not representation.dimension or own.version in (-2, self.version):
            return direction, intercept
        coordinates = representation.basis.T.dot(direction)
        length, left = float(np.linalg.norm(direction)), float(np.linalg.norm(coordinates))
        if length == 0.0 or left <= 1e-9 * length:
            return direction, intercept
        reference, plausible = own.errors
        cosine = left / length
        keeps = own.version != UPDATED and spread.after_move(reference, cosine) <= epsilon
        gains = spread.implied(cosine) <= plausible and not (proved and reference <= epsilon)
        if not keeps and not gains:
            return direction, intercept
        projected = representation.basis.dot(coordinates)
        mean = self._means.get(index)
        if mean is not None:  # the mean score of the task's rows stays what it was
            intercept += float((direction - projected).dot(mean))
        return projected, intercept


def _part(values: array[float], ends: array[int], index: int) -> Array:
    start = ends[index - 1] if index else 0
    return np.frombuffer(values, dtype=np.float64)[start : ends[index]].copy() if len(values) else NO_SUMMARY
