"""Streams of tasks."""

from ._linear import DrawnTask, LinearStream, NamedTask

__all__ = ["DrawnTask", "LinearStream", "NamedTask"]
