"""The rows of a task brought together, however they are scattered over a table that need not fit into memory.

Tasks that are next to each other in the order of their first appearance share a *part* that fits. Rows are written to
the file of their part in one pass over the table, and parts are read back one after another.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import Array
from ._files import TableError, TableFile
from ._scan import Scan, _labelled

MEMORY = 1 << 28  # bytes that the rows of one part may take as numbers
_PARTS = 400  # files that are open at once, at most


@dataclass
class Grouped:
    """The tasks of a table, in order of first appearance."""

    table: TableFile
    scan: Scan
    memory: int = MEMORY
    folder: Path | None = None
    progress: Callable[[int], None] | None = None

    def __iter__(self) -> Iterator[tuple[str, Array, NDArray[Any]]]:
        """Name, rows as numbers, and labels of every task."""
        names, parts = list(self.scan.ranks), self._parts()
        if not names:
            return
        if parts[-1] == 0:
            yield from self._tasks(self._kept_rows(), names, sum(self.scan.counts))
            return
        try:
            with tempfile.TemporaryDirectory(prefix="everspan-", dir=self.folder) as folder, ExitStack() as files:
                self._write(Path(folder), parts, files)
                files.close()
                sizes = np.bincount(parts, weights=self.scan.counts).astype(int)
                for part, rows in enumerate(sizes.tolist()):
                    path = Path(folder) / f"{part}.arrow"
                    yield from self._tasks(_read(path), names, rows)
                    path.unlink()
        except OSError as error:
            raise TableError(f"{self.table.path}: its rows cannot be sorted by task on disk: {error}") from error

    def _parts(self) -> NDArray[np.intp]:
        """The part of every task."""
        width = len(self.scan.preparation.names) + 2 + 2 * len(self.scan.preparation.columns)
        most = max(1, self.memory // (8 * width), sum(self.scan.counts) // _PARTS + 1)
        before = np.concatenate([[0], np.cumsum(self.scan.counts)[:-1]])
        _, parts = np.unique(before // most, return_inverse=True)
        return parts.astype(np.intp)

    def _columns(self) -> list[str]:
        known = self.scan.preparation
        return [*(column.name for column in known.columns), known.target_column, known.task_column]

    def _kept_rows(self) -> Iterator[Any]:
        import pyarrow.compute as pc

        known, done = self.scan.preparation, 0
        for batch in self.table.batches(self._columns(), task=known.task_column, target=known.target_column):
            labelled = _labelled(batch.column(known.target_column))
            yield batch.filter(pc.and_(batch.column(known.task_column).is_valid(), labelled))
            done += len(batch)
            if self.progress is not None:
                self.progress(done)

    def _write(self, folder: Path, parts: NDArray[np.intp], files: ExitStack) -> None:
        import pyarrow as pa

        writers: dict[int, Any] = {}
        for batch in self._kept_rows():
            own = parts[self._rank(batch)]
            order = np.argsort(own, kind="stable")
            starts = np.searchsorted(own[order], np.arange(parts[-1] + 2))
            for part in np.unique(own).tolist():
                if part not in writers:
                    sink = files.enter_context(pa.OSFile(str(folder / f"{part}.arrow"), "wb"))
                    writers[part] = files.enter_context(pa.ipc.new_stream(sink, batch.schema))
                writers[part].write_batch(batch.take(pa.array(order[starts[part] : starts[part + 1]])))

    def _rank(self, batch: Any) -> NDArray[np.intp]:
        """The ranks of rows' tasks."""
        encoded = batch.column(self.scan.preparation.task_column).dictionary_encode()
        try:
            ranks = [self.scan.ranks[name] for name in encoded.dictionary.to_pylist()]
        except KeyError as error:
            raise TableError(f"{self.table.path}: changed while it was read: task {error} is new") from error
        rows: NDArray[np.intp] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        return np.array(ranks, dtype=np.intp)[rows]

    def _tasks(self, batches: Iterator[Any], names: list[str], rows: int) -> Iterator[tuple[str, Array, NDArray[Any]]]:
        """The tasks of batches with so many rows, which fit into memory together."""
        known = self.scan.preparation
        X, done = np.empty((rows, len(known.names))), 0
        labels, ranks = [], []
        for batch in batches:
            end = done + len(batch)
            if end > rows:
                break
            if len(batch):
                X[done:end] = known.numbers(batch)
                labels.append(known.labels(batch.column(known.target_column)))
                ranks.append(self._rank(batch))
            done = end
        if done != rows or end != rows:
            raise TableError(f"{self.table.path}: changed while it was read: it had other rows before")
        y, rank = np.concatenate(labels), np.concatenate(ranks)
        order = np.argsort(rank, kind="stable")
        present, starts = np.unique(rank[order], return_index=True)
        for task, own in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            yield names[task], X[own], y[own]


def _read(path: Path) -> Iterator[Any]:
    import pyarrow as pa

    with pa.OSFile(str(path), "rb") as source, pa.ipc.open_stream(source) as stream:
        yield from stream
