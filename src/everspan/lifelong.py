"""The loop itself (paper, Algorithms 1 and 4): try the task on the features at hand; grow and refine if that fails.

`learn` is a function: a task's labels and a representation in, a predictor and the next representation out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from .checks import Assessment, AutoCheck, Check, CrossValidation, HoldOut, LeaveOneOut, Loss, without_lone_rows
from .learners import Fit, Learner, changed
from .representation import Refiner, Representation, SubspaceRefiner
from .spread import Spread, beyond_noise
from .tasks import Action, Array, Labels, Rows
from .threads import one_thread

FEW = 5  # rows, fewer of which teach nothing alone


@dataclass(frozen=True)
class Rules:
    """What is asked of every task; the parameters of `LifelongClassifier`, resolved."""

    epsilon: float
    epsilon_acc: float | None
    n_features: int | None
    spread: Spread
    learner: Learner
    check: Check
    loss: Callable[[Rows], Loss]
    refiner: Refiner | None
    refine_above: int
    accept: Literal["estimate", "bound"]
    goal: Literal["absolute", "excess"]
    keep_better: bool
    """Whether a task keeps its fit on the features where that is better than what it can teach itself."""
    confidence: float
    max_labels: int
    regression: bool
    constant: Callable[[Rows], float]
    """The score to give to all rows when all labels are the same."""
    finer: Callable[[Rows], Loss]
    """What tells two fits of a task apart where both err as often."""
    trivial: float
    """A share of rows that may be on one side without telling anything: always the other is good enough."""

    def accuracy(self, dimension: int) -> float:
        """epsilon_acc, the current dimension standing in for an unknown k."""
        if self.epsilon_acc is not None:
            return self.epsilon_acc
        return self.spread.epsilon_acc(self.epsilon, self.n_features or max(dimension, 1))

    def value(self, assessment: Assessment) -> float:
        """What must be below epsilon: the estimate, or its bound."""
        if self.accept == "estimate":
            return assessment.error
        return math.inf if assessment.upper is None else assessment.upper

    def radius(self) -> float:
        """How far from the truth a feature of the accuracy asked for may be."""
        return self.spread.distance(self.accuracy(1))

    def serves(self, attempt: Assessment, alone: Assessment | None = None) -> bool:
        """Whether a fit on the features is good enough, by itself or next to what the task reaches alone."""
        if self.value(attempt) <= self.epsilon:
            return True
        if self.goal == "absolute" or alone is None:
            return False
        reference = alone.lower if self.accept == "bound" and alone.lower is not None else alone.error
        return self.value(attempt) <= reference + self.epsilon


Ground = Literal["features", "units", "itself", "prior"]


@dataclass(frozen=True)
class Outcome:
    """What became of a task: its predictor, on the features it was tried on, on all units, by itself, or shrunk.

    There is much ``doubt`` (2) where its error is above epsilon or its labels cannot tell (3 where they are very few),
    and some (1) where its error may be above epsilon though its rows did not show it: what other tasks say about it may
    then be better than what its own labels do.
    """

    action: Action
    met: bool
    fit: Any
    stands_on: Ground
    assessment: Assessment
    plausible: float
    confidence: float | None
    labels_used: int
    labels_wanted: int | None
    representation: Representation
    doubt: int
    gained: float = math.nan
    """By how much what earlier tasks say did better on rows left out than the task alone, from -1 to 1, if known."""
    refinement: Any = None


@one_thread
def learn(
    labels: Labels,
    representation: Representation,
    rules: Rules,
    position: int,
    seed: int,
    shrunk: Learner | None = None,
    trusted: bool = False,
    directions: int = 0,
) -> Outcome:
    """Learn the task at this position of the stream.

    ``shrunk`` learns it with what earlier tasks say about it, where its own labels leave doubt. Where that is
    ``trusted``, because it tells of tasks before they are learned, some doubt is enough, and only what is surely better
    grows, or what may be missing: earlier tasks know of so many ``directions``.
    """
    trial = _Trial(labels, rules, position, seed)
    attempt: _Measured | None = None
    known: _Measured | None = None
    if representation.dimension or trial.of_one_label():
        attempt = trial.fit_on(representation.transform, rules.epsilon, 0.5 * rules.epsilon)  # c~_i on current features
        served = rules.serves(attempt.assessment)
        if representation.wider() and not (served and labels.on_demand):  # what functions are made of may do better
            wider = trial.fit_on(representation.lift, rules.epsilon, 0.5 * rules.epsilon, ground="units")
            if rules.value(wider.assessment) < rules.value(attempt.assessment):
                attempt, served = wider, rules.serves(wider.assessment)
        if served and not (shrunk and trial.doubt(attempt) > (0 if trusted else 1)):
            return trial.reused(attempt, representation)
    if shrunk and not labels.on_demand:
        known = trial.fit_on(_inputs, rules.epsilon, 0.5 * rules.epsilon, shrunk, "prior")
        attempt = known if trial.few else trial.better(known, attempt)
        served = rules.serves(attempt.assessment)
        if served or trial.few:
            return trial.reused(attempt, representation, served)

    accuracy = rules.accuracy(representation.dimension)
    learner = representation.learner(rules.learner, rules.regression, rules.radius())
    direct = trial.fit_on(_inputs, accuracy, accuracy, learner, "itself")  # w~_i, to within epsilon_acc
    if known is not None:
        trial.compare(known, direct)
    if attempt is not None and rules.serves(attempt.assessment, direct.assessment):
        return trial.reused(attempt, representation)
    teaches = bool(np.any(direct.fit.coef))
    leans = trusted and attempt is not None and not _surely_better(direct.assessment, attempt.assessment)
    if leans and attempt is not None and not (teaches and representation.dimension < directions):
        return trial.reused(attempt, representation, met=False)  # these labels teach less than earlier tasks do
    if not teaches:  # nothing in the inputs tells the labels apart
        nothing = Fit(np.zeros(representation.dimension), direct.fit.intercept)
        met = rules.serves(direct.assessment, direct.assessment)
        return trial.reused(replace(direct, fit=nothing, ground="features"), representation, met)

    error = rules.spread.distance(trial.distance_in_error(direct))
    outclassed = rules.keep_better and representation.outclasses(error)
    if attempt is not None and outclassed and not _surely_better(direct.assessment, attempt.assessment):
        return trial.reused(attempt, representation, met=False)  # these labels teach less than is known
    grown = representation.grown(direct.fit, error, direct.labels, labels.take())
    refined, refinement = refine(grown, rules)
    return trial.grew(attempt, direct, accuracy, refined, refinement, leans)


def refine(grown: Representation, rules: Rules) -> tuple[Representation, Any]:
    """Refine all learned features (Algorithm 2), if the representation has become large enough to need it."""
    if rules.refiner is None or grown.dimension <= rules.refine_above:
        return grown, None
    k = rules.n_features or grown.apparent_dimension()
    radius, refiner = rules.spread.distance(rules.accuracy(k)), rules.refiner
    if isinstance(refiner, SubspaceRefiner):
        refiner = refiner.suited(grown.accurate(radius))
    return grown.refined(refiner, k, radius)


@dataclass(frozen=True)
class _Measured:
    fit: Any
    assessment: Assessment
    noise: float
    task_risk: float
    labels: int
    ground: Ground

    @property
    def confidence(self) -> float | None:
        return None if self.assessment.upper is None else 1.0 - self.task_risk


class _Trial:
    """One task's labels, spent: every look at unseen rows takes its share of the task's risk."""

    def __init__(self, labels: Labels, rules: Rules, position: int, seed: int) -> None:
        self.labels, self.rules, self.seed = labels, rules, seed
        self.risk = 1.0 - rules.confidence
        self.bounded = rules.accept == "bound" or labels.on_demand
        if self.bounded:  # 1/2 + 1/6 + 1/12 + ... = 1: the promise holds for all tasks of the stream at once
            self.risk /= (position + 1) * (position + 2)
        self.looks, self.gained = 0, math.nan
        self.few = len(labels.take()) < FEW
        self.vague = self.of_one_label() or self._lopsided()

    def _lopsided(self) -> bool:
        if not self.rules.trivial:
            return False
        rows = self.labels.take()
        share = _share(rows.y > 0.0, rows.weight)
        return min(share, 1.0 - share) <= self.rules.trivial

    def better(self, one: _Measured, other: _Measured | None) -> _Measured:
        """The one that errs less on rows left out, finely measured."""
        return one if other is None or self.fineness(one) <= self.fineness(other) else other

    def compare(self, known: _Measured, direct: _Measured) -> None:
        """Note how much less what earlier tasks say errs than the task's own fit, as a share of both."""
        own, others = self.fineness(direct), self.fineness(known)
        self.gained = (own - others) / (own + others) if own + others > 0.0 else 0.0

    def doubt(self, measured: _Measured) -> int:
        """How much there is that a fit is within epsilon: none, some, much, or more than its labels can ever answer."""
        if self.few:
            return 3
        if self.vague or measured.assessment.error > self.rules.epsilon:
            return 2
        return int(measured.assessment.plausible > self.rules.epsilon)

    def fineness(self, measured: _Measured) -> float:
        """The loss, on the rows it was measured on, that tells fits apart."""
        rows = self.labels.take().part(measured.assessment.rows)
        return self.rules.finer(rows).mean(rows, measured.assessment.scores)

    def of_one_label(self) -> bool:
        y = self.labels.take().y
        return bool(len(y)) and bool(y.min() == y.max())

    def fit_on(
        self,
        transform: Callable[[Array], Array],
        level: float,
        hopeless: float,
        learner: Any = None,
        ground: Ground = "features",
    ) -> _Measured:
        """Fit and measure; with labels on demand, on twice as many until the bounds decide.

        They decide when the error is surely below the level, or that of every fit surely above ``hopeless``. For a
        try that is half the level: telling errors just below epsilon from those just above would take more labels
        than learning the feature.
        """
        labels, demanded = self.labels, self.labels.on_demand
        check = HoldOut(shuffle=False) if demanded else self.rules.check
        if hasattr(learner, "folds") and isinstance(check, AutoCheck | LeaveOneOut):
            check = CrossValidation(learner.folds)  # a network
        fit_rows = partial(self._fit, learner or self.rules.learner)
        rows = labels.take()
        while True:
            self.looks += 1
            risk = self.risk / (self.looks * (self.looks + 1)) if self.bounded else self.risk / 2.0
            if labels.on_demand:
                rows = labels.take(self._enough(rows, level, risk))
            shown = Rows(transform(rows.X), rows.y, rows.weight)
            loss = self.rules.loss(rows)
            scorer, assessment = check.measure(fit_rows, shown, loss, risk, self.seed)
            fit = cast(Any, scorer)
            noise = assessment.training if self.rules.goal == "excess" else 0.0
            if (
                not labels.on_demand
                or len(rows) >= self.rules.max_labels
                or _decided(assessment, shown, level, hopeless)
            ):
                return _Measured(fit, assessment, loss.share(fit.noise) or noise, self.risk, len(rows), ground)
            rows = labels.take(min(2 * len(rows), self.rules.max_labels))

    def _enough(self, rows: Rows, level: float, risk: float) -> int:
        """At least so many that the held-out quarter could prove the level."""
        least = 4 * self.rules.loss(rows).fewest_rows(level, risk)
        return min(max(len(rows), least), self.rules.max_labels)

    def _fit(self, learner: Any, rows: Rows) -> Any:
        if not rows.X.shape[1] and rows.y.min() != rows.y.max():
            return Fit(np.zeros(0), 0.0, np.zeros(len(rows)))  # no feature yet
        if rows.y.min() == rows.y.max() and not hasattr(learner, "prior"):
            value = self.rules.constant(rows)
            return Fit(np.zeros(rows.X.shape[1]), value, np.full(len(rows), value))
        fit = learner.fit(rows)
        unseen = getattr(fit, "unseen", None)
        if unseen is None or self.rules.regression or hasattr(learner, "prior"):
            return fit
        known = without_lone_rows(rows.y, unseen, rows.weight)
        return fit if known is unseen else changed(fit, unseen=known)

    def distance_in_error(self, direct: _Measured) -> float:
        """How far a direct fit seems to be from the best direction, as an error."""
        found, weights = direct.assessment, len(direct.fit.coef)
        return beyond_noise(self.rules.spread, found.error, direct.noise, weights, len(found.scores))

    def reused(self, attempt: _Measured, representation: Representation, met: bool = True) -> Outcome:
        wanted = None if met else self._wanted(attempt, self.rules.value(attempt.assessment), self.rules.epsilon)
        return self._outcome("reused", met, attempt, wanted, representation)

    def grew(
        self,
        attempt: _Measured | None,
        direct: _Measured,
        accuracy: float,
        representation: Representation,
        refinement: Any,
        leans: bool,
    ) -> Outcome:
        reached = direct.assessment.upper if self.bounded and direct.assessment.upper is not None else None
        reached = (direct.assessment.error if reached is None else reached) - direct.noise
        met = reached <= accuracy
        wanted = None if met else self._wanted(direct, reached, accuracy)
        measured = direct
        better = self.rules.keep_better and attempt and _surely_better(attempt.assessment, direct.assessment)
        if attempt is not None and (leans or better):
            measured = replace(attempt, labels=direct.labels)
        outcome = self._outcome("grew", met, measured, wanted, representation)
        return replace(outcome, refinement=refinement)

    def _outcome(
        self,
        action: Action,
        met: bool,
        measured: _Measured,
        wanted: int | None,
        representation: Representation,
    ) -> Outcome:
        return Outcome(
            action=action,
            met=met,
            fit=measured.fit,
            stands_on=measured.ground,
            assessment=measured.assessment,
            plausible=max(measured.assessment.plausible - measured.noise, 0.0),
            confidence=measured.confidence,
            labels_used=measured.labels,
            labels_wanted=wanted,
            representation=representation,
            doubt=self.doubt(measured),
            gained=self.gained,
        )

    def _wanted(self, measured: _Measured, reached: float, level: float) -> int | None:
        """Labels at which the level would be reached if errors fall like one over their number."""
        wanted = measured.labels * max(reached / level, 1.05)
        return math.ceil(wanted) if wanted < 1e9 else None  # so many are no advice


def _decided(assessment: Assessment, rows: Rows, level: float, hopeless: float) -> bool:
    if assessment.upper is not None and assessment.upper <= level:
        return True
    enough = len(rows) >= 10 * (rows.X.shape[1] + 1)  # with fewer, more of them still make a better fit
    return enough and assessment.training_lower is not None and assessment.training_lower > hopeless


def _share(chosen: Any, weight: Array | None) -> float:
    if weight is None:
        return float(np.count_nonzero(chosen)) / len(chosen)
    return float(weight.dot(chosen) / np.add.reduce(weight))


def _surely_better(one: Assessment, other: Assessment) -> bool:
    """Whether a fit is better than another even if its estimate was lucky."""
    return one.plausible < other.error


def _inputs(X: Array) -> Array:
    return X
