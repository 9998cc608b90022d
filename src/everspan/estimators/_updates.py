"""More rows for a task that is known: where its predictor stands, and what comes of them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..checks import AreaAbove, Assessment, LeaveOneOut, Loss, plausible_error
from ..learners import Fit
from ..lifelong import FEW, Outcome, Rules, learn, refine
from ..prior import Prior, Shrunk, Summary
from ..representation import LinearRepresentation
from ..tasks import Array, Rows, Table, TaskEvent
from ..threads import one_thread
from ._base import DriftWarning
from ._predictors import UPDATED, Kept
from ._stream import TaskStream


@dataclass(frozen=True)
class Standing:
    """What a predictor may weigh, and what its rows so far say about the weights.

    Its ``directions`` are features, all columns (None), or its own alone.
    """

    directions: Array | None
    known: Prior
    summary: Summary
    version: int = -2
    """Of the basis whose columns the directions are; below zero where they are none."""

    def coordinates(self, lifted: Array) -> Array:
        """What the weights weigh, of lifted rows."""
        if self.directions is None:
            return lifted
        Z: Array = lifted[:, : len(self.directions)].dot(self.directions)
        return Z


class Updated(NamedTuple):
    """A predictor after more rows, its error on them left out, and the scores it gave them before."""

    kept: Kept
    assessment: Assessment
    before: Array


def known_of(summary: Summary, weights: Array, regression: bool) -> Prior:
    """What a task's own rows say about its weights, next to nothing else."""
    gram, moment, square, count = summary.parts()
    noise = 1.0
    if regression:
        left = max(square - 2.0 * weights.dot(moment) + weights.dot(gram).dot(weights), 1e-9 * square, 1e-300)
        noise = left / max(count - len(weights), 1.0)
    precision = gram / noise
    floor = 1e-6 * float(np.trace(precision)) / max(len(gram), 1) + 1e-12
    return Prior(weights, precision + floor * np.eye(len(gram)), noise)


def weakly_known(summary: Summary, weights: Array, regression: bool) -> Prior:
    """The same where rows are few for the weights: what they do not tell stays about as it is.

    Each column's weight may be off by log-odds of about one, or in a regression by what a tenth of a row cannot tell.
    """
    gram, moment, square, count = summary.parts()
    squares = np.diag(gram) / max(count, 1e-300)
    weak = np.diag(np.where(squares > 0.0, 0.1 * squares if regression else squares, 1.0))
    noise = 1.0
    if regression:
        inverse = np.linalg.inv(gram + weak)
        solution = inverse.dot(moment + weak.dot(weights))
        left = max(square - 2.0 * solution.dot(moment) + solution.dot(gram).dot(solution), 1e-12 * square, 1e-300)
        noise = left / max(count - float(np.vdot(inverse, gram)), 1e-3 * count, 1e-300)
    return Prior(weights, weak / noise, noise).after(summary)


def criterion(summary: Summary, labels: int, regression: bool) -> tuple[float, Array]:
    """Akaike's criterion, corrected for few labels, and the weights that it is of: the less the better."""
    gram, moment, square, count = summary.parts()
    spare = labels - len(moment) - 1
    if spare <= 0:
        return math.inf, moment
    floor = max(1e-9 * float(np.trace(gram)) / len(gram), 1e-300)
    weights = np.asarray(np.linalg.solve(gram + floor * np.eye(len(gram)), moment), dtype=np.float64)
    explained = float(weights.dot(moment))
    misfit = -explained
    if regression:
        misfit = labels * math.log(max(square - explained, 1e-12 * square, 1e-300) / max(count, 1e-300))
    return misfit + 2.0 * len(moment) * labels / spare, weights


