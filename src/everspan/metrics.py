"""The figures of class-incremental learning, all derived from one matrix of counts.

R[i][j] is the accuracy, in percent, on the test images of task j's classes after learning step i, where the label is
chosen among **all** classes seen by then; T is the last step. There are several definitions of forgetting about: ours
is Chaudhry's, with the maximum over the steps before the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .untrusted import is_count, is_number, is_setting, is_text, misfit

Matrix = Sequence[Sequence[float]]
MOST_TASKS = 1000  # of a run: what it records after every task grows with their square


@dataclass(frozen=True)
class IncrementalResult:
    """What a learner of classes got right.

    Parameters
    ----------
    correct : sequence of sequences of int
        Row i: after step i, how many test images of tasks 0 to i were right. Rows grow by one.
    totals : sequence of int
        The test images of every task.

    Examples
    --------
    >>> from everspan.metrics import IncrementalResult
    >>> result = IncrementalResult(correct=[[9], [6, 8], [5, 6, 10]], totals=[10, 10, 20])
    >>> result.accuracy_matrix
    [[90.0], [60.0, 80.0], [50.0, 60.0, 50.0]]
    >>> result.curve
    [90.0, 70.0, 52.5]
    >>> round(result.average_incremental_accuracy, 2), result.last_accuracy
    (70.83, 52.5)
    >>> result.forgetting, result.backward_transfer
    (30.0, -30.0)
    """

    correct: Sequence[Sequence[int]]
    totals: Sequence[int]

    def __post_init__(self) -> None:
        for step, row in enumerate(self.correct):
            if len(row) != step + 1:
                raise ValueError(f"after step {step} there must be {step + 1} counts, not {len(row)}")
            for right, total in zip(row, self.totals, strict=False):
                if not 0 <= right <= total:
                    raise ValueError(f"{right} right of {total} after step {step}")
        if len(self.totals) < len(self.correct):
            raise ValueError(f"{len(self.correct)} steps but only {len(self.totals)} totals")

    @property
    def steps(self) -> int:
        """How many tasks were learned."""
        return len(self.correct)

    @property
    def accuracy_matrix(self) -> list[list[float]]:
        """R: row i holds R[i][0] to R[i][i]."""
        return [[_percent(right, self.totals[j]) for j, right in enumerate(row)] for row in self.correct]

    @property
    def curve(self) -> list[float]:
        """Accuracy on all classes seen after every step: right images over images, so that large tasks count more."""
        return [_percent(sum(row), sum(self.totals[: len(row)])) for row in self.correct]

    @property
    def average_incremental_accuracy(self) -> float:
        """The mean of the curve: sum over i of curve[i], over T + 1 (Rebuffi et al. 2017)."""
        return _mean(self.curve)

    @property
    def last_accuracy(self) -> float:
        """The end of the curve."""
        return self.curve[-1] if self.correct else math.nan

    @property
    def forgetting(self) -> float:
        """Mean over j < T of (max over i < T of R[i][j]) - R[T][j] (Chaudhry et al. 2018); zero after one step."""
        R = self.accuracy_matrix
        return _mean([max(row[j] for row in R[j:-1]) - R[-1][j] for j in range(len(R) - 1)], empty=0.0)

    @property
    def backward_transfer(self) -> float:
        """Mean over j < T of R[T][j] - R[j][j] (Lopez-Paz and Ranzato 2017, GEM); zero after one step."""
        R = self.accuracy_matrix
        return _mean([R[-1][j] - R[j][j] for j in range(len(R) - 1)], empty=0.0)

    @property
    def old_accuracy(self) -> list[float]:
        """Accuracy after every step but the first on the classes of earlier tasks."""
        return [_percent(sum(row[:-1]), sum(self.totals[: len(row) - 1])) for row in self.correct[1:]]

    @property
    def new_accuracy(self) -> list[float]:
        """Accuracy after every step on the classes of its own task: R[i][i]."""
        return [row[-1] for row in self.accuracy_matrix]

    def to_dict(self) -> dict[str, Any]:
        """All figures under the names of ``results.json``, accuracies in percent."""
        return {
            "accuracy_matrix": self.accuracy_matrix,
            "curve": self.curve,
            "average_incremental_accuracy": self.average_incremental_accuracy,
            "last_accuracy": self.last_accuracy,
            "forgetting": self.forgetting,
            "backward_transfer": self.backward_transfer,
            "old_accuracy": self.old_accuracy,
            "new_accuracy": self.new_accuracy,
            "correct": [list(row) for row in self.correct],
            "totals": list(self.totals),
        }


_RESULTS: dict[str, Any] = {
    "settings": {
        "method": is_text,
        "recipe": is_text,
        "data": is_text,
        "held_out": is_number,
        "increment": is_count,
        "first": lambda value: value is None or is_count(value),
    },
    "images_digest?": is_text,
    "tasks": is_count,
    "tasks_done": is_count,
    "correct": [[is_count]],
    "totals": [lambda value: is_count(value) and value > 0],
    "parameters": is_count,
    "exemplars": is_count,
    "timing": {"seconds": is_number, "images_per_second": is_number},
}


def checked_results(results: dict[str, Any]) -> dict[str, Any]:
    """The record of ``results.json`` with its figures computed again from its counts; ValueError where it is none.

    The file may come from a stranger: nothing in it is taken on trust but the counts themselves.
    """
    odd = misfit(results, _RESULTS)
    if odd:
        raise ValueError(f"{odd} is missing or not what `everspan incremental` writes")
    strange = [name for name, value in results["settings"].items() if not (name.isidentifier() and is_setting(value))]
    if strange:
        raise ValueError(f"settings has {strange[0]!r:.60}, which is no setting")
    done, tasks = results["tasks_done"], results["tasks"]
    if not done == len(results["correct"]) == len(results["totals"]) <= tasks or not 1 <= done <= tasks <= MOST_TASKS:
        raise ValueError(f"tasks_done is {done} of {tasks}, but there are {len(results['correct'])} rows of counts")
    return results | IncrementalResult(results["correct"], results["totals"]).to_dict()


def forward_transfer(accuracies: Matrix, chance: Sequence[float]) -> float:
    """Mean over j > 0 of R[j-1][j] minus the accuracy of a network with random weights on task j (GEM).

    For learners that can answer before they are taught: task-incremental streams, zero-shot heads. A class-incremental
    learner has no output for classes it has not seen, so R[j-1][j] is zero there and the figure says nothing; this is
    why it is a function of a full matrix and no part of `IncrementalResult`.

    Examples
    --------
    >>> from everspan.metrics import forward_transfer
    >>> forward_transfer([[90.0, 60.0, 50.0], [88.0, 91.0, 70.0], [85.0, 90.0, 95.0]], chance=[50.0, 50.0, 50.0])
    15.0
    """
    return _mean([accuracies[j - 1][j] - chance[j] for j in range(1, len(accuracies))], empty=0.0)


def _percent(right: int, total: int) -> float:
    return 100.0 * right / total if total else math.nan


def _mean(values: Sequence[float], empty: float = math.nan) -> float:
    return math.fsum(values) / len(values) if values else empty
