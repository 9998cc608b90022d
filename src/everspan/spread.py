"""How errors and distances translate: Assumption 1 and Appendix B of the paper as arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

_REFINEMENT_FACTOR = math.sqrt(2.0)  # Theorem 5: refinement keeps every feature within sqrt(2) epsilon_acc


class Spread(Protocol):
    """The constants of the data's distribution that turn an error into a distance of directions and back."""

    counts_errors: ClassVar[bool]
    """Whether an error is a share of rows, so that none seen in n rows still leaves about 1 / 2n."""

    def constant(self) -> float:
        """The c of Theorem 4's proof, 2 c'' (sqrt 2 + 1 / c'): the larger, the safer."""

    def epsilon_acc(self, epsilon: float, k: int) -> float:
        """The error a new feature must meet so that k of them serve every task within epsilon."""

    def distance(self, error: float) -> float:
        """The largest distance of two unit directions whose predictors differ by this error."""

    def after_move(self, error: float, cosine: float) -> float:
        """A bound on the error of a predictor that had this error and was turned by an angle of this cosine."""

    def implied(self, cosine: float) -> float:
        """The least error of a predictor whose truth is at an angle of at most this cosine."""


@dataclass(frozen=True)
class HalfspaceSpread:
    """Assumption 1: two halfspaces at angle theta disagree with probability between c1 theta and c2 theta.

    The defaults are exact for every distribution that looks the same in all directions, such as the Gaussian.

    Examples
    --------
    >>> from everspan.spread import HalfspaceSpread
    >>> spread = HalfspaceSpread()
    >>> round(spread.constant(), 2), round(spread.epsilon_acc(0.1, k=5), 4)
    (3.03, 0.0148)
    """

    counts_errors: ClassVar[bool] = True
    c1: float = 1.0 / math.pi
    c2: float = 1.0 / math.pi

    def __post_init__(self) -> None:
        _check_constants(self.c1, self.c2)

    def constant(self) -> float:
        upper = math.sqrt(12.0 / 11.0) * self.c2  # c'' of Lemma 1
        return 2.0 * upper * (_REFINEMENT_FACTOR + 1.0 / self.c1)

    def epsilon_acc(self, epsilon: float, k: int) -> float:
        return epsilon / (self.constant() * math.sqrt(k))

    def distance(self, error: float) -> float:
        return math.sin(min(error / self.c1, math.pi / 2.0))

    def after_move(self, error: float, cosine: float) -> float:
        return error + self.c2 * math.acos(min(cosine, 1.0))

    def implied(self, cosine: float) -> float:
        return self.c1 * math.acos(min(cosine, 1.0))


@dataclass(frozen=True)
class RegressionSpread:
    """Appendix B: c1 I <= E[x x'] <= c2 I, so that squared errors are squared distances up to these constants.

    Errors are shares of the target's variance, which fixes the scale of the directions to one.

    Examples
    --------
    >>> from everspan.spread import RegressionSpread
    >>> spread = RegressionSpread()
    >>> round(spread.constant(), 2), round(spread.epsilon_acc(0.1, k=5), 5)
    (4.83, 0.00086)
    """

    counts_errors: ClassVar[bool] = False
    c1: float = 1.0
    c2: float = 1.0

    def __post_init__(self) -> None:
        _check_constants(self.c1, self.c2)

    def constant(self) -> float:
        return 2.0 * math.sqrt(self.c2) * (_REFINEMENT_FACTOR + 1.0 / math.sqrt(self.c1))

    def epsilon_acc(self, epsilon: float, k: int) -> float:
        return epsilon / (self.constant() ** 2 * k)

    def distance(self, error: float) -> float:
        return min(math.sqrt(error / self.c1), 1.0)

    def after_move(self, error: float, cosine: float) -> float:
        return (math.sqrt(error) + math.sqrt(self.c2 * max(1.0 - cosine**2, 0.0))) ** 2

    def implied(self, cosine: float) -> float:
        return self.c1 * max(1.0 - cosine**2, 0.0)


def beyond_noise(spread: Spread, error: float, noise: float, weights: int, rows: int) -> float:
    """The error of a fit of so many weights to so many rows less what is noise: how far it is from the best direction.

    In a regression it is a share of what is no noise: where nearly all is, a fit that does no worse than that is not
    near anything, and it cannot be nearer than so many weights cost.

    Examples
    --------
    >>> from everspan.spread import RegressionSpread, beyond_noise
    >>> clean, noisy = (beyond_noise(RegressionSpread(), n + 0.01, n, weights=20, rows=400) for n in (0.0, 0.9))
    >>> round(clean, 3), round(noisy, 3)
    (0.01, 0.45)
    """
    if spread.counts_errors:
        return max(error - noise, 0.5 / max(rows, 1))
    return max(error - noise, weights / max(rows, 1) * noise) / max(1.0 - noise, 1e-9)


def _check_constants(c1: float, c2: float) -> None:
    if not 0.0 < c1 <= c2 < math.inf:
        raise ValueError(f"the spread's constants must satisfy 0 < c1 <= c2, but c1={c1} and c2={c2}")