class UpdatedStream(TaskStream):
    """A stream whose tasks may come again with more rows."""

    def _standing(self, index: int) -> Standing:
        """Where a predictor stands as more rows come."""
        own, constant = self.predictors_.at(index), bool(self.fit_intercept)
        direction = self.predictors_.original(index, self.representation_)
        summary, in_columns = Summary(own.summary), self._of_columns(own.version, own.doubt)
        if self._leans(own):
            assert self.prior_ is not None
            return Standing(None, self.prior_.after(summary), summary)
        version, labels = own.version, self.history_[self.predictors_.task_of(index)].labels_used
        if own.version >= 0:
            directions, weights = self.predictors_.bases[own.version], own.coefficients
        elif in_columns:
            directions, weights = None, direction
        else:
            directions, weights = direction[:, None], np.ones(1)
        weights = np.append(weights, own.intercept) if constant else weights
        if in_columns and own.version not in (-1, UPDATED):
            better = self._better_suited(version, summary, labels)
            if better is not None:
                version, directions, weights = better
        if in_columns and directions is not None:
            summary = summary.through(directions, constant)
        known = weakly_known if labels <= 2 * len(weights) else known_of
        return Standing(directions, known(summary, weights, self._regression), summary, version)

    def _better_suited(self, version: int, summary: Summary, labels: int) -> tuple[int, Array | None, Array] | None:
        """What a task kept in columns had better stand on: the features there are now, or the columns themselves.

        Its labels so far speak for that by Akaike's criterion, corrected for few; None if for what it stands on.
        """
        constant, newest = bool(self.fit_intercept), self.predictors_.version
        bases = {known: self.predictors_.bases[known] for known in (version, newest) if known >= 0}
        bases = {known: basis for known, basis in bases.items() if basis is not None and basis.shape[1]}
        choices: dict[int, Array | None] = {**bases, -2: None}
        found = {
            known: criterion(summary if basis is None else summary.through(basis, constant), labels, self._regression)
            for known, basis in choices.items()
        }
        best = min(found, key=lambda known: found[known][0])
        if math.isfinite(found[best][0]):
            return None if best == version else (best, choices[best], found[best][1])
        if version >= 0 and version not in bases:  # there was no feature yet, and labels are too few for any
            return -2, None, np.zeros(self.n_features_in_ + constant)
        return None

    @one_thread()
    def _updated(self, index: int, rows: Rows, rules: Rules, used: int, alone: bool = True) -> Updated:
        """A predictor after more rows of its task, of which it has used so many."""
        own, known, constant = self.predictors_.at(index), self.representation_, bool(self.fit_intercept)
        standing, lifted = self._standing(index), known.lift(rows.X)
        direction, intercept = self._direction(index, rules)
        before = known.scores(lifted, direction) + intercept
        Z = replace(rows, X=standing.coordinates(lifted))
        learner, loss = Shrunk(standing.known, self._regression, constant), self._loss_with(rows, standing.summary)
        fit, assessment = LeaveOneOut().measure(learner.fit, Z, loss, 1.0 - rules.confidence, 0)
        assert isinstance(fit, Fit)
        in_columns = self._of_columns(own.version, own.doubt)
        fixed = own.feature >= 0 and not isinstance(known, LinearRepresentation)
        fails = assessment.error > rules.epsilon and not fixed and not self._leans(own)
        if alone and fails and _can_replace(rows, 4 * used if own.feature >= 0 and in_columns else used):
            outcome = learn(
                Table(rows), known, rules, len(self.history_), self._seed(), self._shrunk(), self._trusted()
            )
            if _says_more(outcome.assessment, assessment, rows, rules, many=len(rows) >= 4 * used):
                kept = self._kept(outcome, rules, rows, alone)
                if own.feature >= 0:
                    outcome, kept = _in_its_place(own.feature, outcome, kept, rules)
                self.predictors_.update(index, kept)  # what it stands on is still needed
                self._take_up(outcome.representation)
                return Updated(kept, outcome.assessment, before)
        weights = np.append(fit.coef, fit.intercept) if constant else fit.coef
        lifts = standing.directions is not None and (own.version < 0 or in_columns)
        whole = standing.directions.dot(fit.coef) if lifts and standing.directions is not None else fit.coef
        if in_columns:
            Z, weights = rows, np.append(whole, fit.intercept) if constant else whole
        if self._leans(own):
            new = self._doubtful(Z, standing.known)
        else:
            new = self._in_short(Z, weights if self._log_odds() else None)
        stays = standing.version >= 0 and not self._leans(own)
        share = 1.0 if _is_blind(loss, rows) else _share_of_old(used, len(rows))
        old_error = own.errors[0] if math.isfinite(own.errors[0]) else own.errors[1]
        error = share * old_error + (1.0 - share) * assessment.error
        plausible = max(plausible_error(loss, error, used + len(rows)) - loss.share(fit.noise), 0.0)
        kept = own._replace(
            version=standing.version if stays else UPDATED if own.feature >= 0 else -2,
            coefficients=fit.coef if stays else whole,
            intercept=fit.intercept,
            errors=(math.inf if rules.accept == "bound" else error, float(plausible)),
            summary=(Summary(own.summary) + new).packed,
        )
        if kept.version == UPDATED and isinstance(known, LinearRepresentation) and whole.any():
            noise = loss.share(fit.noise) or (assessment.training if rules.goal == "excess" else 0.0)
            self._know_better(own.feature, whole, max(error - noise, 0.5 / (used + len(rows))), used + len(rows))
        return Updated(kept, assessment, before)

    def _know_better(self, feature: int, direction: Array, error: float, labels: int) -> None:
        """A feature whose task has seen twice the labels is what they say it is now, and so is the representation."""
        known, rules = self.representation_, self._rules()
        assert isinstance(known, LinearRepresentation)
        distance = rules.spread.distance(error)
        if labels >= 2 * known.labels[feature] and distance < known.errors[feature]:
            representation, _ = refine(known.with_feature(direction, distance, labels).replaced(feature), rules)
            self._take_up(representation)

    def _loss_with(self, rows: Rows, summary: Summary) -> Loss:
        """The loss of new rows of a task, beside those in its summary."""
        return self._make_loss(rows)

    def _record_update(
        self,
        task: Hashable,
        kept: list[Kept],
        error: float,
        drift: float | None,
        labels: int,
        rules: Rules,
        started: float,
    ) -> TaskEvent:
        """Write an update into the history; nothing may fail after this.

        The error is that on old rows, as it was, and on new ones, unless the task has changed. With goal="excess" a
        task that was within epsilon of what it reaches alone is taken to be so still, unless it has changed.
        """
        position = self._position(task)
        for index, own in zip(self.predictors_.of_task(position), kept, strict=True):
            self.predictors_.update(index, own)
        for cache in ("_average", "_read"):
            self.__dict__.pop(cache, None)
        old = self.history_[position]
        used = old.labels_used + labels
        if math.isnan(error):
            error = old.error
        elif drift is None and not math.isnan(old.error):
            share = _share_of_old(old.labels_used, labels)
            error = share * old.error + (1.0 - share) * error
        met = error <= rules.epsilon or (rules.goal == "excess" and old.met and drift is None)
        wanted = None if met else used * error / rules.epsilon
        event = replace(
            old,
            action="updated",
            met=met,
            error=error,
            error_bound=None,
            confidence=None,
            labels_used=used,
            labels_wanted=None if wanted is None or wanted > 1e9 else math.ceil(wanted),
            drift=drift,
            refinement=None,
            seconds=time.perf_counter() - started,
        )
        self._undo.append(partial(self.history_.replace, position, old))
        self.history_.replace(position, event)
        if self.prior_ is not None and self._shares() and _is_mark(self.history_.labels, labels):
            self.prior_ = self._learned_prior() or self.prior_
        if drift is not None:
            warnings.warn(
                f"task {task!r} seems to have changed: error {drift:.3g} on new rows, where it had {old.error:.3g}; "
                "forget it to learn it from the new rows alone",
                DriftWarning,
                stacklevel=5,
            )
        return event


