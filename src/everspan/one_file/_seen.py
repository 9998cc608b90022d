"""Which rows of a task were learned already: a few bytes a row, and no row."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.uint32]


def digests(X: NDArray[np.float64], y: NDArray[Any]) -> Digests:
    """A number for every labelled row, the same for rows that are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.one_file import digests
    >>> a, b, c = digests(np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0]]), np.array(["no", "no", "no"]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    words = np.ascontiguousarray(X + 0.0, dtype="<f8").view("<u8")  # -0.0 is 0.0
    weights = np.random.default_rng(20).integers(0, 2**63, X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    total = (_mixed(words) * weights).sum(axis=1, dtype=np.uint64)
    labels, codes = np.unique(y, return_inverse=True)
    kinds = np.array([_digest_of(label) for label in labels.tolist()], dtype=np.uint64)
    found: Digests = (_mixed(total + kinds[codes]) >> np.uint64(32)).astype(np.uint32)
    return found


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _digest_of(label: Any) -> int:
    return int.from_bytes(hashlib.blake2b(repr(label).encode(), digest_size=8).digest(), "little")


def new_rows(seen: bytes | None, found: Digests) -> NDArray[np.bool_]:
    """Which rows were not learned before; a row that was learned twice is known twice."""
    if not seen:
        return np.ones(len(found), dtype=bool)
    known = np.frombuffer(seen, dtype="<u4")
    order = np.argsort(found, kind="stable")
    ordered = found[order]
    first = np.searchsorted(ordered, ordered, "left")
    times = np.searchsorted(known, ordered, "right") - np.searchsorted(known, ordered, "left")
    fresh = np.empty(len(found), dtype=bool)
    fresh[order] = np.arange(len(found)) - first >= times
    return fresh


def with_rows(seen: bytes | None, found: Digests) -> bytes:
    """What is known after these rows were learned."""
    known = np.frombuffer(seen or b"", dtype="<u4")
    return np.sort(np.concatenate([known, found])).astype("<u4").tobytes()
