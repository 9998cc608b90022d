"""Arrow files and streams, checked before they are read: Arrow trusts the sizes and offsets that a file claims.

A message is a flatbuffer with the sizes of its buffers, and a body with the buffers. `checked_batches` compares these
sizes with the file and with the memory there is before Arrow decodes anything. The values in the buffers are checked by
`RecordBatch.validate`, batch by batch. The format: https://arrow.apache.org/docs/format/Columnar.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_MAGIC = b"ARROW1"
_DICTIONARY, _RECORDS = 2, 3  # kinds of messages


def schema_of(path: Path, format: str) -> Any:
    """The schema of an Arrow file or stream."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(_messages(source.read_buffer(), format)) as stream:
        return stream.schema


def checked_batches(path: Path, format: str, columns: list[str], memory: int) -> Iterator[Any]:
    """The columns of one record batch after another, each checked before and after it is decoded.

    The decompressed buffers of a batch must fit into ``memory`` bytes. What is wrong is a pyarrow.ArrowInvalid.
    """
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        messages = _messages(source.read_buffer(), format)
        checks = _checked(messages, memory)
        with pa.ipc.open_stream(messages) as stream:
            while next(checks, False):
                batch = stream.read_next_batch().select(columns)
                batch.validate(full=True)
                yield batch


def _messages(content: Any, format: str) -> Any:
    """The messages of an Arrow file or stream, as a buffer: a file is a stream between two magic words."""
    import pyarrow as pa

    if format == "arrow stream":
        return content
    end = content.size - len(_MAGIC) - 4
    tail = content.slice(max(0, end)).to_pybytes()
    footer = struct.unpack_from("<i", tail)[0] if end >= 8 and tail.endswith(_MAGIC) else -1
    if not 0 < footer <= end - 8:
        raise pa.ArrowInvalid("the file is cut off, or its footer is damaged")
    return content.slice(8, end - footer - 8)


def _checked(messages: Any, memory: int) -> Iterator[bool]:
    """Check the messages of a stream; yields True when all that the next record batch needs is sound."""
    import pyarrow as pa

    deltas = 0  # additions to dictionaries, which are kept
    for message in pa.ipc.MessageReader.open_stream(messages):
        try:
            kind, needed, delta = _needed(message.metadata.to_pybytes(), message.body)
        except (struct.error, ValueError) as error:
            raise pa.ArrowInvalid(f"the sizes of a batch are damaged: {error}") from error
        deltas += needed if delta else 0
        if needed + deltas > memory:
            raise pa.ArrowInvalid(
                f"a batch takes {(needed + deltas) / 1e6:,.0f} MB decompressed, more than {memory / 1e6:,.0f} MB: "
                "write the table in smaller batches"
            )
        if kind == _RECORDS:
            yield True


def _needed(metadata: bytes, body: Any) -> tuple[int, int, bool]:
    """The kind of a message, the bytes that its buffers take decompressed, and whether it adds to a dictionary."""
    message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    kind = message.number(1, "<B")
    if kind not in (_DICTIONARY, _RECORDS):
        return kind, 0, False
    header = message.table(2)
    batch, delta = (header.table(1), bool(header.number(2, "<B"))) if kind == _DICTIONARY else (header, False)
    starts, lengths = batch.pairs(2).T
    size = 0 if body is None else body.size
    if (starts < 0).any() or (lengths < 0).any() or (starts > size - lengths).any():
        raise ValueError("a buffer is not inside its message")
    if batch.offset(3) is None:  # no compression: the buffers are as they are in the file
        return kind, 0, delta
    content = memoryview(body) if size else b""
    claimed = [struct.unpack_from("<q", content, start)[0] for start in starts[lengths >= 8].tolist()]
    if any(amount < -1 for amount in claimed):  # -1: this buffer is not compressed
        raise ValueError("a buffer has a negative size")
    return kind, sum(max(0, amount) for amount in claimed), delta


class _Table:
    """A table of a flatbuffer: where its fields are. What lies outside the bytes is a struct.error."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._fields = position - struct.unpack_from("<i", data, position)[0]
        if self._fields < 0:
            raise struct.error("a negative offset")

    def offset(self, field: int) -> int | None:
        """Where a field is; None where the table does not have it."""
        if 4 + 2 * field >= struct.unpack_from("<H", self._data, self._fields)[0]:
            return None
        place = struct.unpack_from("<H", self._data, self._fields + 4 + 2 * field)[0]
        return self._position + place if place else None

    def number(self, field: int, kind: str) -> int:
        place = self.offset(field)
        return 0 if place is None else int(struct.unpack_from(kind, self._data, place)[0])

    def _target(self, field: int) -> int:
        place = self.offset(field)
        if place is None:
            raise struct.error("a field is missing")
        return place + int(struct.unpack_from("<I", self._data, place)[0])

    def table(self, field: int) -> _Table:
        return _Table(self._data, self._target(field))

    def pairs(self, field: int) -> Any:
        """A vector of structs of two 64-bit numbers, a row each."""
        if self.offset(field) is None:
            return np.zeros((0, 2), dtype=np.int64)
        place = self._target(field)
        count = struct.unpack_from("<I", self._data, place)[0]
        if place + 4 + 16 * count > len(self._data):
            raise struct.error("a vector is longer than its message")
        return np.frombuffer(self._data, dtype="<i8", count=2 * count, offset=place + 4).reshape(-1, 2)
