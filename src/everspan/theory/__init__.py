"""The theorems as functions."""

from ._bounds import most_features

__all__ = ["most_features"]
