"""Methods of class-incremental learning, a file each."""

from __future__ import annotations

from importlib import import_module

from ..backbones import load_own
from ._base import Method, MethodSettings, setting

_HOMES = {
    "bic": "BiC",
    "finetune": "Finetune",
    "hlll": "HLLL",
    "hlll-rr": "HLLLRR",
    "icarl": "ICaRL",
    "joint": "Joint",
    "replay": "Replay",
    "rpsnet": "RPSNet",
    "wa": "WA",
}
METHODS = tuple(_HOMES)

__all__ = ["METHODS", "Method", "MethodSettings", "load_method", "setting"]


def load_method(name: str) -> type[Method]:
    """A method by its name here, or as ``package.module:Class`` of your own."""
    if name in _HOMES:
        found = getattr(import_module(f".{name.replace('-', '_')}", __name__), _HOMES[name])
    else:
        home, _, attribute = name.partition(":")
        if not attribute:
            raise ValueError(f"unknown method {name!r}: take {', '.join(METHODS)}, or your own as module:Class")
        found = load_own("method", home, attribute)
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise ValueError(f"method {name!r} is no subclass of everspan.deep.Method")
    return found
