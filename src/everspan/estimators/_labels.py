"""Labels as the loop wants them: tables and sources, checked and encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tasks import Array, LabelSource, Rows


class Demand:
    """Labels on demand: draws from a source as the loop asks, and keeps what was drawn."""

    def __init__(self, source: LabelSource, prepare: Callable[[Any, Any], tuple[Array, Any]], most: int) -> None:
        self._source, self._prepare, self._most = source, prepare, most
        self._X: Array | None = None
        self.raw: Any = np.zeros(0)
        self.on_demand = True

    def _draw(self, n: int) -> None:
        X, y = self._source.draw(n)
        if len(X) == 0 and self._X is not None:
            self.on_demand = False
            return
        X, y = self._prepare(X, y)
        if len(X) != len(y):
            raise ValueError(f"the source drew {len(X)} rows but {len(y)} labels")
        if len(X) > n:
            raise ValueError(f"the source was asked for {n} rows but drew {len(X)}")
        self.on_demand = len(X) == n
        if self._X is None:
            self._X, self.raw = X, y
        else:
            self._X, self.raw = np.vstack([self._X, X]), np.concatenate([self.raw, y])

    def drawn(self, n: int | None) -> tuple[Array, Any]:
        """All rows and labels drawn so far, after drawing up to n in all."""
        have = len(self.raw)
        if n is not None and n > have and self.on_demand:
            self._draw(n - have)
        if self._X is None:
            self._draw(min(64, self._most))
        assert self._X is not None
        return self._X, self.raw


class HalfspaceLabels:
    """Labels of two values on demand, as -1 and 1."""

    def __init__(self, demand: Demand, origin: Callable[[Array], Array]) -> None:
        self._demand, self._origin = demand, origin
        self.classes: Any = np.zeros(0)

    @property
    def on_demand(self) -> bool:
        return self._demand.on_demand

    def take(self, n: int | None = None) -> Rows:
        X, raw = self._demand.drawn(n)
        self.classes = np.unique(raw)
        if len(self.classes) > 2:
            raise ValueError(f"labels on demand must have two values, but the source drew {list(self.classes[:4])}")
        return Rows(X - self._origin(X), np.where(raw == self.classes[-1], 1.0, -1.0))


class RegressionLabels:
    """Numbers on demand."""

    def __init__(self, demand: Demand, origin: Callable[[Array], Array]) -> None:
        self._demand, self._origin = demand, origin

    @property
    def on_demand(self) -> bool:
        return self._demand.on_demand

    def take(self, n: int | None = None) -> Rows:
        X, raw = self._demand.drawn(n)
        return Rows(X - self._origin(X), np.asarray(raw, dtype=np.float64))
