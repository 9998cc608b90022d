"""Columns of a table as numbers, the same way every time: what was found in the first table is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._files import BOOLEAN, DATE, EMPTY, NUMBER, TEXT, TableError, TableFile, columns_of

Array = NDArray[np.float64]
INTEGER: Literal["integer"] = "integer"  # classes that are whole numbers of 64 bits
EXACT = 2.0**53  # a double keeps all digits of whole numbers up to here
FORGOTTEN = "(forgotten)"  # in names, in place of a text that was forgotten
LARGEST = 1e100  # numbers beyond are taken as missing: their squares have no room


@dataclass(frozen=True)
class Column:
    """One column, and how it becomes numbers.

    Attributes
    ----------
    kind : {"number", "boolean", "text"}
        A number is shifted and scaled to mean 0 and standard deviation 1 over the first table; a missing one is 0, the
        mean. A truth value is treated like the numbers 0 and 1. A text becomes one number for each of ``values``, 1
        where it is that one.
    mean, scale : float
        Of numbers.
    missing : bool
        Whether one more number says that the value was missing, as it was in the first table.
    values : tuple of str or None
        Of text: the values that have a number. Others have none. None stands for a text that was forgotten: its number
        keeps its place among the others and is always 0.
    """

    name: str
    kind: Literal["number", "boolean", "text"]
    mean: float = 0.0
    scale: float = 1.0
    missing: bool = False
    values: tuple[str | None, ...] = ()

    @property
    def names(self) -> list[str]:
        """What its numbers mean."""
        own = [self.name]
        if self.kind == TEXT:
            own = [f"{self.name} = {FORGOTTEN if value is None else value}" for value in self.values]
        return [*own, f"{self.name} is missing"] if self.missing else own

    def numbers(self, values: Any) -> Array:
        """The numbers of an Arrow array, a column for each of `names`."""
        out: Array = np.zeros((len(values), self.width))
        self.fill(values, out)
        return out

    @property
    def width(self) -> int:
        """How many numbers it becomes."""
        return (len(self.values) if self.kind == TEXT else 1) + self.missing

    def fill(self, values: Any, out: Array) -> None:
        """Write the numbers of an Arrow array, or of its `codes`, into zeros, a column for each of `names`."""
        if self.kind == TEXT:
            codes = (values if self.coded(values) else self.codes(values)).fill_null(-1).to_numpy()
            rows = np.flatnonzero((codes >= 0) & (codes < len(self.values)))
            out[rows, codes[rows]] = 1.0
            absent = codes < 0
        else:
            plain = as_numbers(values, self.kind)
            absent = np.isnan(plain)
            out[:, 0] = np.where(absent, 0.0, (plain - self.mean) / self.scale)
        if self.missing:
            out[:, -1] = absent

    def codes(self, values: Any) -> Any:
        """Texts as places among ``values``: small, also where texts are long. Others have the place behind the last."""
        import pyarrow as pa
        import pyarrow.compute as pc

        texts = values.cast(pa.string())
        known = [(value, place) for place, value in enumerate(self.values) if value is not None]
        found = pc.index_in(texts, pa.array([value for value, _ in known], pa.string()))
        places = pa.array([place for _, place in known], pa.int16()).take(found).fill_null(len(self.values))
        return pc.if_else(texts.is_valid(), places, pa.scalar(None, pa.int16()))

    @staticmethod
    def coded(values: Any) -> bool:
        """Whether they are `codes`: columns of tables have no 16-bit numbers."""
        return bool(values.type == "int16")

    def facts(self) -> dict[str, Any]:
        """In terms of JSON."""
        own: dict[str, Any] = {"name": self.name, "kind": self.kind, "missing": self.missing}
        if self.kind == TEXT:
            return own | {"values": list(self.values)}
        return own | {"mean": self.mean.hex(), "scale": self.scale.hex()}

    @classmethod
    def from_facts(cls, facts: Any) -> Column:
        name, kind, missing = facts["name"], facts["kind"], facts["missing"]
        if not isinstance(name, str) or kind not in (NUMBER, BOOLEAN, TEXT) or not isinstance(missing, bool):
            raise ValueError("a column")
        if kind == TEXT:
            values = tuple(facts["values"])
            known = [value for value in values if value is not None]
            if not all(isinstance(value, str) for value in known) or len(set(known)) != len(known):
                raise ValueError("a column's values")
            return cls(name, kind, missing=missing, values=values)
        mean, scale = float.fromhex(facts["mean"]), float.fromhex(facts["scale"])
        if not (math.isfinite(mean) and 0.0 < scale < math.inf):
            raise ValueError("a column's scale")
        return cls(name, kind, mean, scale, missing)


@dataclass(frozen=True)
class Preparation:
    """How rows of a table become rows of numbers, with their tasks and labels.

    Attributes
    ----------
    task_column, target_column : str
        Where a row says which task it belongs to, and its label.
    target : {"number", "integer", "boolean", "text"}
        What labels are: a number to predict (regression), or the name of a class.
    columns : tuple of Column
    """

    task_column: str
    target_column: str
    target: Literal["number", "integer", "boolean", "text"]
    columns: tuple[Column, ...]

    @property
    def names(self) -> list[str]:
        """What the numbers of a row mean; no two the same."""
        names: dict[str, None] = {}
        for name in [name for column in self.columns for name in column.names]:
            while name in names:
                name += "'"
            names[name] = None
        return list(names)

    @property
    def text_positions(self) -> list[tuple[int, int, int]]:
        """Where each text value is: the index of its column, its index in ``values``, its position in a row of numbers.

        Examples
        --------
        >>> from everspan.tables import Column, Preparation
        >>> city = Column("city", "text", values=("Berlin", None, "Lyon"), missing=True)
        >>> Preparation("shop", "sold", "number", (Column("size", "number"), city)).text_positions
        [(1, 0, 1), (1, 1, 2), (1, 2, 3)]
        """
        found, position = [], 0
        for index, column in enumerate(self.columns):
            if column.kind == TEXT:
                found += [(index, place, position + place) for place in range(len(column.values))]
            position += column.width
        return found

    def compact(self, batch: Any) -> Any:
        """A batch with codes in place of texts, for `numbers`."""
        for place, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
            if name in self._texts:
                batch = batch.set_column(place, name, self._texts[name].codes(column))
        return batch

    @cached_property
    def _texts(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns if column.kind == TEXT}

    def numbers(self, batch: Any) -> Array:
        """The rows of an Arrow batch as numbers."""
        held, first = columns_of(batch), 0
        out: Array = np.zeros((len(batch), sum(column.width for column in self.columns)))
        for column in self.columns:
            try:
                column.fill(held[column.name], out[:, first : first + column.width])
                first += column.width
            except (ValueError, NotImplementedError) as error:
                raise TableError(f"column {column.name!r}: {str(error).splitlines()[0]:.200}") from error
        return out

    def labels(self, values: Any) -> NDArray[Any]:
        """Labels of an Arrow array without missing ones."""
        if self.target == TEXT:
            return np.array(values.cast("string").to_pylist(), dtype=str)
        if self.target == INTEGER and (whole := try_whole(values)) is not None:
            return whole
        try:
            truth = try_truth(values) if self.target == NUMBER else None  # asked for as a number
            numbers = as_numbers(values, self.target) if truth is None else truth
        except ValueError as error:
            raise TableError(f"column {self.target_column!r}: {error}, as labels were before") from error
        if self.target == BOOLEAN:
            if not np.isin(numbers, (0.0, 1.0)).all():
                raise TableError(f"column {self.target_column!r}: labels were truth values before")
            return numbers > 0.5
        if not np.isfinite(numbers).all():
            raise TableError(f"column {self.target_column!r}: a label is not finite")
        if self.target == INTEGER:
            odd = [f"{number:g} is not whole" for number in numbers if number != np.floor(number)]
            raise TableError(
                f"column {self.target_column!r}: labels were whole numbers before, but "
                f"{odd[0] if odd else 'one is too large for 64 bits'}"
            )
        return numbers

    def facts(self) -> dict[str, Any]:
        """In terms of JSON."""
        return {
            "task_column": self.task_column,
            "target_column": self.target_column,
            "target": self.target,
            "columns": [column.facts() for column in self.columns],
        }

    @classmethod
    def from_facts(cls, facts: Any) -> Preparation:
        task, target, kind = facts["task_column"], facts["target_column"], facts["target"]
        if not isinstance(task, str) or not isinstance(target, str):
            raise ValueError("the names of columns")
        if kind not in (NUMBER, INTEGER, BOOLEAN, TEXT):
            raise ValueError("the kind of labels")
        columns = tuple(Column.from_facts(column) for column in facts["columns"])
        if len({task, target, *(column.name for column in columns)}) != len(columns) + 2:
            raise ValueError("two columns with one name")
        return cls(task, target, kind, columns)

    def require(self, table: TableFile, *extra: str) -> None:
        """Say so if a table lacks a column, or has something in it that cannot be used."""
        wanted, known = [*extra, *(column.name for column in self.columns)], table.kinds
        absent = [name for name in wanted if name not in known]
        if absent:
            raise TableError(f"the table has no column {quoted(absent)}; it has {quoted(list(known))}")
        for name in wanted:
            named = known[name] == DATE and name == self.task_column  # a day may be a task
            if known[name] not in (NUMBER, BOOLEAN, TEXT, EMPTY) and not named:
                raise TableError(f"column {name!r} {known[name]}, and was something else before")


def quoted(names: Sequence[str], most: int = 8) -> str:
    """Names in a sentence, not too many."""
    shown = ", ".join(f"{name!r:.60}" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


_TRUTH = {"true": True, "yes": True, "t": True, "y": True, "false": False, "no": False, "f": False, "n": False}


def as_numbers(values: Any, kind: str = NUMBER) -> Array:
    """An Arrow array as doubles, nan where it is missing or has no room; ValueError says what is no number."""
    found = try_truth(values) if kind == BOOLEAN or values.type == "bool" else None
    found = try_numbers(values) if found is None else found
    if found is None:
        what = "a truth value" if kind == BOOLEAN else "a number"
        raise ValueError(f"{_first_other(values, kind)!r:.60} is not {what}")
    return found


def try_numbers(values: Any) -> Array | None:
    """An Arrow array as doubles, nan where there is none or no room for it; None where one is no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(values.type):
        return None
    if pa.types.is_null(values.type):
        return np.full(len(values), np.nan)
    if pa.types.is_string(values.type):
        try:
            values = values.cast(pa.float64())
        except pa.ArrowInvalid:
            try:
                values = pc.utf8_trim_whitespace(values).cast(pa.float64())
            except pa.ArrowInvalid:
                return None
    elif not pa.types.is_float64(values.type):
        values = values.cast(pa.float64(), safe=False)
    numbers: Array = values.to_numpy(zero_copy_only=False)
    return np.where(np.abs(numbers) <= LARGEST, numbers, np.nan)


