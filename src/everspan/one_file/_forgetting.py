"""A task taken out of a file: with all that came from its rows alone, or, by `rebuild`, without any trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..estimators._saving import Journal
from ..store import StaleError, StoreError, write
from ..tables import Grouped, Preparation, Scan, TableError, TableFile
from ._learning import Learned, Progress, Work, preparation_of
from ._opening import named, open_model
from ._texts import without_texts


@dataclass
class Forgotten:
    """What `forget` did: the model that is left, how many tasks are gone, and what could not be removed."""

    model: Any
    count: int
    notes: list[str] = field(default_factory=list)


def forget(path: str | Path, tasks: Sequence[str]) -> Forgotten:
    """Take tasks out of a file with all that was learned from their rows alone, in one transaction.

    Predictors, events, digests of rows, the features learned from them, and the texts that no other task has are gone
    afterwards. The prior is learned anew. Notes say what stays.
    """
    return _again(path, lambda model: _forget(path, model, tasks))


def _again(path: str | Path, change: Callable[[Any], Forgotten]) -> Forgotten:
    """Change a file; again if another process has changed it meanwhile, but not if another file is in its place."""
    first = None
    while True:
        model = open_model(path)
        first = first or model._saved.identity
        if model._saved.identity != first and not first.startswith("inode "):  # format 1 has no identity of its own
            raise StaleError(f"{path}: another file was put in its place meanwhile: nothing was changed")
        with suppress(StaleError):
            return change(model)


def _forget(path: str | Path, model: Any, tasks: Sequence[str]) -> Forgotten:
    names = _known_names(path, model, tasks)
    notes = _what_stays(model, names)
    texts: dict[Any, bytes] = dict(getattr(model, "_texts", {}))
    for name in names:
        model.forget(name)
    if hasattr(model, "table_"):
        gone, left = [texts.get(name) for name in names], [texts.get(name) for name in model._places]
        model.table_ = without_texts(preparation_of(model, path), gone, left)
    journal = Journal(path, model)
    try:
        journal.rewrite()
        return Forgotten(model, len(names), notes)
    finally:
        journal.close()


def _known_names(path: str | Path, model: Any, tasks: Sequence[str]) -> list[Any]:
    names = [named(model._places, task) for task in dict.fromkeys(tasks)]
    unknown = [name for name in names if name not in model._places]
    if unknown:
        raise StoreError(f"{path}: task {unknown[0]!r} has not been learned; it has {len(model._places):,} others")
    return list(dict.fromkeys(names))


def _what_stays(model: Any, names: list[Any]) -> list[str]:
    """What forgetting these tasks cannot remove, in sentences."""
    positions, notes = {model._places[name] for name in names}, []
    later = sum(position not in positions for position in range(min(positions), len(model.history_)))
    if later:
        notes.append(
            f"{later:,} other task{'s were' if later > 1 else ' was'} learned after the forgotten: features and "
            "predictors that were fitted by then may have been shaped by forgotten rows"
        )
    if hasattr(model, "table_"):
        notes.append("numbers are still centred and scaled as over all rows of the first table")
        if any(name not in getattr(model, "_texts", {}) for name in model._places) and _has_texts(model):
            notes.append(
                "texts of text columns stay: of some tasks nobody noted which they have (they were learned by an "
                "earlier version or in Python)"
            )
    return [*notes, "--rebuild TABLE removes all of it"] if notes else []


def _has_texts(model: Any) -> bool:
    return bool(preparation_of(model).text_positions)


# Rebuilding -----------------------------------------------------------------------------------------------------------


def rebuild(
    path: str | Path,
    tasks: Sequence[str],
    tables: Sequence[str | Path],
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Forgotten:
    """Learn a file anew from tables, as if these tasks had never been; nothing of the old model stays.

    The columns and parameters are those of the file; centres, scales and texts are found anew without the rows of the
    forgotten tasks. The tables need rows of every other task, else nothing changes. The file changes in one
    transaction at the end.
    """
    return _again(path, lambda old: _rebuild(path, old, tasks, tables, folder, progress))


def _rebuild(
    path: str | Path,
    old: Any,
    tasks: Sequence[str],
    tables: Sequence[str | Path],
    folder: Path | None,
    progress: Progress | None,
) -> Forgotten:
    names, skipped = [named(old._places, task) for task in dict.fromkeys(tasks)], set[str]()
    model = _learned_anew(path, old, names, tables, folder, progress, skipped)
    unknown = [name for name in names if name not in old._places and name not in skipped]
    if unknown:
        raise StoreError(f"{path}: task {unknown[0]!r:.60} is neither in the file nor in the tables")
    missing = [name for name in old._places if name not in model._places and name not in names]
    if missing:
        raise TableError(
            f"{path}: the tables have no rows of {len(missing):,} other tasks, such as {missing[0]!r:.60}, which a "
            "rebuild would lose: name all tables that were learned, or forget these tasks too"
        )
    model._saved = write(path, model._loadable_contents(), old._saved, same=True)
    return Forgotten(model, len(names))


def _learned_anew(
    path: str | Path,
    old: Any,
    names: list[Any],
    tables: Sequence[str | Path],
    folder: Path | None,
    progress: Progress | None,
    skipped: set[str],
) -> Any:
    before, gone = preparation_of(old, path), frozenset(map(str, names))
    model = type(old)(**old.get_params(deep=False))
    for number, table in enumerate(tables):
        source = _Others(**vars(TableFile.open(table)), task=before.task_column, gone=gone, met=skipped)
        scan = _first_scan(source, before) if not number else Scan.again(source, preparation_of(model, path))
        if not number:
            model.table_ = scan.preparation.facts()
        report = Learned(Path(path))
        work = Work(
            Path(path), model, scan.preparation, report, tasks=len(scan.counts), progress=progress, to_file=False
        )
        work.do(Grouped(source, scan, folder=folder))
        if report.failed:
            name, why = next(iter(report.failed.items()))
            raise TableError(f"{table}: task {name!r:.60} cannot be learned anew: {why}")
    return model


def _first_scan(source: TableFile, before: Preparation) -> Scan:
    """The columns that the file has, as this table's rows say how they become numbers."""
    used = {column.name for column in before.columns} | {before.task_column, before.target_column}
    kind = "regression" if before.target == "number" else "classification"
    drop = [name for name in source.kinds if name not in used]
    return Scan.new(source, before.task_column, before.target_column, drop=drop, kind=kind)


@dataclass(frozen=True)
class _Others(TableFile):
    """A table without the rows of some tasks."""

    task: str = ""
    gone: frozenset[str] = frozenset()
    met: set[str] = field(default_factory=set)  # those of them that the table has

    def batches(self, columns: Sequence[str], **options: Any) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.compute as pc

        gone = pa.array(sorted(self.gone), pa.string())
        for batch in super().batches(columns, **options):
            left_out = pc.is_in(batch.column(self.task), gone)
            self.met.update(batch.column(self.task).filter(left_out).unique().to_pylist())
            yield batch.filter(pc.invert(left_out))
