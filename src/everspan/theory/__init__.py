"""The theorems as functions."""

from ._adversary import HiddenCoordinate, hidden_angle, hidden_features, hidden_task_angle, trimmed
from ._angles import effective_dimension, principal_angles, separated, subspace_angle
from ._bounds import (
    Bound,
    Setting,
    all_at_once,
    balcan_parameters,
    epsilon_acc,
    independent,
    most_features,
    table_1,
    theorem_1,
    theorem_2,
    theorem_3,
    theorem_4,
    theorem_5,
    theorem_6,
    theorem_7,
)
from ._spread import SpreadEstimate, spread, whitening

__all__ = [
    "Bound",
    "HiddenCoordinate",
    "Setting",
    "SpreadEstimate",
    "all_at_once",
    "balcan_parameters",
    "effective_dimension",
    "epsilon_acc",
    "hidden_angle",
    "hidden_features",
    "hidden_task_angle",
    "independent",
    "most_features",
    "principal_angles",
    "separated",
    "spread",
    "subspace_angle",
    "table_1",
    "theorem_1",
    "theorem_2",
    "theorem_3",
    "theorem_4",
    "theorem_5",
    "theorem_6",
    "theorem_7",
    "trimmed",
    "whitening",
]
