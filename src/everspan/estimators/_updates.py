"""More rows for a task that is known: where its predictor stands, and what comes of them."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from ..checks import AreaAbove, Assessment, LeaveOneOut, Loss, plausible_error
from ..learners import Fit
from ..lifelong import FEW, Outcome, Rules, learn, refine
from ..prior import Prior, Shrunk, Summary
from ..representation import LinearRepresentation
from ..spread import beyond_noise
from ..tasks import Array, Rows, Table, TaskEvent
from ..threads import one_thread
from ._base import DriftWarning, storable_error, warn_caller
from ._known import evidence, known_signs
from ._predictors import UPDATED
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


class UpdatedStream(TaskStream):
    """A stream whose tasks may come again with more rows."""

    def _standing(self, index: int, rows: Rows | None = None) -> Standing:
        """Where a predictor stands as more rows come; how strongly a regression's weights are drawn, these say too."""
        own, constant = self.predictors_.at(index), bool(self.fit_intercept)
        direction = self.predictors_.original(index, self.representation_)
        summary, in_columns = Summary(own.summary), self._of_columns(own.version, own.doubt)
        if self._leans(own):
            assert self.prior_ is not None
            return Standing(None, self.prior_.after(summary), summary)
        version, labels = own.version, self.history_[self.predictors_.task_of(index)].labels_used
        if own.version >= 0:
            directions, weights = self.predictors_.basis(own.version), own.coefficients
        elif in_columns:
            directions, weights = None, direction
        else:
            directions, weights = direction[:, None], np.ones(1)
        weights = np.append(weights, own.intercept) if constant else weights
        if own.doubt and own.version not in (-1, UPDATED):
            better = self._better_suited(version, summary)
            if better is not None:
                version, directions, weights = better
        if in_columns and directions is not None:
            summary = summary.through(directions, constant)
        if self._regression:
            at = Standing(directions, Prior(weights, np.eye(len(weights))), summary, version)
            seen = summary
            if rows is not None:
                Z = at.coordinates(self.representation_.lift(rows.X))
                seen = summary + Summary.of_numbers(replace(rows, X=Z), constant)
            return replace(at, known=evidence(seen, constant, regression=True).prior.after(summary))
        return Standing(directions, known_signs(summary, weights, labels <= 2 * len(weights)), summary, version)

    def _better_suited(self, version: int, summary: Summary) -> tuple[int, Array | None, Array] | None:
        """What a task in doubt had better stand on: the features there are now, or the columns themselves.

        Its rows so far speak for that by the evidence; None if for what it stands on.
        """
        constant, newest = bool(self.fit_intercept), self.predictors_.version
        bases = {known: self.predictors_.basis(known) for known in (version, newest) if known >= 0}
        bases = {known: basis for known, basis in bases.items() if basis.shape[1]}
        choices: dict[int, Array | None] = {**bases, -2: None}
        seen = {known: summary if b is None else summary.through(b, constant) for known, b in choices.items()}
        found = {known: evidence(own, constant, self._regression) for known, own in seen.items()}
        best = min(found, key=lambda known: found[known].value)
        if best == version or (version in found and found[best].value > found[version].value - 1.0):
            return None
        return best, choices[best], found[best].prior.posterior(seen[best])

    def _scored(self, index: int, rows: Rows, rules: Rules) -> Array:
        """The scores that a predictor gives rows as it is."""
        direction, intercept = self._direction(index, rules)
        return self.representation_.scores(self.representation_.lift(rows.X), direction) + intercept

    @one_thread
    def _update(self, index: int, rows: Rows, rules: Rules, used: int, drifted: bool, alone: bool = True) -> Assessment:
        """Bring a predictor up to date with more rows of its task, of which it has used so many; its error on them."""
        own, known, constant = self.predictors_.at(index), self.representation_, bool(self.fit_intercept)
        standing = self._standing(index, rows)
        Z = replace(rows, X=standing.coordinates(known.lift(rows.X)))
        learner, loss = Shrunk(standing.known, self._regression, constant), self._loss_with(rows, standing.summary)
        fit, assessment = LeaveOneOut().measure(learner.fit, Z, loss, 1.0 - rules.confidence, 0)
        assert isinstance(fit, Fit)
        in_columns = self._of_columns(own.version, own.doubt)
        fixed = own.feature >= 0 and not isinstance(known, LinearRepresentation)
        fails = assessment.error > rules.epsilon and not fixed and not self._leans(own)
        if alone and fails and _can_replace(rows, 4 * used if own.feature >= 0 and in_columns else used):
            others = self._shrunk(), self._trusted(), self._directions()
            outcome = learn(Table(rows), known, rules, len(self.history_), self._seed(), *others)
            if _says_more(outcome.assessment, assessment, rows, rules, many=len(rows) >= 4 * used):
                self._learn_anew(index, outcome, rows, rules, drifted)
                return outcome.assessment
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
        self._replace(index, kept)
        labels = used + len(rows)
        if kept.version == UPDATED and isinstance(known, LinearRepresentation) and not drifted and whole.any():
            distance = self._distance(loss, fit, replace(assessment, error=error), labels, rules)
            if labels >= 2 * known.labels[own.feature] and distance < known.errors[own.feature]:
                self._take_up(refine(known.with_feature(whole, distance, labels).replaced(own.feature), rules)[0])
        return assessment

    def _learn_anew(self, index: int, outcome: Outcome, rows: Rows, rules: Rules, drifted: bool) -> None:
        """Put what new rows alone say of a task in the place of what was known of it.

        A task that had a feature has one still: the new one, if that is known better and the task has not changed.
        """
        known, feature = self.representation_, self.predictors_.at(index).feature
        kept, representation = self._kept(outcome, rules, rows, alone=True), outcome.representation
        if feature >= 0 and outcome.action == "grew":
            assert isinstance(known, LinearRepresentation)
            assert isinstance(representation, LinearRepresentation)
            distance = self._distance(self._make_loss(rows), outcome.fit, outcome.assessment, len(rows), rules)
            if drifted or distance >= known.errors[feature]:
                representation = known
                if kept.version == -1:
                    direction = kept.coefficients[0] * outcome.representation.feature(kept.feature)
                    kept = kept._replace(version=UPDATED, coefficients=direction)
            else:
                errors = np.append(known.errors, distance)
                representation, _ = refine(replace(representation, errors=errors).replaced(feature), rules)
        self._replace(index, kept._replace(feature=feature) if feature >= 0 else kept)
        self._take_up(representation)

    def _distance(self, loss: Loss, fit: Fit, assessment: Assessment, labels: int, rules: Rules) -> float:
        """How far a direction seems to be from the truth."""
        noise = loss.share(fit.noise) or (assessment.training if rules.goal == "excess" else 0.0)
        return rules.spread.distance(beyond_noise(rules.spread, assessment.error, noise, len(fit.coef), labels))

    def _loss_with(self, rows: Rows, summary: Summary) -> Loss:
        """The loss of new rows of a task, beside those in its summary."""
        return self._make_loss(rows)

    def _record_update(
        self,
        task: Hashable,
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
            error=storable_error(error),
            error_bound=None,
            confidence=None,
            labels_used=used,
            labels_wanted=None if wanted is None or wanted > 1e9 else math.ceil(wanted),
            drift=drift,
            refinement=None,
            seconds=time.perf_counter() - started,
        )
        self.history_.replace(position, event)
        if self.prior_ is not None and self._shares() and _is_mark(self.history_.labels, labels):
            self.prior_ = self._learned_prior() or self.prior_
        if drift is not None:
            warn_caller(
                f"task {task!r} seems to have changed: error {drift:.3g} on new rows, where it had {old.error:.3g}; "
                "forget it to learn it from the new rows alone",
                DriftWarning,
            )
        return event


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
