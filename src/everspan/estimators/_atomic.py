"""State that changes at one moment or not at all, whoever interrupts and whoever reads meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from threading import RLock
from typing import Any, Self, TypeVar

from numpy.linalg import LinAlgError
from sklearn.base import BaseEstimator

from ..prior import Prior
from ..tasks import Array
from ._predictors import NO_ROOM

Result = TypeVar("Result")
_GROWING = ("predictors_", "history_")  # columns that states share: a fork appends, and no reader looks further
_UNSHARED = ("_lock", "_cache", "_resolved")  # not part of a copy or a pickle


class Cache:
    """What predictions computed from a state. States share it until a predictor is replaced or forgotten."""

    def __init__(self) -> None:
        self.posteriors: tuple[Prior | None, dict[int, Array]] = (None, {})
        self.average: tuple[Any, Array, float] | None = None


class Atomic(BaseEstimator):  # type: ignore[misc]
    """An estimator whose state is replaced as a whole.

    The state is the instance's ``__dict__``. Learning works on a fork of it and puts the fork in its place with one
    assignment. A call that fails or is interrupted before that assignment leaves the old state, which nobody has
    touched. Predictions read the state that they found when they began. So readers need no lock; a lock per model
    serialises the writers.
    """

    @property
    def _lock(self) -> Any:
        return self.__dict__.setdefault("_lock", RLock())  # one C call: two threads get the same lock

    def _view(self) -> Self:
        """The model as it is now: later changes do not reach it."""
        view = object.__new__(type(self))
        view.__dict__ = self.__dict__
        return view

    def _fork(self) -> Self:
        """A model with a state of its own that begins as this one's."""
        fork = object.__new__(type(self))
        fork.__dict__ = dict(self.__dict__)
        for name in _GROWING:
            if name in fork.__dict__:
                fork.__dict__[name] = fork.__dict__[name].fork()
        return fork

    def _commit(self, step: Callable[[Self], Result]) -> Result:
        """Run a step on a fork, whose state then becomes this model's; a step that fails changes nothing."""
        try:
            with self._lock:
                self._load_tasks()
                before, fork = self.__dict__, self._fork()
                result = step(fork)
                if self.__dict__ is not before:
                    raise RuntimeError("the model was changed by what it learned from (its source, learner or refiner)")
                self.__dict__ = fork.__dict__
                return result
        except LinAlgError as error:
            raise ValueError(NO_ROOM) from error

    def set_params(self, **params: Any) -> Self:
        """Set parameters, all of them or, where one is wrong, none; waits while another thread learns."""
        with self._lock:
            fork = self._fork()
            super(Atomic, fork).set_params(**params)
            self.__dict__ = fork.__dict__
        return self

    def __getstate__(self) -> Any:
        self._load_tasks()
        view = object.__new__(type(self))
        view.__dict__ = dict(self.__dict__)  # at once: threads that predict put their caches into the original
        state = {name: value for name, value in super(Atomic, view).__getstate__().items() if name not in _UNSHARED}
        shared = {name: copy(state[name]) for name in (*_GROWING, "_label_set_of", "_saved") if name in state}
        return state | shared

    def _load_tasks(self) -> None:
        """Read what is still on disk of the state."""
