"""Class-incremental learning in PyTorch: H-LLL, its references, the engine under them, and runs that can be resumed.

The names are loaded when they are first used; they need the extra ``deep`` (torch and safetensors).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    "check_installed",
    "herd",
    "resolve",
    "run",
    "setting",
    "start",
]

__getattr__, __dir__ = lazy(__name__, _HOMES)


def check_installed() -> None:
    """Say how to install what this part needs, where it is missing."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        raise ValueError(f"needs PyTorch and safetensors ({error}): pip install 'everspan[deep]'") from error


def start(arguments: Sequence[str], prog: str = "everspan incremental") -> int:
    """The command; loading PyTorch takes seconds, in which one may think better of it."""
    try:
        check_installed()
        from .command import main
    except ValueError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\n{prog}: stopped", file=sys.stderr)
        return 130
    return main(arguments, prog)
