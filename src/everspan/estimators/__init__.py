"""Scikit-learn's face of the loop."""

from ._base import DriftWarning, RepresentationWarning
from ._classifier import LifelongClassifier
from ._incremental import ClassIncrementalClassifier
from ._regressor import LifelongRegressor

__all__ = [
    "ClassIncrementalClassifier",
    "DriftWarning",
    "LifelongClassifier",
    "LifelongRegressor",
    "RepresentationWarning",
]
