"""Predictions for the rows of a table, in pieces: neither the table nor the answers need fit into memory."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators import LifelongRegressor
from ..store import StoreError
from ..tables import Preparation, TableError, TableFile
from ._learning import preparation_of
from ._opening import open_model


@dataclass
class Predicted:
    """What `predict` did: rows answered, rows of tasks that are not known, rows without a task."""

    rows: int = 0
    unknown: int = 0
    nameless: int = 0
    some_unknown: str = ""


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
    model = open_model(path)
    known = preparation_of(model, Path(path))
    source = TableFile.open(table)
    known.require(source.kinds, known.task_column, *keep)
    usable = ("number", "boolean", "text")
    for name in [known.task_column, *(column.name for column in known.columns), *keep]:
        if source.kinds[name] not in usable:
            raise TableError(f"column {name!r} {source.kinds[name]}")
    if unseen == "prior":
        model.set_params(unseen_tasks="prior")
    done = Predicted()
    with _sink(out) as write:
        columns = list(dict.fromkeys([*(column.name for column in known.columns), known.task_column, *keep]))
        for batch in source.batches(columns, names=[known.task_column]):
            write(_answers(model, known, batch, keep, unseen, done, Path(path)))
            if progress is not None:
                progress("predicting", done.rows, 0)
    return done


def _answers(
    model: Any, known: Preparation, batch: Any, keep: Sequence[str], unseen: str, done: Predicted, path: Path
) -> dict[str, list[Any]]:
    """The columns of the answer."""
    import pyarrow.compute as pc

    names = batch.column(known.task_column)
    valid = names.is_valid().to_numpy(zero_copy_only=False)
    listed = names.to_pylist()
    if unseen != "prior":
        there = model_knows(model, [name for name in pc.unique(names).to_pylist() if name is not None])
        valid = valid & np.array([name in there for name in listed], dtype=bool)
        missing = next((name for name in listed if name is not None and name not in there), None)
        if missing is not None:
            if unseen == "error":
                raise StoreError(f"{path}: task {missing!r} has not been learned")
            done.some_unknown = done.some_unknown or missing
    done.rows += len(batch)
    done.nameless += names.null_count
    done.unknown += len(batch) - names.null_count - int(valid.sum())
    chosen = np.flatnonzero(valid)
    predictions: list[Any] = [None] * len(batch)
    probabilities: list[Any] = [None] * len(batch)
    answered = {}
    if len(chosen):
        X, tasks = known.numbers(batch)[chosen], [listed[i] for i in chosen]
        if isinstance(model, LifelongRegressor):
            values, likely = model.predict(X, tasks=tasks), None
        else:
            values, likely = model.predict_with_probability(X, tasks=tasks)
        for place, i in enumerate(chosen.tolist()):
            predictions[i] = values[place].item() if hasattr(values[place], "item") else values[place]
            if likely is not None:
                probabilities[i] = float(likely[place])
    answered = {known.task_column: listed} | {name: batch.column(name).to_pylist() for name in keep}
    answered[f"predicted {known.target_column}"] = predictions
    if not isinstance(model, LifelongRegressor):
        answered["probability"] = probabilities
    return answered


def model_knows(model: Any, names: Sequence[str]) -> set[str]:
    """Those names that are tasks of a model."""
    on_disk = model.__dict__.get("_on_disk")
    if on_disk is not None:
        found: set[str] = on_disk.known(names)
        return found
    return {name for name in names if name in model._places}


@contextmanager
def _sink(out: Path | None) -> Iterator[Callable[[dict[str, list[Any]]], None]]:
    """Where answers go, piece after piece; a file is put in its place when all are there."""
    if out is None:
        yield _CSV(sys.stdout)
        return
    if not out.absolute().parent.is_dir():
        raise TableError(f"{out}: there is no folder {out.parent}")
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        if out.suffix == ".parquet":
            sink = _Parquet(part)
            yield sink
            sink.close()
        else:
            with part.open("w", newline="", encoding="utf-8") as file:
                yield _CSV(file)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


class _CSV:
    def __init__(self, file: Any) -> None:
        self._writer, self._begun = csv.writer(file, lineterminator="\n"), False

    def __call__(self, columns: dict[str, list[Any]]) -> None:
        if not self._begun:
            self._writer.writerow(columns)
            self._begun = True
        self._writer.writerows(zip(*columns.values(), strict=True))


class _Parquet:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None

    def __call__(self, columns: dict[str, list[Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table(columns)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._path, table.schema)
        self._writer.write_table(table.cast(self._writer.schema))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
