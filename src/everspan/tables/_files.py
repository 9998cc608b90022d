"""Table files, whatever their format, as batches of rows: text, truth values and numbers."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_BLOCK = 1 << 22  # bytes of a text table that are read at once, at least; Arrow takes forty times as much memory
_LINES = 64  # lines like the first that must fit into it: no row may be longer
_ROWS = 1 << 16  # rows of a binary table that are read at once
_CELLS = 1 << 22  # and cells
_DELIMITERS = ",\t;|"
MOST_COLUMNS = 200_000
NUMBER, BOOLEAN, TEXT, EMPTY, DATE = "number", "boolean", "text", "is empty", "is a date or a time"
_NOTHING = [""]
_MISSING = [*_NOTHING, "NA", "N/A", "#N/A", "NaN", "nan", "NULL", "null", "NaT", "<NA>"]
_ABSENT = [*_MISSING, "None", "none"]


class TableError(ValueError):
    """A table that cannot be read, or not as it was asked for."""


@dataclass(frozen=True)
class TableFile:
    """A table in a file: CSV, gzipped or not, Parquet, or Arrow. What it is, its first bytes say.

    Attributes
    ----------
    kinds : dict
        Of every column with a name: "number", "boolean", "text", or why it cannot be used. Text tables say "text" of
        all: what is behind it, a `Scan` finds out.
    nameless : int
        Columns without a name, which are not used.
    """

    path: Path
    format: str
    kinds: dict[str, str]
    delimiter: str = ","
    block: int = _BLOCK
    skipped: int = 0
    nameless: int = 0

    @classmethod
    def open(cls, path: Any) -> TableFile:
        """Look at the names and kinds of the columns."""
        _needs_arrow()
        target = Path(path)
        if not target.exists():
            raise TableError(f"{target}: there is no such file")
        if target.is_dir():
            raise TableError(f"{target}: is a folder; tables are CSV, gzipped CSV, Parquet or Arrow files")
        with _Errors(target):
            with target.open("rb") as file:
                start = file.read(8)
            if not start:
                raise TableError(f"{target}: is empty")
            if start[:4] == b"PAR1":
                return cls._typed(target, "parquet")
            if start[:6] == b"ARROW1":
                return cls._typed(target, "arrow")
            if start[:4] == b"\xff\xff\xff\xff":
                return cls._typed(target, "arrow stream")
            return cls._text(target, "csv.gz" if start[:2] == b"\x1f\x8b" else "csv")

    @classmethod
    def _typed(cls, path: Path, format: str) -> TableFile:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if format == "parquet":
            schema = pq.read_schema(path)
        else:
            opened = pa.ipc.open_file if format == "arrow" else pa.ipc.open_stream
            with pa.memory_map(str(path)) as source, opened(source) as file:
                schema = file.schema
        _check_names(path, schema.names)
        kinds = {field.name: _kind_of(field.type) for field in schema if field.name}
        return cls(path, format, kinds, nameless=sum(not field.name for field in schema))

    @classmethod
    def _text(cls, path: Path, format: str) -> TableFile:
        line = _first_line(path, format)
        said = re.fullmatch(r"sep=(.)\s*", line, flags=re.IGNORECASE)  # Excel says so what separates columns
        counts = {mark: _outside_quotes(line, mark) for mark in _DELIMITERS}
        delimiter = said[1] if said else max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","
        table = cls(path, format, {}, delimiter, max(_BLOCK, _LINES * len(line)), int(said is not None))
        names = table._reader(None).schema.names
        _check_names(path, names)
        return replace(table, kinds={name: TEXT for name in names if name}, nameless=sum(not name for name in names))

    def batches(
        self, columns: Sequence[str], *, task: str | None = None, target: str | None = None, keep: Sequence[str] = ()
    ) -> Iterator[Any]:
        """Record batches of these columns, in the order of rows: strings, booleans, doubles.

        Empty and blank texts are missing; ``NA``, ``NaN`` and ``null`` are so too, but not as the name of a task, and
        ``none`` not as that of a class. A column to ``keep`` comes once more, untouched, behind the others.
        """
        with _Errors(self.path):
            for batch in self._raw(list(dict.fromkeys([*columns, *keep]))):
                yield self._plain(batch, columns, task, target, keep)

    def _plain(
        self, batch: Any, columns: Sequence[str], task: str | None, target: str | None, keep: Sequence[str]
    ) -> Any:
        """The same batch with three types of columns."""
        import pyarrow as pa

        held = columns_of(batch)
        arrays = []
        for name in columns:
            values = held[name].dictionary_decode() if pa.types.is_dictionary(held[name].type) else held[name]
            kind = _kind_of(values.type)
            if name == task:
                values = _missing(_as_names(values), _NOTHING)
            elif kind == NUMBER and not pa.types.is_float64(values.type):
                values = values.cast(pa.float64(), safe=False)
            elif kind == TEXT:
                values = _missing(values.cast(pa.string()), _MISSING if name == target else _ABSENT)
                values = _with_points(values) if self.delimiter == ";" else values
            arrays.append(values)
        arrays += [
            held[name].dictionary_decode() if pa.types.is_dictionary(held[name].type) else held[name] for name in keep
        ]
        return pa.RecordBatch.from_arrays(arrays, names=[*columns, *(f"kept {i}" for i in range(len(keep)))])

    def _raw(self, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.format == "parquet":
            with pq.ParquetFile(self.path) as file:
                rows = max(1, min(_ROWS, _CELLS // max(1, len(columns))))
                yield from file.iter_batches(batch_size=rows, columns=columns)
        elif self.format == "arrow":
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_file(source) as file:
                yield from _slices((file.get_batch(place) for place in range(file.num_record_batches)), columns)
        elif self.format == "arrow stream":
            with pa.memory_map(str(self.path)) as source, pa.ipc.open_stream(source) as stream:
                yield from _slices(stream, columns)
        else:
            yield from self._reader(columns)

    def _reader(self, columns: list[str] | None) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        source: Any = self.path
        if self.format == "csv.gz":
            source = pa.CompressedInputStream(pa.OSFile(str(self.path)), "gzip")
        convert = csv.ConvertOptions(
            include_columns=columns,
            column_types=dict.fromkeys(columns or (), pa.string()),
            strings_can_be_null=False,  # what is missing is said below, for all formats alike
        )
        return csv.open_csv(
            source,
            read_options=csv.ReadOptions(block_size=self.block, use_threads=False, skip_rows=self.skipped),
            parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=convert,
        )


def _slices(batches: Iterable[Any], columns: list[str]) -> Iterator[Any]:
    """Not too many rows at once."""
    for batch in batches:
        for first in range(0, len(batch), _ROWS):
            yield batch.select(columns).slice(first, _ROWS)


def _needs_arrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError(f"reading tables needs pyarrow ({error}): pip install 'everspan[tables]'") from error


class _Errors:
    """What goes wrong with a table, in one line that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, pa.ArrowException | OSError | UnicodeDecodeError | EOFError | zlib.error | OverflowError):
            lines = str(error).strip().splitlines() or [type(error).__name__]
            if "straddling" in lines[0]:
                lines = ["a row is longer than 4 MB, or a quote is never closed"]
            raise TableError(f"{self.path}: cannot be read as a table: {lines[0]:.300}") from error


