"""Replay: one network, trained on the new images and on the exemplars of old classes."""

from __future__ import annotations

from ._base import GOES_ON, STRONG, Method


class Replay(Method):
    """Cross-entropy on the new images and the memory; nothing else is done against forgetting."""

    name = "replay"
    recipes = {"paper": {}, "strong": STRONG | GOES_ON}  # noqa: RUF012
