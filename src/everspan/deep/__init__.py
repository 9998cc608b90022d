"""Class-incremental learning in PyTorch: H-LLL, its references, the engine under them, and runs that can be resumed.

The names are loaded when they are first used; they need the extra ``deep`` (torch and safetensors).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .augment import Augmentation
    from .descent import Plan
    from .engine import Engine
    from .memory import ExemplarMemory, herd
    from .methods import METHODS, Method, MethodSettings, setting
    from .model import IncrementalModel
    from .network import ExpandableNetwork
    from .runs import run
    from .settings import RunSettings, resolve

_HOMES = {
    "METHODS": "methods",
    "Augmentation": "augment",
    "Engine": "engine",
    "ExemplarMemory": "memory",
    "ExpandableNetwork": "network",
    "IncrementalModel": "model",
    "Method": "methods",
    "MethodSettings": "methods",
    "Plan": "descent",
    "RunSettings": "settings",
    "herd": "memory",
    "resolve": "settings",
    "run": "runs",
    "setting": "methods",
}

__all__ = [
    "METHODS",
    "Augmentation",
    "Engine",
    "ExemplarMemory",
    "ExpandableNetwork",
    "IncrementalModel",
    "Method",
    "MethodSettings",
    "Plan",
    "RunSettings",
    "herd",
    "resolve",
    "run",
    "setting",
]

__getattr__, __dir__ = lazy(__name__, _HOMES)
