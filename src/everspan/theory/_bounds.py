"""Counts and labels that the theorems promise.

The theorems bound labels up to constants, which are parameters here (one, unless you say otherwise). So a number of
labels is worth nothing by itself; ratios of them, and how they grow, are what the theorems are about. Where a theorem
writes log(log(k) / epsilon), the inner logarithm is taken as at least one: at k = 1 or 2 the letter is undefined or
negative.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..spread import HalfspaceSpread

Features = Literal["linear", "nonlinear"]


@dataclass(frozen=True)
class Bound:
    """What a theorem says of one way of learning m tasks.

    Parameters
    ----------
    name : str
        Of the method.
    source : str
        Where it stands in the paper.
    growths : float
        How often new features are learned at most; none where all tasks are learned at once.
    dimension : float
        Of the representation at most.
    growth_labels, reuse_labels : float
        Labels for learning features, and for learning tasks on them, up to a constant.
    """

    name: str
    source: str
    growths: float | None
    dimension: float
    growth_labels: float
    reuse_labels: float

    @property
    def labels(self) -> float:
        """Both together."""
        return self.growth_labels + self.reuse_labels

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "labels": self.labels}


@dataclass(frozen=True)
class Setting:
    """The sizes that every theorem speaks of.

    Parameters
    ----------
    d : int
        Dimension of the input.
    k : int
        Features that all tasks share.
    m : int
        Tasks.
    epsilon : float
        Error that every task is to be learned to.
    features : {"linear", "nonlinear"}
        Of which kind they are. A task learns k of the nonlinear ones at once.
    constant : float
        In front of every number of labels.
    logarithms : bool
        False for the bounds that hide them (the O with a tilde).

    Examples
    --------
    >>> from everspan.theory import Setting, theorem_1, theorem_7
    >>> setting = Setting(d=100, k=5, m=1000, epsilon=0.1, logarithms=False)
    >>> round(theorem_1(setting).labels), round(theorem_7(setting).labels)
    (61180, 300000)
    """

    d: int
    k: int
    m: int
    epsilon: float
    features: Features = "linear"
    constant: float = 1.0
    logarithms: bool = True

    def __post_init__(self) -> None:
        for name in ("d", "k", "m"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, but it is {getattr(self, name)}")
        if self.k > self.d:
            raise ValueError(f"{self.k} features do not fit into {self.d} dimensions: k must be at most d")
        if not 0.0 < self.epsilon < 1.0:
            raise ValueError(f"epsilon must lie between 0 and 1, but it is {self.epsilon}")
        if self.features not in ("linear", "nonlinear"):
            raise ValueError(f"features must be 'linear' or 'nonlinear', but they are {self.features!r}")
        if not 0.0 < self.constant < math.inf:
            raise ValueError(f"constant must be above zero and finite, but it is {self.constant}")

    @property
    def at_once(self) -> int:
        """k_0: the features that are learned when features are learned."""
        return self.k if self.features == "nonlinear" else 1

    def log(self, value: float) -> float:
        """A logarithm that a theorem has, at least one; one where logarithms are hidden."""
        return math.log(max(value, math.e)) if self.logarithms else 1.0

    @property
    def growths(self) -> float:
        """How often features are learned: 2 k log(log(k) / epsilon), as Table 1 has it; never without its logarithm."""
        return 2.0 * self.k * math.log(max(math.log(self.k), 1.0) / self.epsilon)

    @property
    def outer_log(self) -> float:
        """The log(log(k) / epsilon) of Theorems 3 and 4."""
        return self.log(max(math.log(self.k), 1.0) / self.epsilon)


def epsilon_acc(epsilon: float, k: int, spread: HalfspaceSpread | None = None, c: float | None = None) -> float:
    """The error that a new feature must be learned to: epsilon / (c sqrt k) (Theorems 3 and 4).

    The c of their proof is 2 c'' (sqrt 2 + 1 / c'), from the constants of Assumption 1; the larger, the safer (the
    paper has it the other way round).

    Examples
    --------
    >>> from everspan.theory import epsilon_acc
    >>> round(epsilon_acc(0.1, k=5), 4), epsilon_acc(0.1, k=4, c=1.0)
    (0.0148, 0.05)
    """
    if c is None:
        return (spread or HalfspaceSpread()).epsilon_acc(epsilon, k)
    if not c > 0.0:
        raise ValueError(f"c must be above zero, but it is {c}")
    return epsilon / (c * math.sqrt(k))


def balcan_parameters(epsilon: float, k: int, spread: HalfspaceSpread | None = None) -> tuple[float, float]:
    """The gamma and epsilon_acc of Theorem 7, the parameters of Balcan et al. (2015).

    The proof asks for gamma <= epsilon / c2 - epsilon_acc / c1 and for gamma + 4 k epsilon_acc / (c1 gamma) to be at
    most epsilon / c2. With gamma = epsilon / (2 c2) the largest epsilon_acc is c1 epsilon^2 / (16 c2^2 k).

    Examples
    --------
    >>> from everspan.theory import balcan_parameters
    >>> gamma, accuracy = balcan_parameters(0.1, k=5)
    >>> round(gamma, 3), round(accuracy, 6)
    (0.157, 0.000393)
    """
    c = spread or HalfspaceSpread()
    gamma = epsilon / (2.0 * c.c2)
    return gamma, c.c1 * gamma * (epsilon / c.c2 - gamma) / (4.0 * k)


def theorem_1(s: Setting) -> Bound:
    """The summary of upper bounds, logarithms hidden: d k^1.5 / epsilon + k m / epsilon."""
    growth, reuse = _orders(s)
    return Bound("LLL, LLL-RR", "Theorem 1", None, 2 * s.k * s.at_once, s.at_once * growth, s.at_once * reuse)


def theorem_2(s: Setting) -> Bound:
    """The lower bound: what every lifelong learner needs that learns single tasks by a black box (linear features)."""
    growth, reuse = _orders(s)
    return Bound("any lifelong learner", "Theorem 2 (at least)", None, s.k, growth, reuse)


def theorem_3(s: Setting) -> Bound:
    """Basic LLL."""
    growth, reuse = _orders(s)
    growth *= s.at_once * s.outer_log * s.log(s.k / s.epsilon)
    reuse *= s.at_once * s.outer_log * s.log(1.0 / s.epsilon)
    return Bound("LLL", "Theorem 3", s.growths, s.at_once * s.growths, growth, reuse)


def theorem_4(s: Setting) -> Bound:
    """LLL with representation refinement; its dimension is that of Theorem 5 with c = 2."""
    growth, reuse = _orders(s)
    growth *= s.at_once * s.outer_log * s.log(s.k / s.epsilon)
    reuse *= s.at_once * s.log(1.0 / s.epsilon)
    return Bound("LLL-RR", "Theorem 4", s.growths, theorem_5(s.k * s.at_once)[0], growth, reuse)


def theorem_5(k: int, c: float = 2.0) -> tuple[int, float]:
    """Refinement's dimension c k - 1, and by how much it may exceed the best distance in k: sqrt(1 + 1 / (c - 1)).

    Examples
    --------
    >>> from everspan.theory import theorem_5
    >>> theorem_5(5)
    (9, 1.4142135623730951)
    """
    if not c > 1.0:
        raise ValueError(f"c must be above one, but it is {c}")
    return max(math.ceil(c * k) - 1, 1), math.sqrt(1.0 + 1.0 / (c - 1.0))


def theorem_6(s: Setting) -> Bound:
    """The tight example: LLL-RR itself needs as many labels as its upper bound says, logarithms aside."""
    growth, reuse = _orders(s)
    return Bound("LLL-RR", "Theorem 6 (at least)", None, s.k, growth, reuse)


def theorem_7(s: Setting) -> Bound:
    """LLL with the parameters of Balcan et al. (2015): fewer features, learned much more accurately."""
    growth = s.constant * s.at_once * s.d * s.k**2 * s.log(s.k / s.epsilon) / s.epsilon**2
    reuse = s.constant * s.at_once * s.k * s.m * s.log(1.0 / s.epsilon) / s.epsilon
    return Bound("LLL, parameters of Balcan et al.", "Theorem 7", s.k, s.k * s.at_once, growth, reuse)


def all_at_once(s: Setting, name: str = "few-shot learning (Du et al.)") -> Bound:
    """Learning the source tasks all at once (Du et al. 2020; Tripuraneni et al. 2020), in Table 1's order."""
    growth = s.constant * s.d * s.k**2 / s.epsilon
    return Bound(name, "Table 1", None, s.k, growth, s.constant * s.k * s.m / s.epsilon)


