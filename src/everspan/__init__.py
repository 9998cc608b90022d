"""everspan: learn task after task, forget nothing, grow only when you must.

The public names are loaded when they are first used, so that ``import everspan`` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import lazy

if TYPE_CHECKING:
    from .estimators import ClassIncrementalClassifier, LifelongClassifier, LifelongRegressor
    from .refinement import Refinement, refine, refine_gram, smallest_dimension
    from .tasks import History, TaskEvent

__version__ = "0.1.0"

_HOMES = {
    "ClassIncrementalClassifier": "estimators",
    "History": "tasks",
    "LifelongClassifier": "estimators",
    "LifelongRegressor": "estimators",
    "Refinement": "refinement",
    "TaskEvent": "tasks",
    "refine": "refinement",
    "refine_gram": "refinement",
    "smallest_dimension": "refinement",
}

__all__ = [
    "ClassIncrementalClassifier",
    "History",
    "LifelongClassifier",
    "LifelongRegressor",
    "Refinement",
    "TaskEvent",
    "__version__",
    "refine",
    "refine_gram",
    "smallest_dimension",
]

__getattr__, __dir__ = lazy(__name__, _HOMES)
