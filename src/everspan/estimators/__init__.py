"""Scikit-learn's face of the loop."""

from ._base import RepresentationWarning
from ._classifier import LifelongClassifier
from ._incremental import ClassIncrementalClassifier
from ._regressor import LifelongRegressor

__all__ = ["ClassIncrementalClassifier", "LifelongClassifier", "LifelongRegressor", "RepresentationWarning"]
