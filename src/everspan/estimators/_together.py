"""Many tasks at once: those of one size are fitted on the features together, and then learned one after another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..learners import Fit, Fits
from ..tasks import Array, Rows


@dataclass
class Foreseen:
    """A learner whose first fit is known already."""

    learner: Any
    fits: list[Fit]

    def fit(self, rows: Rows) -> Fit:
        found: Fit = self.fits.pop() if self.fits else self.learner.fit(rows)
        return found


class Source:
    """A stream of tasks; what goes wrong in it is said after the tasks that came before are learned."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self._stream, self._came = iter(stream), 0
        self._error: Exception | None = None

    def take(self, count: int) -> list[tuple[Hashable, Any, Any]]:
        """The next tasks, up to so many: (name, rows, labels)."""
        taken: list[tuple[Hashable, Any, Any]] = []
        while len(taken) < count and self._error is None:
            try:
                item = next(self._stream)
            except StopIteration:
                break
            except Exception as error:
                self._error = error
                break
            if not isinstance(item, tuple | list) or len(item) != 3:
                self._error = ValueError(f"a stream has (task, X, y) for every task, but place {self._came} has not")
                break
            taken.append((item[0], item[1], item[2]))
            self._came += 1
        return taken

    def complain(self) -> None:
        if self._error is not None:
            raise self._error


class Block:
    """What is known of some tasks before they are learned: their fits on the features, and which these serve."""

    def __init__(self, tasks: int, dimension: int, summary: int) -> None:
        self.fits: dict[int, tuple[Fits, int]] = {}
        self.served: NDArray[np.bool_] = np.zeros(tasks, dtype=bool)
        self.coefficients, self.intercepts = np.zeros((tasks, dimension)), np.zeros(tasks)
        self.errors = np.zeros((tasks, 2))
        self.summaries = np.zeros((tasks, summary))
        self.means: dict[int, Array] = {}
        self.labels_used = np.zeros(tasks, dtype=np.intp)
        self.classes: list[Any] = [None] * tasks
        self.seconds = 0.0

    def fit(self, place: int) -> Fit | None:
        """What the learner found for a task, if it was fitted with others."""
        fits, i = self.fits.get(place, (None, 0))
        return None if fits is None else fits[i]

    def run(self, start: int, most: int) -> int:
        """How many tasks from this one on are served."""
        rest = self.served[start : start + most]
        return int(rest.argmin()) if not rest.all() else len(rest)
