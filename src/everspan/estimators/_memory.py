"""A random sample of the rows of every class, of bounded size in total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tasks import Array


@dataclass(frozen=True, eq=False)
class RowMemory:
    """Rows, their labels, how often each counts, and the random keys that decide which rows stay.

    Of every class those with the smallest keys stay, so that what is kept is a uniform sample of all rows seen,
    however often the room for a class has shrunk. ``totals`` is what all rows seen of a class count.
    """

    rows: Array
    labels: Any
    counts: Array
    keys: Array
    totals: dict[Any, float]

    @property
    def aside(self) -> NDArray[np.bool_]:
        """A fifth of the rows, always the same: no feature is learned from them, so that they can judge."""
        aside: NDArray[np.bool_] = np.floor(self.keys * 2.0**20) % 5 == 0
        return aside

    def joined(self, X: Array, y: Any, counts: Array, seed: int) -> RowMemory:
        """The rows kept and all of these."""
        keys = np.random.default_rng(seed).random(len(X))
        totals = dict(self.totals)
        labels, inverse = np.unique(y, return_inverse=True)
        for label, total in zip(labels.tolist(), np.bincount(inverse, weights=counts), strict=True):
            totals[label] = totals.get(label, 0.0) + float(total)
        return RowMemory(
            np.vstack([self.rows, X]),
            np.concatenate([self.labels, y]) if len(self.labels) else np.asarray(y),
            np.concatenate([self.counts, counts]),
            np.concatenate([self.keys, keys]),
            totals,
        )

    def trimmed(self, size: int | None) -> RowMemory:
        """At most ``size`` rows, the same number for every class that has as many."""
        if size is None or len(self.rows) <= size:
            return self
        _, inverse, have = np.unique(self.labels, return_inverse=True, return_counts=True)
        room = _shared_room(have, size)
        order = np.lexsort((self.keys, inverse))
        rank = np.arange(len(order)) - np.searchsorted(inverse[order], inverse[order])
        kept = np.sort(order[rank < room[inverse[order]]])
        return RowMemory(self.rows[kept], self.labels[kept], self.counts[kept], self.keys[kept], self.totals)

    def without(self, labels: tuple[Any, ...]) -> RowMemory:
        """The rows of all other classes."""
        kept = ~np.isin(self.labels, np.array(labels))
        totals = {label: total for label, total in self.totals.items() if label not in labels}
        return RowMemory(self.rows[kept], self.labels[kept], self.counts[kept], self.keys[kept], totals)

    def weights(self) -> Array:
        """How much each row stands for, so that classes weigh what all their rows seen would."""
        labels, inverse = np.unique(self.labels, return_inverse=True)
        totals = np.array([self.totals[label] for label in labels.tolist()])
        weights: Array = self.counts * (totals / np.bincount(inverse, weights=self.counts))[inverse]
        return weights


def _shared_room(have: Any, size: int) -> Any:
    """Equal room for all; what small classes leave goes to the others."""
    room = np.zeros(len(have), dtype=np.intp)
    for done, position in enumerate(np.argsort(have, kind="stable")):
        room[position] = min(have[position], (size - room.sum()) // (len(have) - done))
    return room
