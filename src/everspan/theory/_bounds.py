"""Counts that the theorems promise, with their constants."""

from __future__ import annotations

import math

from ..spread import HalfspaceSpread


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
