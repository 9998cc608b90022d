"""The first look at a table, from its first row to its last: what its columns hold, and which tasks there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import EXACT, INTEGER, Column, Preparation, quoted, try_numbers, try_truth, try_whole
from ._files import BOOLEAN, DATE, NUMBER, TEXT, TableError, TableFile, columns_of

MOST_VALUES = 1000  # different texts from which a column is taken for names
MOST_TEXT = 1 << 18  # characters of different texts, likewise
MOST_NUMBERS = 100  # of a text column: the values that occur most often have a number each
MOST_CLASSES = 20  # different whole numbers that are taken for classes
_TASKS = {"task", "customer", "tenant", "user", "client", "account", "sensor", "device", "machine", "school", "store"}
_TASKS |= {"shop", "patient", "subject", "group", "site", "field", "respondent", "household", "company"}
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_PADDED = r"^\s*[-+]?0\d+\s*$"  # a code with zeros in front: 007 is not 7
_TARGETS = ("target", "label", "y", "class", "outcome", "response")


def guess_columns(kinds: dict[str, str], task: str | None, target: str | None) -> tuple[str, str, list[str]]:
    """The task's and the target's column, and a line about each that was guessed."""
    said = []
    for given in (task, target):
        if given is not None and given not in kinds:
            raise TableError(f"the table has no column {given!r}; it has {quoted(list(kinds))}")
    if task is None:
        task = next((name for name in kinds if name != target and _stem(name) in _TASKS), None)
        if task is None:
            raise TableError(
                f"which column says what task a row belongs to? --task-column; there are {quoted(list(kinds))}"
            )
        said.append(f"task column: {task!r} by its name (--task-column)")
    if target is None:
        others = [name for name in kinds if name != task]
        target = next((name for name in others if name.lower() in _TARGETS), others[-1] if others else None)
        if target is None:
            raise TableError("the table has one column alone: there is nothing to learn")
        said.append(
            f"target column: {target!r}, {'by its name' if target.lower() in _TARGETS else 'the last'} "
            "(--target-column)"
        )
    if task == target:
        raise TableError(f"column {task!r} cannot be the task and the target")
    return task, target, said


def _stem(name: str) -> str:
    plain = name.lower().replace("-", "_").replace(" ", "_")
    for ending in ("_id", "_name", "_no", "_number", "id"):
        if plain.endswith(ending) and len(plain) > len(ending):
            return plain.removesuffix(ending)
    return plain


@dataclass
class _Found:
    """What is known of a column so far."""

    target: bool = False
    exact: bool = True  # labels are whole numbers of 64 bits
    padded: bool = False  # a label has zeros in front
    rounded: bool = False  # a number that is kept as text or as a whole number has more digits than a double
    numbers: bool = True
    truth: bool = True
    whole: bool = True
    dates: bool = True
    present: int = 0
    missing: int = 0
    infinite: int = 0
    mean: float = 0.0
    squares: float = 0.0  # sum of squared distances from the mean
    values: Counter[str] | None = field(default_factory=Counter)  # None: too many, or too long
    characters: int = 0  # of these values
    numeric: int = 0  # texts that are numbers, while most are
    odd: str | None = None  # the first that is not

    def look(self, values: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        absent = values.null_count
        numbers = try_numbers(values) if self.numbers else None
        truth = try_truth(values) if self.truth else None
        self.numbers, self.truth = numbers is not None, truth is not None
        self.dates = self.dates and numbers is None and truth is None and _are_dates(values)
        if self.values is not None:
            for entry in pc.value_counts(values.cast("string")).to_pylist():
                if entry["values"] is not None:
                    self.characters += 0 if entry["values"] in self.values else len(entry["values"])
                    self.values[entry["values"]] += entry["counts"]
            if len(self.values) > MOST_VALUES or self.characters > MOST_TEXT:
                self.values = None
        self._look_for_odd(values, numbers is not None)
        if self.target:
            self.exact = self.exact and try_whole(values) is not None
            strings = pa.types.is_string(values.type)
            self.padded |= strings and bool(pc.any(pc.match_substring_regex(values, _PADDED), min_count=0).as_py())
        plain = numbers if numbers is not None else truth
        if plain is not None:
            known = plain[~np.isnan(plain)]
            self.infinite += len(plain) - absent - len(known)
            absent = len(plain) - len(known)
            self._add(known)
            self.whole = self.whole and bool((known == np.floor(known)).all())
            self.rounded |= not pa.types.is_floating(values.type) and bool((np.abs(known) > EXACT).any())
        self.present += len(values) - absent
        self.missing += absent

    def _look_for_odd(self, values: Any, all_numbers: bool) -> None:
        """Count numbers beside the texts that keep a column from being one of numbers."""
        import pyarrow as pa
        import pyarrow.compute as pc

        given = len(values) - values.null_count
        if all_numbers:
            self.numeric += given
        elif pa.types.is_string(values.type) and (not self.present or 2 * self.numeric > self.present):
            are = pc.fill_null(pc.match_substring_regex(values, _NUMBER), True)
            self.numeric += are.true_count - values.null_count
            others = values.filter(pc.invert(are))
            if self.odd is None and len(others):
                self.odd = str(others[0])

    def _add(self, known: NDArray[np.float64]) -> None:
        """Mean and squares with these numbers too (Chan, Golub and LeVeque 1983)."""
        if not len(known):
            return
        before, count = self.present, len(known)
        mean = float(known.mean())
        change = mean - self.mean
        self.squares += float(np.square(known - mean).sum()) + change * change * before * count / (before + count)
        self.mean += change * count / (before + count)

    @property
    def too_many(self) -> str:
        """Why its values are not kept."""
        if self.characters > MOST_TEXT:
            return f"has different texts of more than {MOST_TEXT:,} characters"
        return f"has more than {MOST_VALUES:,} different texts"

    def kind(self) -> str:
        return NUMBER if self.numbers else BOOLEAN if self.truth else TEXT


@dataclass
class Scan:
    """What a look at all rows found.

    Attributes
    ----------
    preparation : Preparation
    ranks : dict
        Of every task's name: its place in the order of first appearance.
    counts : list of int
        Rows of the tasks, in that order.
    rows, unlabelled, nameless : int
        Rows in all, and those that are left out: without a label, without a task.
    label_bytes : int
        What the longest label takes as text in numpy; 0 where labels are not text.
    notes : list of str
        What a user should hear about columns.
    """

    preparation: Preparation
    ranks: dict[str, int] = field(default_factory=dict)
    counts: list[int] = field(default_factory=list)
    rows: int = 0
    unlabelled: int = 0
    nameless: int = 0
    label_bytes: int = 0
    notes: list[str] = field(default_factory=list)

    @classmethod
    def new(
        cls,
        table: TableFile,
        task: str,
        target: str,
        *,
        drop: Sequence[str] = (),
        kind: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scan:
        """Find out how the columns of a table become numbers."""
        unknown = [name for name in drop if name not in table.kinds]
        if unknown:
            raise TableError(
                f"the table has no column {quoted(unknown)} to leave out; it has {quoted(list(table.kinds))}"
            )
        usable = [name for name, held in table.kinds.items() if held in (NUMBER, BOOLEAN, TEXT)]
        for name in (task, target):
            if name not in usable and (name != task or table.kinds[name] != DATE):
                raise TableError(f"column {name!r} {table.kinds[name]}: it cannot be the task or the target")
        chosen = [name for name in usable if name not in (task, target, *drop)]
        if not chosen:
            raise TableError("no column is left to learn from")
        scan = cls(Preparation(task, target, "number", ()))
        found = {name: _Found(target=name == target) for name in [*chosen, target]}
        scan._pass(table, [*chosen, target, task], found, progress)
        if not scan.counts:
            raise TableError(f"no row has both a task ({task!r}) and a label ({target!r})")
        left_out: dict[str, list[str]] = {}
        for name, held in table.kinds.items():
            if held not in (NUMBER, BOOLEAN, TEXT) and name != task:
                left_out.setdefault(held, []).append(name)
        columns = [scan._column(name, found[name], left_out) for name in chosen]
        scan.notes += [f"left out: {quoted(names)}: {why}" for why, names in left_out.items()]
        if table.nameless:
            scan.notes.append(f"left out: {table.nameless} column{'s' * (table.nameless > 1)} without a name")
        if found[target].numbers and len(found[target].values or ()) > 2 and kind is None:
            classes = _target_of(target, found[target], kind) != NUMBER
            taken = "classes: --kind regression" if classes else "numbers to predict: --kind classification"
            scan.notes.append(f"{target!r} has numbers, taken for {taken} takes them otherwise")
        scan.preparation = Preparation(
            task, target, _target_of(target, found[target], kind), tuple(column for column in columns if column)
        )
        if not scan.preparation.columns:
            raise TableError(f"no column is left to learn from; {'; '.join(scan.notes[:5])}")
        return scan

    @classmethod
    def again(cls, table: TableFile, known: Preparation, progress: Callable[[int], None] | None = None) -> Scan:
        """Find the tasks of a table whose columns are treated as those of an earlier one."""
        known.require(table, known.task_column, known.target_column)
        scan = cls(known)
        scan._pass(table, [known.target_column, known.task_column], {}, progress)
        used = {column.name for column in known.columns} | {known.task_column, known.target_column}
        unused = [name for name in table.kinds if name not in used]
        if unused:
            scan.notes.append(f"not used, as before: {quoted(unused)}")
        return scan

    def _pass(
        self, table: TableFile, columns: list[str], found: dict[str, _Found], progress: Callable[[int], None] | None
    ) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        task, target = self.preparation.task_column, self.preparation.target_column
        for batch in table.batches(columns, task=task, target=target):
            self.rows += len(batch)
            named, labelled = batch.column(task).is_valid(), _labelled(batch.column(target))
            self.nameless += len(batch) - named.true_count
            self.unlabelled += len(batch) - labelled.true_count
            kept = batch.filter(pc.and_(named, labelled))
            for entry in pc.value_counts(kept.column(task)).to_pylist():  # in order of first appearance
                rank = self.ranks.setdefault(entry["values"], len(self.ranks))
                if rank == len(self.counts):
                    self.counts.append(0)
                self.counts[rank] += entry["counts"]
            labels = kept.column(target)
            if pa.types.is_string(labels.type) and len(labels):
                self.label_bytes = max(self.label_bytes, 4 * pc.max(pc.utf8_length(labels)).as_py())
            held = columns_of(kept) if found else {}
            for name, state in found.items():
                state.look(held[name])
            if progress is not None:
                progress(self.rows)

    def _column(self, name: str, found: _Found, left_out: dict[str, list[str]]) -> Column | None:
        """How a column becomes numbers; None where it is left out, for a reason."""
        if not found.present:
            left_out.setdefault("is empty", []).append(name)
            return None
        if found.infinite:
            self.notes.append(f"{name!r} has {found.infinite:,} infinite or huge numbers: taken as missing")
        if found.rounded and found.whole and found.kind() == NUMBER:
            self.notes.append(
                f"{name!r} has whole numbers beyond 9,007,199,254,740,992 (2^53), which are rounded: if they are ids, "
                "--drop leaves them out"
            )
        missing = found.missing > 0
        if found.kind() == TEXT:
            if found.dates:
                left_out.setdefault("is a date or a time", []).append(name)
                return None
            if found.odd is not None and found.numeric >= 0.9 * found.present and found.numeric > 20:
                self.notes.append(
                    f"{name!r} is taken for texts: {found.numeric:,} of {found.present:,} are numbers, but there is "
                    f"{found.odd!r:.40}; empty cells in its place would leave a column of numbers"
                )
            if found.values is None:
                left_out.setdefault(found.too_many, []).append(name)
                return None
            if len(found.values) == 1 and not missing:
                left_out.setdefault("is always the same", []).append(name)
                return None
            ordered = sorted(found.values, key=lambda value: (-found.values[value], value))  # type: ignore[index]
            if len(ordered) > MOST_NUMBERS:
                self.notes.append(
                    f"{name!r} has {len(ordered):,} different texts: the {MOST_NUMBERS} most common count"
                )
            return Column(name, "text", missing=missing, values=tuple(sorted(ordered[:MOST_NUMBERS])))
        deviation = float(np.sqrt(found.squares / found.present))
        if deviation <= 1e-12 * abs(found.mean) or deviation < 1e-150:
            if not missing:
                left_out.setdefault("is always the same", []).append(name)
                return None
            deviation = 1.0
        kind = found.kind()
        return Column(name, "number" if kind == NUMBER else "boolean", found.mean, deviation, missing)


def _are_dates(values: Any) -> bool:
    import pyarrow.compute as pc

    found = pc.match_substring_regex(values.cast("string"), r"^\s*\d{4}-\d\d?-\d\d?([ T]\d\d?:.*)?\s*$")
    return bool(pc.all(found, min_count=0).as_py())


def _labelled(values: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.invert(pc.is_null(values, nan_is_null=True)) if pa.types.is_floating(values.type) else values.is_valid()


def _target_of(name: str, found: _Found, kind: str | None) -> Any:
    """What labels are."""
    held = found.kind()
    if found.infinite:
        raise TableError(f"column {name!r}: {found.infinite:,} labels are infinite or huge")
    if kind == "regression":
        if held == TEXT:
            raise TableError(f"column {name!r} has text: it cannot be predicted as a number")
        return NUMBER
    if held != NUMBER:
        if found.values is None:
            raise TableError(f"column {name!r} {found.too_many}: too many for classes")
        plain = {value.strip().lower() for value in found.values} <= {"true", "false"}
        return BOOLEAN if held == BOOLEAN and plain else TEXT  # who says yes and no is answered with yes and no
    classes = found.exact and not found.padded
    if found.whole and found.values is not None:
        if kind == "classification" or len(found.values) <= MOST_CLASSES:
            return INTEGER if classes else TEXT  # 007 and 20 digits are kept as they are written
        if found.padded:
            return TEXT
    elif kind == "classification":
        raise TableError(f"column {name!r} has numbers with fractions, or too many different ones, for classes")
    return NUMBER