def _first_line(path: Path, format: str) -> str:
    with gzip.open(path) if format == "csv.gz" else path.open("rb") as file:
        line: bytes = file.readline(1 << 25)
    if line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in line:
        raise TableError(f"{path}: is neither UTF-8 text nor Parquet nor Arrow")
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{path}: is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _outside_quotes(line: str, mark: str) -> int:
    return sum(part.count(mark) for part in line.split('"')[::2])


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise TableError(f"{path}: has {len(names):,} columns, more than {MOST_COLUMNS:,}")
    seen: set[str] = set()
    for name in names:
        if name and name in seen:
            raise TableError(f"{path}: has two columns with the name {name!r:.60}")
        seen.add(name)
    if not seen - {""}:
        raise TableError(f"{path}: has no column with a name")


def _kind_of(dtype: Any) -> str:
    from pyarrow import types

    value = dtype.value_type if types.is_dictionary(dtype) else dtype
    if types.is_boolean(value):
        return BOOLEAN
    if types.is_integer(value) or types.is_floating(value) or types.is_decimal(value):
        return NUMBER
    if types.is_string(value) or types.is_large_string(value) or types.is_string_view(value):
        return TEXT
    if types.is_null(value):
        return EMPTY
    if types.is_date(value) or types.is_timestamp(value):
        return DATE
    if types.is_temporal(value):
        return "is a time of day or a length of time"
    return f"has values of type {value}"[:60]


def columns_of(batch: Any) -> dict[str, Any]:
    """Columns by name: looking one up in a batch takes as long as there are columns."""
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _as_names(values: Any) -> Any:
    """Numbers as text, whole ones without a point, however they are kept: 7 and 7.0 are one name; so are dates."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = values.cast(pa.float64(), safe=False)
        whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), 2.0**53))
        short = pc.if_else(whole, numbers, None).cast(pa.int64(), safe=False).cast(pa.string())
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
        return pc.coalesce(short, numbers.cast(pa.string()))
    texts = values.cast(pa.string())
    if pa.types.is_temporal(values.type):
        texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+(\D|$)", r"\1\2")
        return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\.(\D|$)", r"\1"), r" 00:00:00$", "")
    texts = pc.replace_substring_regex(texts, r"^(-?\d+)\.0+$", r"\1")
    return pc.replace_substring_regex(pc.replace_substring_regex(texts, "^True$", "true"), "^False$", "false")


def _missing(texts: Any, these: list[str]) -> Any:
    """Texts without those that say that there is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(these)), pa.scalar(None, pa.string()), texts)


def _with_points(texts: Any) -> Any:
    """Numbers with a decimal comma, as tables have them whose columns are separated by semicolons, with a point."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, r"^(\s*[-+]?\d+),(\d+\s*)$", r"\1.\2")
