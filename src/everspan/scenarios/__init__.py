"""Streams of tasks: synthetic linear ones, and class splits of image sets."""

from ._classes import ClassScenario, ClassTask, ImageSet, class_order
from ._images import load_images, read_picture
from ._linear import DrawnTask, LinearStream, NamedTask, ReLUStream

__all__ = [
    "ClassScenario",
    "ClassTask",
    "DrawnTask",
    "ImageSet",
    "LinearStream",
    "NamedTask",
    "ReLUStream",
    "class_order",
    "load_images",
    "read_picture",
]
