"""The rows of a task brought together, however they are scattered over a table that need not fit into memory.

Tasks that are next to each other in the order of their first appearance share a *part* that fits. A pass over the table
writes its rows to the file of their part, and the parts are read back one after another. There are as many passes as it
takes to have few files open. The files have no names where the system allows it: nothing is left when a process dies.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ._columns import Array
from ._files import MEMORY, TableError, TableFile
from ._scan import Scan, _labelled

_PARTS = 200  # files that are open at once, at most


@dataclass
class Grouped:
    """The tasks of a table, in order of first appearance.

    Attributes
    ----------
    memory : int
        Bytes that the rows at hand may take. A quarter of them is for the numbers of a part, the rest for reading and
        for what the caller holds. A task that is larger than a part is a part of its own.
    folder : path, optional
        Where the files of the parts are.
    """

    table: TableFile
    scan: Scan
    memory: int = MEMORY
    folder: Path | None = None

    def __iter__(self) -> Iterator[tuple[str, Array, NDArray[Any]]]:
        """Name, rows as numbers, and labels of every task."""
        names, parts = list(self.scan.ranks), self._parts()
        if not names:
            return
        if parts[-1] == 0:
            yield from self._tasks(self._kept_rows(), names, 0, len(names))
            return
        try:
            for first in range(0, int(parts[-1]) + 1, _PARTS):
                last = min(first + _PARTS, int(parts[-1]) + 1)
                with ExitStack() as stack:
                    files: list[IO[bytes]] = [
                        stack.enter_context(tempfile.TemporaryFile(dir=self.folder)) for _ in range(first, last)
                    ]
                    self._write(files, parts - first)
                    for part, file in enumerate(files, first):
                        start, end = np.searchsorted(parts, [part, part + 1]).tolist()
                        yield from self._tasks(_read(file), names, start, end)
                        file.close()
        except OSError as error:
            raise TableError(f"{self.table.path}: its rows cannot be sorted by task on disk: {error}") from error

    def _parts(self) -> NDArray[np.intp]:
        """The part of every task."""
        most = max(1, self.memory // 4 // self._row_bytes)
        before = np.concatenate([[0], np.cumsum(self.scan.counts)[:-1]])
        _, parts = np.unique(before // most, return_inverse=True)
        return parts.astype(np.intp)

    @property
    def _row_bytes(self) -> int:
        """What a row takes as numbers, with its label, its task and its place."""
        return 8 * (sum(column.width for column in self.scan.preparation.columns) + 3) + 2 * self.scan.label_bytes

    def _kept_rows(self) -> Iterator[Any]:
        import pyarrow.compute as pc

        known = self.scan.preparation
        columns = [*(column.name for column in known.columns), known.target_column, known.task_column]
        table = replace(self.table, memory=min(self.memory, self.table.memory))
        for batch in table.batches(
            columns, task=known.task_column, target=known.target_column, row_bytes=self._row_bytes
        ):
            labelled = _labelled(batch.column(known.target_column))
            yield batch.filter(pc.and_(batch.column(known.task_column).is_valid(), labelled))

    def _write(self, files: list[IO[bytes]], parts: NDArray[np.intp]) -> None:
        """Write rows to the files of their parts; those of other parts are left for another pass."""
        import pyarrow as pa

        begun: set[int] = set()
        for batch in map(self.scan.preparation.compact, self._kept_rows()):
            own = parts[self._rank(batch)]
            order = np.argsort(own, kind="stable")
            starts = np.searchsorted(own[order], np.arange(len(files) + 1))
            for part in np.flatnonzero(np.diff(starts)).tolist():
                rows = batch.take(pa.array(order[starts[part] : starts[part + 1]]))
                if part not in begun:
                    files[part].write(rows.schema.serialize())
                    begun.add(part)
                files[part].write(rows.serialize())

    def _rank(self, batch: Any) -> NDArray[np.intp]:
        """The ranks of rows' tasks."""
        encoded = batch.column(self.scan.preparation.task_column).dictionary_encode()
        try:
            ranks = [self.scan.ranks[name] for name in encoded.dictionary.to_pylist()]
        except KeyError as error:
            raise self._changed(f"task {error} is new") from error
        rows: NDArray[np.intp] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        return np.array(ranks, dtype=np.intp)[rows]

    def _changed(self, how: str) -> TableError:
        return TableError(f"{self.table.path}: changed while it was read: {how}")

    def _tasks(
        self, batches: Iterator[Any], names: list[str], first: int, last: int
    ) -> Iterator[tuple[str, Array, NDArray[Any]]]:
        """The tasks with these ranks, all of whose rows are in the batches. Each row is written where its task is."""
        known = self.scan.preparation
        starts = np.concatenate([[0], np.cumsum(self.scan.counts[first:last])]).astype(np.intp)
        X = np.empty((int(starts[-1]), sum(column.width for column in known.columns)))
        labels, places, filled = [], [], starts[:-1].copy()
        for batch in batches:
            rank = self._rank(batch) - first
            place = _next_places(rank, filled)
            if (filled > starts[1:]).any():
                raise self._changed("a task has more rows")
            X[place] = known.numbers(batch)
            labels.append(known.labels(batch.column(known.target_column)))
            places.append(place)
        if (filled != starts[1:]).any():
            raise self._changed("a task has fewer rows")
        y = np.concatenate(labels)[np.argsort(np.concatenate(places))]
        del labels, places
        for task in range(first, last):
            rows = slice(starts[task - first], starts[task - first + 1])
            alone = last - first == 1  # else a copy: whoever keeps a task must not keep its part
            yield names[task], X if alone else X[rows].copy(), y[rows].copy()


def _next_places(rank: NDArray[np.intp], filled: NDArray[np.intp]) -> NDArray[np.intp]:
    """Where the rows of these tasks go: behind those that are there. Counts them in ``filled``."""
    order = np.argsort(rank, kind="stable")
    ordered = rank[order]
    nth = np.arange(len(rank)) - np.searchsorted(ordered, ordered, side="left")  # among the rows of its task here
    place = np.empty(len(rank), dtype=np.intp)
    place[order] = filled[ordered] + nth
    np.add.at(filled, rank, 1)
    return place


def _read(file: IO[bytes]) -> Iterator[Any]:
    import pyarrow as pa

    file.seek(0)
    with pa.PythonFile(file, mode="r") as source, pa.ipc.open_stream(source) as stream:
        yield from stream