def try_whole(values: Any) -> NDArray[np.int64] | None:
    """An Arrow array without missing values as whole numbers with all their digits; None where one is no such number.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from everspan.tables._columns import try_whole
    >>> try_whole(pa.array(["1234567890123456789", "7.0"])).tolist()
    [1234567890123456789, 7]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    most = 2.0**63
    if pa.types.is_string(values.type):
        digits = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"^\+?(-?\d+)(\.0*)?$", r"\1")
        if pc.all(pc.match_substring_regex(digits, r"^-?\d+$"), min_count=0).as_py():
            values = digits
        else:
            most = EXACT  # like 1e3
    if pa.types.is_integer(values.type) or (pa.types.is_string(values.type) and most > EXACT):
        try:
            exact: NDArray[np.int64] = values.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            return None
        return exact
    numbers = try_numbers(values)
    if numbers is None or not ((numbers == np.floor(numbers)) & (np.abs(numbers) < most)).all():
        return None
    return numbers.astype(np.int64)


def try_truth(values: Any) -> Array | None:
    """An Arrow array of truth values as 0 and 1, nan where there is none; None where there is anything else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
        numbers: Array = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return numbers
    if not pa.types.is_string(values.type):
        return None
    codes = pc.index_in(pc.utf8_lower(pc.utf8_trim_whitespace(values)), pa.array(list(_TRUTH)))
    if codes.null_count != values.null_count:
        return None
    truth = np.append(np.array(list(_TRUTH.values()), dtype=np.float64), np.nan)
    found: Array = truth[pc.fill_null(codes, len(_TRUTH)).to_numpy(zero_copy_only=False)]
    return found


def _first_other(values: Any, kind: str) -> Any:
    """The first value that is not of this kind."""
    convert = try_truth if kind == BOOLEAN else try_numbers
    return next((values[i].as_py() for i in range(len(values)) if convert(values[i : i + 1]) is None), None)
