"""What the three estimators share: parameters, the stream of tasks, the predictors, scikit-learn's manners."""

from __future__ import annotations

import contextlib
import math
import numbers
import operator
import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..checks import CHECKS, HoldOut, Loss
from ..functions import ReLU
from ..learners import Learner, changed, named_learner
from ..lifelong import Outcome, Rules, learn, refine
from ..names import as_name
from ..representation import LinearRepresentation, Representation, SubspaceRefiner
from ..spread import Spread
from ..tasks import Array, History, Labels, Rows, TaskEvent
from ._checked import checked_choice, checked_count, checked_positive
from ._filed import Filed
from ._predictors import NO_SUMMARY, Kept, Predictors, check_finite
from ._tables import check_dtype, check_size

_OURS = (os.path.dirname(os.path.dirname(__file__)), contextlib.__file__)  # files of everspan and of its decorators


class RepresentationWarning(UserWarning):
    """The number of features, or the accuracy they were learned with, cannot be what was asked for."""


class DriftWarning(UserWarning):
    """A task's new rows are not what its old rows were."""


class LifelongEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Filed, ABC):  # type: ignore[misc]
    """The stream of tasks behind scikit-learn's face; see `LifelongClassifier` for the parameters."""

    _losses: ClassVar[tuple[str, ...]]
    _regression: ClassVar[bool] = False

    # What a kind of problem brings -----------------------------------------------------------------------------------

    @abstractmethod
    def _make_spread(self) -> Spread: ...

    @abstractmethod
    def _make_loss(self, rows: Rows) -> Loss: ...

    @abstractmethod
    def _constant_score(self, rows: Rows) -> float: ...

    def _finer_loss(self, rows: Rows) -> Loss:
        """What tells two fits apart where both err as often."""
        return self._make_loss(rows)

    def _trivial(self) -> float:
        """The share of rows that may be on one side without telling anything."""
        return 0.0

    def _shrunk(self) -> Learner | None:
        """Who learns a task with what earlier tasks say about it."""
        return None

    def _trusted(self) -> bool:
        """Whether what other tasks say of a task is known to be worth something."""
        return False

    def _directions(self) -> int:
        """How many directions other tasks know of along which tasks differ."""
        return 0

    def _summarised(self, kept: Kept, outcome: Outcome, rows: Rows, alone: bool) -> Kept:
        """A predictor with its rows in short; ``alone`` is the only one of its task."""
        return kept

    # Parameters ------------------------------------------------------------------------------------------------------

    def _rules(self) -> Rules:
        """The parameters, checked and resolved; again only when one was set anew."""
        state = self.__dict__
        given = [state[name] for name in _parameters(type(self))]
        known: tuple[list[Any], Rules] | None = state.get("_resolved")
        if known is None or not all(map(operator.is_, given, known[0])):
            bare = object.__new__(type(self))  # the rules refer to parameters, and to no state
            bare.__dict__ = dict(zip(_parameters(type(self)), given, strict=True))
            known = self._resolved = given, bare._resolve()
        return known[1]

    def _resolve(self) -> Rules:
        checked_positive("epsilon", self.epsilon)
        if self.n_features is not None:
            checked_count("n_features", self.n_features, 1)
        if self.epsilon_acc is not None:
            checked_positive("epsilon_acc", self.epsilon_acc)
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"confidence must be between 0 and 1, but it is {self.confidence!r}")
        checked_choice("accept", self.accept, ("estimate", "bound"))
        checked_choice("goal", self.goal, ("absolute", "excess"))
        checked_choice("loss", self.loss, self._losses)
        checked_choice("old_tasks", self.old_tasks, ("reproject", "freeze"))
        checked_choice("unseen_tasks", self.unseen_tasks, ("error", "average", "prior"))
        if not isinstance(self.representation, ReLU):
            checked_choice("representation", self.representation, ("linear", "relu"))
        if self.refine_above is not None:
            checked_count("refine_above", self.refine_above, 0)
        check = self.check
        if isinstance(check, str):
            checked_choice("check", check, tuple(CHECKS))
            check = CHECKS[check]
        if self.accept == "bound":
            if self.check == "auto":
                check = HoldOut()
            elif not isinstance(check, HoldOut):
                raise ValueError('accept="bound" needs rows that the fit has not seen: check="holdout" or "auto"')
            if self.loss not in ("error", "squared_error"):
                raise ValueError(f'accept="bound" has no bound for loss={self.loss!r}')
        return Rules(
            epsilon=float(self.epsilon),
            epsilon_acc=None if self.epsilon_acc is None else float(self.epsilon_acc),
            n_features=self.n_features,
            spread=self._make_spread(),
            learner=named_learner(self.learner, regression=self._regression, fit_intercept=bool(self.fit_intercept)),
            check=check,
            loss=self._make_loss,
            refiner=self._make_refiner(),
            refine_above=self.refine_above or 0,
            accept=self.accept,
            goal=self.goal,
            keep_better=self.old_tasks == "reproject",
            confidence=float(self.confidence),
            max_labels=checked_count("max_labels", self.max_labels, 1),
            regression=self._regression,
            constant=self._constant_score,
            finer=self._finer_loss,
            trivial=self._trivial(),
        )

    def _make_refiner(self) -> Any:
        checked_choice("rounding", self.rounding, ("certified", "extreme", "paper"))
        if self.refiner is None or callable(self.refiner):
            return self.refiner
        checked_choice("refiner", self.refiner, ("auto", "sdp", "svd"))
        return SubspaceRefiner(self.refiner, self.rounding)

    # State -----------------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        for name in [
            name
            for name in vars(self)
            if name.endswith("_") or name in ("_warned", "_entropy", "_cache", "_seen", "_texts", "_origin_task")
        ]:
            delattr(self, name)

    def _prepare(self, X: Any) -> Array:
        """Rows as numbers of the width and with the column names seen before, one row behind another in memory.

        (Sums over rows that lie otherwise differ in their last bits.)
        """
        if self._is_plain(X):  # the common case, without the tenth of a millisecond that the full check takes
            return np.ascontiguousarray(X)
        check_dtype("X", X)
        new = not hasattr(self, "n_features_in_")
        checked: Array = validate_data(self, X, dtype=np.float64, order="C", reset=new)
        return checked

    def _prepare_to_learn(self, X: Any) -> Array:
        """The same of rows to learn from, whose squares must have room."""
        rows = self._prepare(X)
        check_size("X", rows, getattr(self, "feature_names_in_", None))
        return rows

    def _is_plain(self, X: Any) -> bool:
        """Whether rows are numbers of the width seen before, finite, without names of columns."""
        return self._has_shape(X) and math.isfinite(float(np.add.reduce(X.ravel())))

    def _has_shape(self, X: Any) -> bool:
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.shape[1] == self.__dict__.get("n_features_in_", -1)
            and len(X) > 0
            and "feature_names_in_" not in self.__dict__
        )

    def _start(self, X: Array, weight: Array | None = None) -> None:
        """Set up an empty stream around the first rows."""
        empty = self.__dict__.get("_origin_task") == -1  # all tasks were forgotten
        known = None if empty else self.__dict__.get("representation_")
        if known is not None and isinstance(known, LinearRepresentation) != (self.representation == "linear"):
            raise ValueError("representation was set anew after tasks had been learned: fit forgets them first")
        if known is None:
            origin = np.average(X, axis=0, weights=weight) if self.fit_intercept else np.zeros(X.shape[1])
            self._origin_task: int | None = 0  # the position of the task whose rows' mean is the origin
            self.representation_: Representation = self._empty(origin)
            self.predictors_ = Predictors()
            self.predictors_.new_version(self.representation_.basis)
            self.history_ = History()
            state: Any = 0 if self.random_state is None else self.random_state
            if not isinstance(state, numbers.Integral):
                state = check_random_state(state).randint(2**31)
            self._entropy = int(state) % 2**31

    def _empty(self, origin: Array) -> Representation:
        if self.representation == "linear":
            return LinearRepresentation.empty(origin)
        kind = self.representation if isinstance(self.representation, ReLU) else ReLU()
        return kind.empty(origin, centred=bool(self.fit_intercept))

    def _lifted(self, X: Array) -> Array:
        """What the directions of predictors weigh, of rows as they came."""
        return self.representation_.lift(X - self.representation_.origin if self.fit_intercept else X)

    def _origin(self, X: Array) -> Array:
        self._start(X)
        origin: Array = self.representation_.origin
        return origin

    def _seed(self) -> int:
        """The seed of the next task's splits: the same whatever the tasks before it were."""
        return self._entropy * 2**32 + len(self.history_)

    def _learn_one(self, labels: Labels, rules: Rules, seed: int, alone: bool = True, shift: float = 0.0) -> Outcome:
        """Learn one predictor, the only one of its task or one of several; ``shift`` is then added to its scores."""
        shrunk = self._shrunk() if alone else None
        others = shrunk, self._trusted(), self._directions()
        outcome = learn(labels, self.representation_, rules, len(self.history_), seed, *others)
        if shift:
            fit, measured = outcome.fit, outcome.assessment
            fit = changed(fit, intercept=fit.intercept + shift)
            outcome = replace(outcome, fit=fit, assessment=replace(measured, scores=measured.scores + shift))
        if rules.n_features is not None and outcome.refinement is not None:
            self._warn_once(outcome.representation, outcome.refinement, rules)
        self.predictors_.add(self._kept(outcome, rules, labels.take(), alone))
        self._take_up(outcome.representation)
        return outcome

    def _kept(self, outcome: Outcome, rules: Rules, rows: Rows, alone: bool) -> Kept:
        """The outcome's predictor on what it stands on."""
        fit, errors = outcome.fit, (rules.value(outcome.assessment), outcome.plausible)
        feature = len(outcome.representation.features) - 1 if outcome.action == "grew" else -1
        version, coefficients = self.predictors_.version, fit.coef
        if outcome.stands_on == "itself":
            version, coefficients = -1, np.array([outcome.representation.scale(fit)])
        elif outcome.stands_on != "features":
            version = -2
        kept = Kept(version, feature, coefficients, fit.intercept, errors, NO_SUMMARY, 0, math.nan)
        return self._summarised(kept, outcome, rows, alone)

    def _take_up(self, representation: Representation) -> None:
        """Make this the current one."""
        if representation is not self.representation_:
            check_finite(representation.features, representation.errors, representation.basis)
            self.representation_ = representation
            self.predictors_.new_version(representation.basis)

    def _warn_once(self, representation: Representation, refinement: Any, rules: Rules) -> None:
        """Say what the dual bound proves: that k is too small, or features are less accurate than asked."""
        bound, radius = getattr(refinement, "lower_bound", 0.0), rules.radius()
        nearest = bound * float(representation.radii(radius).min())  # as bound is in units of each feature's radius
        if nearest <= radius or getattr(self, "_warned", False):
            return
        self._warned = True
        reason = "features are learned less accurately than epsilon_acc"
        if bound > 1.0:
            reason = "the tasks share more features than that, however accurately these are known"
        warn_caller(
            f"no subspace of n_features={rules.n_features} dimensions is nearer than {nearest:.3g} to all learned "
            f"features, where {radius:.3g} was asked for: {reason}",
            RepresentationWarning,
        )

    def _record(
        self,
        task: Hashable,
        outcomes: list[Outcome],
        error: float,
        started: float,
        *,
        labels_used: int = 0,
        mean: Array | None = None,
    ) -> TaskEvent:
        """Write the task into the history; nothing may fail after this."""
        grew = [outcome for outcome in outcomes if outcome.action == "grew"]
        one = outcomes[0] if len(outcomes) == 1 else None
        bounded = one is not None and one.assessment.upper is not None and math.isfinite(one.assessment.upper)
        wanted = [outcome.labels_wanted for outcome in outcomes if outcome.labels_wanted is not None]
        event = TaskEvent(
            task=task,
            action="grew" if grew else "reused",
            met=all(outcome.met for outcome in outcomes),
            error=storable_error(error),
            error_bound=one.assessment.upper if one and bounded else None,
            confidence=one.confidence if one and bounded else None,
            labels_used=labels_used or max(outcome.labels_used for outcome in outcomes),
            labels_wanted=max(wanted) if wanted else None,
            dimension=self.representation_.dimension,
            features_learned=len(self.representation_.features),
            refinement=grew[-1].refinement if grew else None,
            seconds=time.perf_counter() - started,
        )
        linear = isinstance(self.representation_, LinearRepresentation)
        self.predictors_.end_task(mean if linear else None)  # a mean is needed where predictors move
        self.history_.append(event)
        self._counted(len(self.history_))
        return event

    def _counted(self, tasks: int) -> None:
        """What is due after so many tasks."""

    # Forgetting -------------------------------------------------------------------------------------------------------

    def forget(self, task: Hashable = None) -> Self:
        """Remove a task: its predictor, its event, its classes, the feature learned from it.

        The representation is refined again from the other features, and the prior is learned again from the other
        tasks. If the task was the first one, the columns' origin, which was the mean of its rows, moves to the mean of
        the other tasks. Other tasks keep predicting. A call that fails or is interrupted removes nothing.

        Some traces stay. Other tasks were fitted on features, refined bases and priors while the task was known. Their
        weights, and the old bases that they stand on, stay as they are. Only learning all other tasks again, from
        their rows, removes these traces too. With ``representation="relu"`` the units that a task learned stay,
        because others may stand on them; of units without biases the origin stays as well.
        """
        self._commit(lambda model: model._forget(task))
        return self

    def _forget(self, task: Hashable) -> None:
        check_is_fitted(self, "history_")
        position, rules = self._position(task), self._rules()
        predictors, lost = self.predictors_.without(position)
        representation = self.representation_
        for feature in sorted(lost, reverse=True):
            representation = representation.without_feature(feature)
        if lost and len(representation.features):
            representation, _ = refine(representation, rules)
        if lost:
            predictors.new_version(representation.basis)
        self.representation_, self.predictors_ = representation, predictors
        for noted in ("_seen", "_texts"):  # by `everspan learn`
            others = {name: one for name, one in getattr(self, noted, {}).items() if self._places.get(name) != position}
            setattr(self, noted, others)
        self.history_ = self.history_.without(position)
        self.__dict__.pop("_cache", None)
        self._forgotten(position)
        if not len(self.history_):
            self._begin_anew()
        elif self.fit_intercept and position == self.__dict__.get("_origin_task", 0):
            self._move_origin(rules)
            self._origin_task = None

    def _begin_anew(self) -> None:
        """Keep parameters and columns alone; the next task sets the origin."""
        self.representation_ = self._empty(np.zeros(self.n_features_in_))
        self.predictors_ = Predictors()
        self.predictors_.new_version(self.representation_.basis)
        self.history_, self._origin_task = History(), -1
        self.__dict__.pop("_warned", None)

    @abstractmethod
    def _move_origin(self, rules: Rules) -> None:
        """Put the origin where the tasks that are left are."""

    def _forgotten(self, position: int) -> None:
        """Whatever else a kind of estimator must bring up to date."""

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def _places(self) -> Mapping[Hashable, int]:
        """The position of every task."""
        return self.history_.places

    @property
    def tasks_(self) -> list[Hashable]:
        """The names of the tasks learned, in order."""
        check_is_fitted(self, "history_")
        return list(self._places)

    def _position(self, task: Hashable) -> int:
        task = as_name(task)
        if task in self._places:
            return self._places[task]
        if task is None and len(self._places) == 1:
            return 0
        names = [repr(name) for name in self._places]
        known = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        if task is None:
            raise ValueError(f"name the task to predict for: task=... or tasks=...; known are {known or 'none'}")
        raise ValueError(f"task {task!r} has not been learned; known are {known or 'none'}")

    def transform(self, X: Any) -> Array:
        """The shared representation of rows, for any pipeline."""
        check_is_fitted(self, "representation_")
        view = self._view()
        Z: Array = view.representation_.transform(view._prepare(X) - view.representation_.origin)
        return Z

    @property
    def _n_features_out(self) -> int:
        return int(self.representation_.dimension)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn about the line outside everspan that called it."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def storable_error(error: float) -> float:
    """An error that a history can hold: nan, where it is not known, or a finite number."""
    if math.isinf(error):
        check_finite(error)
    return error


@cache
def _parameters(kind: Any) -> list[str]:
    names: list[str] = kind._get_param_names()
    return names