def independent(s: Setting) -> Bound:
    """Every task by itself, on the input: d m / epsilon."""
    labels = s.constant * s.d * s.at_once * s.m * s.log(1.0 / s.epsilon) / s.epsilon
    return Bound("every task by itself", "Section 1.2", s.m, s.m * s.at_once, labels, 0.0)


def table_1(s: Setting) -> list[Bound]:
    """All five rows of Table 1; without the first two, which are of linear features alone, for nonlinear ones."""
    if s.features == "nonlinear":
        return [theorem_7(s), theorem_3(s), theorem_4(s)]
    return [
        all_at_once(s),
        all_at_once(s, "meta learning (Tripuraneni et al.)"),
        theorem_7(s),
        theorem_3(s),
        theorem_4(s),
    ]


def _orders(s: Setting) -> tuple[float, float]:
    """D k^1.5 / epsilon and k m / epsilon."""
    return s.constant * s.d * s.k**1.5 / s.epsilon, s.constant * s.k * s.m / s.epsilon


def most_features(k: int, epsilon: float, c2: float = HalfspaceSpread.c2) -> int:
    """The most features that LLL-RR learns (Theorem 4's proof, Lemmas 4 and 5), logarithms and constants included.

    The largest number K of features with (epsilon / (2 c'' sqrt k))^k (13/10)^K <= 2 sqrt(2e) (2 log(2K) / k)^(k/2):
    every feature learned makes a convex body in R^k grow by the factor 13/10, from the left side's first term to no
    more than the right side.

    Examples
    --------
    >>> from everspan.theory import most_features
    >>> most_features(k=5, epsilon=0.1)
    63
    """
    upper = math.sqrt(12.0 / 11.0) * c2  # c'' of Lemma 1
    first = k * math.log(epsilon / (2.0 * upper * math.sqrt(k)))

    def fits(count: int) -> bool:
        most = math.log(2.0 * math.sqrt(2.0 * math.e)) + 0.5 * k * math.log(2.0 * math.log(2.0 * count) / k)
        return first + count * math.log(1.3) <= most

    count = k
    while fits(count + 1):
        count += 1
    return count
