"""Predictions for the rows of a table, in pieces: neither the table nor the answers need fit into memory."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators import LifelongRegressor
from ..store import StaleError, StoreError
from ..streams import data_output
from ..tables import Preparation, TableError, TableFile
from ._learning import preparation_of
from ._opening import open_model
from ._writing import whole


@dataclass
class Predicted:
    """What `predict` did: rows answered, rows of tasks that are not known, rows without a task."""

    rows: int = 0
    unknown: int = 0
    nameless: int = 0
    some_unknown: str = ""
    why: str = "no prediction (--unseen prior has one)"


def predict(
    path: str | Path,
    table: str | Path,
    out: Path | None = None,
    *,
    keep: Sequence[str] = (),
    unseen: str = "empty",
    progress: Callable[[str, int, int], None] | None = None,
) -> Predicted:
    """Write a line for every row of a table: its task, the prediction and, of classes, its probability.

    Parameters
    ----------
    path : path
        The file to predict with.
    table : path
        With a task column and the columns that the file was made from; more do no harm.
    out : path, optional
        A CSV file, or with the ending .parquet a Parquet file; whole or not there. None: CSV to standard output.
    keep : sequence of str
        Columns of the table to write too.
    unseen : {"empty", "prior", "error"}
        What rows of unknown tasks get: nothing, what all tasks say together, or an error.
    progress : function, optional
        Called with what is done and how many rows.
    """
    if out is not None and not (out.exists() and not out.is_file()) and out.suffix.lower() not in (".csv", ".parquet"):
        raise TableError(f"{out}: predictions are written as .csv or .parquet")
    asker = _Asker(Path(path), unseen)
    known = asker.known
    source = TableFile.open(table)
    known.require(source, known.task_column)
    if absent := [name for name in keep if name not in source.kinds]:
        raise TableError(f"the table has no column {absent[0]!r} to keep")
    clash = {f"predicted {known.target_column}", "probability", known.task_column} & set(keep)
    if clash or len(set(keep)) != len(keep):
        raise TableError(f"column {next(iter(clash), keep[0] if keep else '')!r} would be written twice")
    with _sink(out, path, table) as write:
        write(asker.schema(keep, None), None)
        columns = [*(column.name for column in known.columns), known.task_column]
        row_bytes = 16 * len(known.names)  # as numbers, and once more while the model answers
        for batch in source.batches(columns, task=known.task_column, keep=keep, row_bytes=row_bytes):
            answers = asker.answers(batch, len(keep))
            write(asker.schema(keep, batch), answers)
            if progress is not None:
                progress("predicting", asker.done.rows, 0)
    return asker.done


class _Asker:
    """A model that is asked batch after batch; if its file changes meanwhile, it is opened again."""

    def __init__(self, path: Path, unseen: str) -> None:
        self.path, self.unseen, self.done = path, unseen, Predicted()
        self._open()
        self.known: Preparation = preparation_of(self.model, path)
        self.regression = isinstance(self.model, LifelongRegressor)

    def _open(self) -> None:
        """Open the file, again if it was learned into meanwhile; another file in its place is refused."""
        before = getattr(self, "model", None)
        self.model = open_model(self.path)
        if before is not None and before._saved.identity != self.model._saved.identity:
            raise StoreError(f"{self.path}: another file was put in its place while predictions were made: start again")
        if self.unseen == "prior":
            self.model.set_params(unseen_tasks="prior")

    def schema(self, keep: Sequence[str], batch: Any) -> Any:
        """The columns of an answer; those that are kept are text as long as no batch says otherwise."""
        import pyarrow as pa

        kinds = {"number": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_(), "text": pa.string()}
        fields = [(self.known.task_column, pa.string())]
        for place, name in enumerate(keep):
            fields.append((name, pa.string() if batch is None else batch.schema.field(f"kept {place}").type))
        fields.append((f"predicted {self.known.target_column}", kinds[self.known.target]))
        return pa.schema(fields if self.regression else [*fields, ("probability", pa.float64())])

    def answers(self, batch: Any, kept: int) -> list[list[Any]]:
        """The values of the columns of an answer."""
        names = batch.column(self.known.task_column)
        listed = names.to_pylist()
        while True:
            try:
                there = model_knows(self.model, list(dict.fromkeys(name for name in listed if name is not None)))
                chosen = np.array([name in there for name in listed], dtype=bool)
                named = names.is_valid().to_numpy(zero_copy_only=False)
                X = self.known.numbers(batch)
                found = self._ask(X, listed, chosen)
                others = self._ask_unseen(X, listed, named & ~chosen)
                break
            except StaleError:
                self._open()
        self.done.rows += len(batch)
        self.done.nameless += names.null_count
        merged = [
            [one if one is not None else other for one, other in zip(first, second, strict=True)]
            for first, second in zip(found, others, strict=True)
        ]
        return [listed, *(batch.column(len(batch.columns) - kept + i).to_pylist() for i in range(kept)), *merged]

    def _ask(self, X: Any, listed: list[Any], chosen: Any) -> list[list[Any]]:
        rows = np.flatnonzero(chosen)
        answers: list[list[Any]] = [[None] * len(listed) for _ in range(1 if self.regression else 2)]
        if len(rows):
            tasks = [listed[i] for i in rows]
            if self.regression:
                values = [self.model.predict(X[rows], tasks=tasks)]
            else:
                values = list(self.model.predict_with_probability(X[rows], tasks=tasks))
            for column, own in zip(answers, values, strict=True):
                for i, value in zip(rows.tolist(), own.tolist(), strict=True):
                    column[i] = value
        return answers

    def _ask_unseen(self, X: Any, listed: list[Any], chosen: Any) -> list[list[Any]]:
        nothing = self._ask(X, listed, np.zeros(len(listed), dtype=bool))
        if not chosen.any():
            return nothing
        name = listed[int(np.argmax(chosen))]
        if self.unseen == "error":
            raise StoreError(f"{self.path}: task {name!r} has not been learned")
        if self.unseen == "prior":
            try:
                return self._ask(X, listed, chosen)
            except StaleError:
                raise
            except ValueError as error:
                self.done.why = f"no prediction: {error}"
        self.done.unknown += int(chosen.sum())
        self.done.some_unknown = self.done.some_unknown or name
        return nothing


def model_knows(model: Any, names: Sequence[str]) -> set[str]:
    """Those names that are tasks of a model."""
    on_disk = model.__dict__.get("_on_disk")
    if on_disk is not None:
        found: set[str] = on_disk.known(names)
        return found
    return {name for name in names if name in model._places}


@contextmanager
def _sink(out: Path | None, *read: str | Path) -> Iterator[Callable[[Any, Any], None]]:
    """Where answers go, piece after piece, each with its schema."""
    if out is None:
        yield _CSV(data_output())
        return
    with whole(out, *read) as part:
        if out.suffix.lower() == ".parquet":
            sink = _Parquet(part)
            yield sink
            sink.close()
        else:
            with part.open("w", newline="", encoding="utf-8") as file:
                yield _CSV(file)


class _CSV:
    def __init__(self, file: Any) -> None:
        self._writer = csv.writer(file, lineterminator="\n")

    def __call__(self, schema: Any, columns: list[list[Any]] | None) -> None:
        if columns is None:
            self._writer.writerow(schema.names)
        else:
            self._writer.writerows(zip(*columns, strict=True))


class _Parquet:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._schema: Any = None
        self._writer: Any = None

    def __call__(self, schema: Any, columns: list[list[Any]] | None) -> None:
        import pyarrow as pa

        if columns is None:
            self._schema = schema
            return
        if self._writer is None:
            self._begin(schema)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    def _begin(self, schema: Any) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(self._path, schema)

    def close(self) -> None:
        if self._writer is None:  # a table without rows
            self._begin(self._schema)
        self._writer.close()
