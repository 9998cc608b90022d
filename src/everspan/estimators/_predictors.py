"""The predictors of all tasks, a few numbers each, and the representations they were fitted on."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..prior import Summary
from ..representation import Representation
from ..spread import Spread
from ..tasks import Array, Overlay


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
# Version and feature; intercept, reference and plausible error, foreseen; where its coefficients and its summary begin,
# how many numbers they have; doubt.
_ROW = Struct("<qqddddqqiib")
_ROWS = np.dtype(
    {
        "names": ["version", "feature", "intercept", "errors", "foreseen", "first", "sizes", "doubt"],
        "formats": ["<i8", "<i8", "<f8", ("<f8", 2), "<f8", ("<i8", 2), ("<i4", 2), "i1"],
    }
)
NO_ROOM = (
    "the fit of this task has weights that are not finite: its numbers are too large or too far apart; "
    "scale the columns (and the target) to about unit size"
)
UPDATED = -3  # the version of a predictor of a task that grew and has seen more rows since


class _Ends(NamedTuple):
    """How much of each shared column belongs to some predictors."""

    rows: int
    coefficients: int
    summaries: int
    tasks: int


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
        self._rows = bytearray()  # a _ROW a predictor
        self._coefficients = array("d")
        self._summaries = array("d")
        self._task_ends = array("q")  # a task has one predictor, or one for each of its classes
        self._ends = _Ends(0, 0, 0, 0)
        self._updates: Overlay[Kept] = Overlay()
        self._means: Overlay[Array] = Overlay()  # of tasks whose rows lie elsewhere than the origin

    def fork(self) -> Predictors:
        """Predictors that begin as these; these stay as they are while those grow and change."""
        fork = Predictors.__new__(Predictors)
        fork.__dict__.update(self.__dict__, bases=list(self.bases), _used=list(self._used))
        return fork

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle has: nothing of it is shared."""
        return self.fork()._on_columns_of_its_own().__dict__

    def _on_columns_of_its_own(self) -> Predictors:
        rows, coefficients, summaries, tasks = self._ends
        self._rows, self._coefficients = self._rows[: rows * _ROW.size], self._coefficients[:coefficients]
        self._summaries, self._task_ends = self._summaries[:summaries], self._task_ends[:tasks]
        return self

    def _claim(self) -> None:
        """Copy the shared columns if something follows these predictors: it belongs to another fork."""
        lengths = len(self._rows) // _ROW.size, len(self._coefficients), len(self._summaries), len(self._task_ends)
        if lengths != self._ends:
            self._on_columns_of_its_own()

    def end_task(self, mean: Array | None = None) -> None:
        """The predictors added since the last call are those of one task, whose rows have this mean if not zero."""
        self._claim()
        tasks = self._ends.tasks
        self._task_ends.append(len(self))
        self._ends = self._ends._replace(tasks=tasks + 1)
        if mean is not None:
            self.note_means({tasks: mean})

    def note_means(self, means: Mapping[int, Array]) -> None:
        """Rows of the tasks at these positions have these means, which are not zero."""
        own = {index: mean for position, mean in means.items() for index in self.of_task(position)}
        self._means = self._means.having(own)

    def of_task(self, position: int) -> range:
        """The predictors of the task at this position of the stream."""
        return range(self._task_ends[position - 1] if position else 0, self._task_ends[position])

    def mean(self, position: int) -> Array | None:
        """The mean of the rows of the task at this position, around the origin; None where it is zero."""
        own = self.of_task(position)
        mean: Array | None = self._means.get(own.start) if len(own) else None
        return mean

    def task_of(self, index: int) -> int:
        """The position of the task that a predictor is one of."""
        return bisect_right(self._task_ends, index, 0, self._ends.tasks)

    @property
    def tasks(self) -> int:
        """How many tasks have predictors."""
        return self._ends.tasks

    def __len__(self) -> int:
        return self._ends.rows

    @property
    def nbytes(self) -> int:
        """Bytes of all predictors, bases aside."""
        rows, coefficients, summaries, tasks = self._ends
        arrays = [a for kept in self._updates.values() for a in (kept.coefficients, kept.summary)]
        own = sum(a.nbytes for a in (*self._means.values(), *arrays))
        return own + _ROW.size * rows + 8 * (coefficients + summaries + tasks)

    @property
    def summary_bytes(self) -> int:
        """Bytes of the summaries of rows that predictors were learned from."""
        return 8 * self._ends.summaries

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
        check_finite(kept.coefficients, kept.intercept, kept.summary)
        self._claim()
        ends, weights, numbers = self._ends, len(kept.coefficients), len(kept.summary)
        row = kept.version, kept.feature, kept.intercept, *kept.errors, kept.foreseen
        self._coefficients.frombytes(np.ascontiguousarray(kept.coefficients, dtype=np.float64).tobytes())
        self._summaries.frombytes(np.ascontiguousarray(kept.summary, dtype=np.float64).tobytes())
        self._rows += _ROW.pack(*row, ends.coefficients, ends.summaries, weights, numbers, kept.doubt)
        if kept.version >= 0:
            self._used[kept.version] += 1
        self._ends = _Ends(ends.rows + 1, ends.coefficients + weights, ends.summaries + numbers, ends.tasks)

    def add_tasks(self, coefficients: Array, intercepts: Array, errors: Array, summaries: Array) -> None:
        """Tasks with one predictor each on the newest version, one a row of these arrays, and no doubt about them."""
        check_finite(coefficients, intercepts, summaries)
        self._claim()
        ends, (count, width), size = self._ends, coefficients.shape, summaries.shape[1]
        rows, order = np.zeros(count, dtype=_ROWS), np.arange(count)
        rows["version"], rows["feature"], rows["foreseen"] = self.version, -1, np.nan
        rows["intercept"], rows["errors"] = intercepts, errors
        rows["first"] = np.column_stack([ends.coefficients + width * order, ends.summaries + size * order])
        rows["sizes"] = width, size
        self._coefficients.frombytes(np.ascontiguousarray(coefficients).tobytes())
        self._summaries.frombytes(np.ascontiguousarray(summaries).tobytes())
        self._rows += rows.tobytes()
        self._task_ends.extend(range(ends.rows + 1, ends.rows + count + 1))
        self._used[-1] += count
        self._ends = _Ends(
            ends.rows + count, ends.coefficients + width * count, ends.summaries + size * count, ends.tasks + count
        )

    def at(self, index: int) -> Kept:
        """A predictor as it is kept."""
        updated: Kept | None = self._updates.get(index)
        if updated is not None:
            return updated
        version, feature, intercept, reference, plausible, foreseen, first, second, weights, numbers, doubt = (
            _ROW.unpack_from(self._rows, index * _ROW.size)
        )
        coefficients, summary = self._coefficients[first : first + weights], self._summaries[second : second + numbers]
        errors = reference, plausible
        return Kept(version, feature, _array(coefficients), intercept, errors, _array(summary), doubt, foreseen)

    def update(self, index: int, kept: Kept) -> None:
        """Put another predictor in the place of one."""
        check_finite(kept.coefficients, kept.intercept, kept.summary)
        for version, change in ((self.at(index).version, -1), (kept.version, 1)):
            if version >= 0:
                self._used[version] += change
        self._updates = self._updates.having({index: kept})

    def _table(self) -> NDArray[Any]:
        """The fixed numbers of all predictors as they were first; a copy, so that columns can grow meanwhile."""
        return np.frombuffer(self._rows[: len(self) * _ROW.size], dtype=_ROWS)

    def doubtful(self, least: int) -> list[Array]:
        """The summaries of all predictors about which there is at least this much doubt."""
        some = {*np.flatnonzero(self._table()["doubt"]).tolist(), *self._updates}
        return [kept.summary for kept in map(self.at, sorted(some)) if kept.doubt >= least]

    def foreseen(self) -> Array:
        """How well the prior foresaw each task, where there was one to ask."""
        found: Array = self._table()["foreseen"].copy()
        for index, kept in self._updates.items():
            found[index] = kept.foreseen
        return found[~np.isnan(found)]

    def basis(self, version: int) -> Array:
        """That of a version, laid out in memory as it is when it comes from a file: sums are the same to the bit."""
        basis = self.bases[version]
        assert basis is not None
        return np.ascontiguousarray(basis)

    def without(self, position: int) -> tuple[Predictors, list[int]]:
        """The predictors of all tasks but the one at this position, and the learned features that leave with it.

        Only the bases that a predictor stands on stay, and the newest.
        """
        lost = [kept.feature for kept in map(self.at, self.of_task(position)) if kept.feature >= 0]
        others = [place for place in range(self.tasks) if place != position]
        used = {self.at(index).version for place in others for index in self.of_task(place)} | {self.version}
        versions = sorted(version for version in used if version >= 0)
        renumbered = {version: place for place, version in enumerate(versions)}
        fewer = Predictors()
        fewer.bases, fewer._used = [self.bases[version] for version in versions], [0] * len(versions)
        for place in others:
            for index in self.of_task(place):
                own = self.at(index)
                feature = own.feature - sum(gone < own.feature for gone in lost)
                fewer.add(own._replace(feature=feature, version=renumbered.get(own.version, own.version)))
            fewer.end_task(self._means.get(self.of_task(place).start))
        return fewer, lost

    def on_newest(self, positions: NDArray[np.intp]) -> tuple[NDArray[np.bool_], Array, Array]:
        """Of tasks: which have one predictor on the newest version and no doubt, those ones' weights and constants."""
        ends = np.frombuffer(self._task_ends[: self.tasks], dtype=np.int64) if self.tasks else np.zeros(0, dtype=int)
        if not len(ends):
            return np.zeros(len(positions), dtype=bool), np.zeros((0, 0)), np.zeros(0)
        last, first = ends[positions] - 1, np.where(positions > 0, ends[np.maximum(positions - 1, 0)], 0)
        rows = self._table()[last]
        plain = (last == first) & (positions >= 0) & (rows["version"] == self.version) & (rows["doubt"] == 0)
        if self._updates:
            plain &= ~np.isin(last, np.fromiter(self._updates, dtype=np.intp, count=len(self._updates)))
        newest, rows = self.bases[-1], rows[plain]
        assert newest is not None
        places = rows["first"][:, :1] + np.arange(newest.shape[1])
        weights = self._coefficients[: self._ends.coefficients]
        return plain, _array(weights)[places] if places.size else np.zeros(places.shape), rows["intercept"].copy()

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


def _array(values: array[float]) -> Array:
    return np.frombuffer(values, dtype=np.float64) if values else NO_SUMMARY


def check_finite(*parts: Any) -> None:
    """Refuse a fit that numbers could not hold, before anything of it is kept."""
    if not all(np.isfinite(part).all() for part in parts):
        raise ValueError(NO_ROOM)
