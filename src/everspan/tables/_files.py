"""Table files, whatever their format, as batches of rows: text, truth values and numbers."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._arrow import checked_batches, schema_of

MEMORY = 1 << 28  # bytes that reading and sorting a table may take
_BLOCK = 1 << 22  # bytes of a text table that are read at once; Arrow takes forty times as much memory
_LEAST_BLOCK = 1 << 18
_LINES = 64  # lines like the first that must fit into a block: no row may be longer than a block
_FIRST_LINE = 1 << 24  # bytes of the first line at most
_ROWS = 1 << 16  # rows of a batch at most
_LONG_ROW, _LARGE_GROUP = 1 << 14, 1 << 26  # bytes: of a row with long texts, and of a row group that may have such
_PARQUET_ROWS = 1 << 14  # rows of Parquet that are decoded at once, at most
_CELLS = 1 << 18  # and cells
_DECOMPRESSED = 1 << 29  # bytes of a compressed Arrow batch that are always allowed
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
    memory : int
        Bytes that reading may take: batches have fewer rows where rows are large.
    """

    path: Path
    format: str
    kinds: dict[str, str]
    delimiter: str = ","
    block: int = _BLOCK
    skipped: int = 0
    nameless: int = 0
    memory: int = MEMORY

    @classmethod
    def open(cls, path: Any, memory: int = MEMORY) -> TableFile:
        """Look at the names and kinds of the columns; reading them will take about ``memory`` bytes at most."""
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
                return cls._typed(target, "parquet", memory)
            if start[:6] == b"ARROW1":
                return cls._typed(target, "arrow", memory)
            if start[:4] == b"\xff\xff\xff\xff":
                return cls._typed(target, "arrow stream", memory)
            return cls._text(target, "csv.gz" if start[:2] == b"\x1f\x8b" else "csv", memory)

    @classmethod
    def _typed(cls, path: Path, format: str, memory: int) -> TableFile:
        import pyarrow.parquet as pq

        schema = pq.read_schema(path) if format == "parquet" else schema_of(path, format)
        _check_names(path, schema.names)
        kinds = {field.name: _kind_of(field.type) for field in schema if field.name}
        return cls(path, format, kinds, nameless=sum(not field.name for field in schema), memory=memory)

    @classmethod
    def _text(cls, path: Path, format: str, memory: int) -> TableFile:
        line = _first_line(path, format)
        said = re.fullmatch(r"sep=(.)\s*", line, flags=re.IGNORECASE)  # Excel says so what separates columns
        counts = {mark: _outside_quotes(line, mark) for mark in _DELIMITERS}
        delimiter = said[1] if said else max(counts, key=lambda mark: counts[mark]) if any(counts.values()) else ","
        block = max(min(_BLOCK, max(_LEAST_BLOCK, memory // 128)), min(_LINES * len(line), 2 * _FIRST_LINE))
        table = cls(path, format, {}, delimiter, block, int(said is not None), memory=memory)
        names = table._reader(None).schema.names
        _check_names(path, names)
        return replace(table, kinds={name: TEXT for name in names if name}, nameless=sum(not name for name in names))

    def batches(
        self,
        columns: Sequence[str],
        *,
        task: str | None = None,
        target: str | None = None,
        keep: Sequence[str] = (),
        row_bytes: int = 0,
    ) -> Iterator[Any]:
        """Record batches of these columns, in the order of rows: strings, booleans, whole numbers, doubles.

        Empty and blank texts are missing; ``NA``, ``NaN`` and ``null`` are so too, but not as the name of a task, and
        ``none`` not as that of a class. A column to ``keep`` comes once more, untouched, behind the others.

        A batch takes at most a sixteenth of ``memory``, or has one row. ``row_bytes`` are what the caller needs for a
        row besides.
        """
        budget = max(1 << 20, self.memory // 16)
        with _Errors(self):
            for batch in self._raw(list(dict.fromkeys([*columns, *keep])), budget):
                for piece in _pieces(batch, budget, row_bytes):
                    yield self._plain(piece, columns, task, target, keep)

    def _plain(
        self, batch: Any, columns: Sequence[str], task: str | None, target: str | None, keep: Sequence[str]
    ) -> Any:
        """The same batch with few types of columns."""
        import pyarrow as pa

        held = columns_of(batch)
        arrays = []
        for name in columns:
            values = held[name].dictionary_decode() if pa.types.is_dictionary(held[name].type) else held[name]
            kind = _kind_of(values.type)
            if name == task:
                values = _missing(_as_names(values), _NOTHING)
            elif kind == NUMBER and name == target and pa.types.is_decimal(values.type):
                values = values.cast(pa.string())  # keeps all digits of a class
            elif kind == NUMBER and pa.types.is_integer(values.type):
                values = values if pa.types.is_uint64(values.type) else values.cast(pa.int64())
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

    def _raw(self, columns: list[str], budget: int) -> Iterator[Any]:
        if self.format == "parquet":
            yield from _parquet_batches(self.path, columns, budget)
        elif self.format in ("arrow", "arrow stream"):
            yield from checked_batches(self.path, self.format, columns, max(self.memory, _DECOMPRESSED))
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


def _parquet_batches(path: Path, columns: list[str], budget: int) -> Iterator[Any]:
    """Batches of a Parquet file that take about ``budget`` bytes.

    Texts are read as places in a dictionary: a text of a megabyte may stand in every row of a small file. Where every
    row has another long text, pages may be as large as their row group: such groups must be small.
    """
    with _streamed(path) as file:
        texts = [field.name for field in file.schema_arrow if field.name in columns and _kind_of(field.type) == TEXT]
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        for group in groups:
            long = group.num_rows > 0 and group.total_byte_size / group.num_rows > _LONG_ROW
            if texts and long and group.total_byte_size > max(_LARGE_GROUP, 16 * budget):
                raise TableError(
                    f"{path}: has row groups of {group.total_byte_size / 1e6:,.0f} MB with very long texts: write it "
                    f"with row groups of at most {_LARGE_GROUP / 1e6:,.0f} MB, or leave these columns out"
                )
        share = len(columns) / max(1, len(file.schema_arrow))
        row = max((share * group.total_byte_size / group.num_rows for group in groups if group.num_rows > 0), default=0)
    rows = max(1, min(int(budget / max(row, 8.0 * len(columns))), _PARQUET_ROWS, _CELLS // len(columns)))
    with _streamed(path, texts) as file:
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            batch.validate(full=True)
            yield batch


def _streamed(path: Path, as_dictionary: Sequence[str] = ()) -> Any:
    """A Parquet file that is read page by page, not a whole row group at once.

    The metadata of column chunks are not looked at: damaged ones end the process in pyarrow 26.
    """
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, read_dictionary=list(as_dictionary), pre_buffer=False, buffer_size=1 << 16)


def _pieces(batch: Any, budget: int, row_bytes: int) -> Iterator[Any]:
    """Slices of a batch that take at most ``budget`` bytes as plain columns, or have one row."""
    if not len(batch):
        return
    ends = np.cumsum(_row_sizes(batch) + row_bytes)
    first = 0
    while first < len(batch):
        done = ends[first - 1] if first else 0
        end = max(first + 1, min(first + _ROWS, int(np.searchsorted(ends, done + budget, side="right"))))
        yield batch.slice(first, end - first)
        first = end


def _row_sizes(batch: Any) -> NDArray[np.int64]:
    """The bytes that every row of a batch takes as plain columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sizes = np.zeros(len(batch), dtype=np.int64)
    for values in batch.columns:
        place = None
        if pa.types.is_dictionary(values.type):
            values, place = values.dictionary, values.indices.fill_null(0)
        if _kind_of(values.type) != TEXT:
            sizes += max(8, values.nbytes // max(1, len(values)))
            continue
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        lengths = pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) + 16
        sizes += lengths if place is None else np.append(lengths, 16)[place.to_numpy(zero_copy_only=False)]
    return sizes


def _needs_arrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise TableError(f"reading tables needs pyarrow ({error}): pip install 'everspan[tables]'") from error


class _Errors:
    """What goes wrong with a table, in one line that names it."""

    def __init__(self, table: TableFile | Path) -> None:
        self.path, self.block = (table, _BLOCK) if isinstance(table, Path) else (table.path, table.block)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not isinstance(error, Exception):  # also of a reader that nobody reads any more
            return
        import pyarrow as pa

        odd = OSError | UnicodeDecodeError | EOFError | zlib.error | OverflowError | MemoryError
        if isinstance(error, pa.ArrowException | odd):
            lines = str(error).strip().splitlines() or [type(error).__name__]
            if "straddling" in lines[0]:
                lines = [f"a row is longer than {self.block / 2**20:.3g} MB, or a quote is never closed"]
            raise TableError(f"{self.path}: cannot be read as a table: {lines[0]:.300}") from error


def _first_line(path: Path, format: str) -> str:
    with gzip.open(path) if format == "csv.gz" else path.open("rb") as file:
        line: bytes = file.readline(_FIRST_LINE)
    if len(line) == _FIRST_LINE:
        raise TableError(f"{path}: its first line is longer than {_FIRST_LINE >> 20} MB")
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

    if pa.types.is_floating(values.type) or (pa.types.is_decimal(values.type) and values.type.scale < 0):
        numbers = values.cast(pa.float64(), safe=False)
        whole = pc.and_(pc.equal(numbers, pc.floor(numbers)), pc.less(pc.abs(numbers), 2.0**53))
        short = pc.if_else(whole, numbers, None).cast(pa.int64(), safe=False).cast(pa.string())
        numbers = pc.if_else(pc.is_nan(numbers), None, numbers)
        return pc.coalesce(short, numbers.cast(pa.string()))
    texts = values.cast(pa.string())
    if pa.types.is_temporal(values.type):
        texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+(\D|$)", r"\1\2")
        return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\.(\D|$)", r"\1"), r" 00:00:00$", "")
    if pa.types.is_decimal(values.type):
        texts = pc.replace_substring_regex(texts, r"^(-?\d+\.\d*[1-9])0+$", r"\1")
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
