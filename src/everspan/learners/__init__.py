"""Single-task learners: labelled rows in, a direction out. They know nothing of streams or representations."""

from ._auto import PROBABILISTIC, Auto, Foreign, balanced, is_probabilistic, named_learner
from ._base import Fit, Fits, Learner, cache_parts, changed, class_balance
from ._bayes_point import BayesPoint
from ._logistic import Logistic
from ._multinomial import MultinomialFit, fit_multinomial
from ._ridge import Ridge, least_squares
from ._simple import Averaging, HardMargin
from ._two_layer import NetworkFit, TwoLayer, activations

__all__ = [
    "PROBABILISTIC",
    "Auto",
    "Averaging",
    "BayesPoint",
    "Fit",
    "Fits",
    "Foreign",
    "HardMargin",
    "Learner",
    "Logistic",
    "MultinomialFit",
    "NetworkFit",
    "Ridge",
    "TwoLayer",
    "activations",
    "balanced",
    "cache_parts",
    "changed",
    "class_balance",
    "fit_multinomial",
    "is_probabilistic",
    "least_squares",
    "named_learner",
]