def _in_its_place(feature: int, outcome: Outcome, kept: Kept, rules: Rules) -> tuple[Outcome, Kept]:
    """What was learned anew of a task that had this feature: it has one still, the new one if there is one."""
    if outcome.action == "grew":
        assert isinstance(outcome.representation, LinearRepresentation)
        representation, refinement = refine(outcome.representation.replaced(feature), rules)
        outcome = replace(outcome, representation=representation, refinement=refinement)
    return outcome, kept._replace(feature=feature)


def _is_mark(labels: int, new: int) -> bool:
    """Whether the prior is learned anew at so many labels, some of them new: whenever they have grown by half."""
    return int(math.log(labels, 1.5)) > int(math.log(max(labels - new, 1), 1.5))


def _is_blind(loss: Loss, rows: Rows) -> bool:
    """Whether rows say nothing of a loss: there is no pair to order."""
    return isinstance(loss, AreaAbove) and bool(rows.y.min() == rows.y.max())


def _share_of_old(used: int, new: int) -> float:
    """What an error counts that was measured on so many rows, beside that on new ones: less, as it was another's."""
    return 0.5 * used / (0.5 * used + new)


def _says_more(new: Assessment, both: Assessment, rows: Rows, rules: Rules, many: bool) -> bool:
    """Whether new rows alone make a better predictor than both did: surely, or, if they are many more, as it seems."""
    finer = [rules.finer(rows).mean(rows.part(found.rows), found.scores) for found in (new, both)]
    return new.plausible < both.error or (many and finer[0] < finer[1])


def _can_replace(rows: Rows, used: int) -> bool:
    """Whether new rows of a task may take the place of all it had: they are no few, and tell labels apart."""
    return len(rows) >= max(FEW, used // 2) and bool(rows.y.min() < rows.y.max())
