"""Class-incremental scenarios: labelled images as an indexable list of class tasks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
MOST_CLASSES = 100_000


@dataclass(frozen=True)
class ImageSet:
    """Labelled images of one size, split into training and test.

    Parameters
    ----------
    train_images, test_images : uint8 array of shape (n, height, width) or (n, height, width, channels)
        Kept as (n, channels, height, width).
    train_labels, test_labels : int array of shape (n,)
        Classes 0 to C - 1, each with images in both parts.
    names : sequence of str, optional
        The classes' names.
    positions : int array of shape (n,), optional
        Where the training images are in the data that they are a part of.
    """

    train_images: Pixels
    train_labels: Labels
    test_images: Pixels
    test_labels: Labels
    names: Sequence[str] = field(default=())
    positions: Labels | None = None

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            images, labels = getattr(self, f"{part}_images"), getattr(self, f"{part}_labels")
            object.__setattr__(self, f"{part}_images", _checked_images(images, part))
            object.__setattr__(self, f"{part}_labels", _checked_labels(labels, len(images), part))
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise ValueError(
                f"training images are {_size(self.train_images)} but test images are {_size(self.test_images)}"
            )
        classes = int(max(self.train_labels.max(), self.test_labels.max())) + 1
        if classes > len(self.train_labels):
            raise ValueError(f"labels go up to {classes - 1}, but there are only {len(self.train_labels)} train images")
        object.__setattr__(self, "names", checked_names(self.names, classes))
        for part in ("train", "test"):
            missing = np.setdiff1d(np.arange(classes), getattr(self, f"{part}_labels"))
            if len(missing):
                raise ValueError(f"class {missing[0]} has no {part} images (classes are 0 to {classes - 1})")

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.train_labels.max()) + 1

    @property
    def channels(self) -> int:
        """One for grey images, three for colour."""
        return int(self.train_images.shape[1])

    def digest(self) -> str:
        """What tells these images, labels and names from any others, whatever their file is called."""
        state = hashlib.blake2b("\n".join(self.names).encode(), digest_size=16)
        for array in (self.train_images, self.train_labels, self.test_images, self.test_labels):
            state.update(f"{array.shape}".encode())
            state.update(np.ascontiguousarray(array).data)
        return state.hexdigest()

    def held_out(self, share: float, seed: int = 0) -> ImageSet:
        """A share of every class's training images in place of the test images: to choose settings honestly."""
        kept, out = split(self.train_labels, share, seed)
        images, labels = np.moveaxis(self.train_images, 1, -1), self.train_labels
        positions = kept if self.positions is None else self.positions[kept]
        return ImageSet(images[kept], labels[kept], images[out], labels[out], self.names, positions)


@dataclass(frozen=True)
class ClassTask:
    """Some classes that arrive together.

    ``labels`` are the classes' positions in the order of arrival (what a network's outputs are), ``classes`` their own
    numbers; ``train`` and ``test`` are positions of images in the image set.
    """

    index: int
    classes: tuple[int, ...]
    labels: range
    train: Labels
    test: Labels

    @property
    def seen(self) -> int:
        """How many classes have been seen when this task is learned."""
        return self.labels.stop


class ClassScenario(Sequence[ClassTask]):
    """Labelled images as a list of class tasks: ``scenario[3]``, and ``scenario[:4]`` is all seen by then.

    Parameters
    ----------
    images : ImageSet
        The images.
    increment : int
        Classes a task.
    first : int, optional
        Classes of the first task, where it is to be larger. None: as the others.
    order : int or sequence of int
        The order in which classes arrive: a seed, or the classes themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from everspan.scenarios import ClassScenario, ImageSet
    >>> pixels, labels = np.zeros((12, 8, 8), dtype=np.uint8), np.arange(12) % 6
    >>> scenario = ClassScenario(ImageSet(pixels, labels, pixels, labels), increment=2, order=[5, 0, 1, 4, 3, 2])
    >>> len(scenario), scenario[1].classes, scenario[1].labels, scenario[1].train
    (3, (1, 4), range(2, 4), array([ 1,  4,  7, 10]))
    """

    def __init__(
        self, images: ImageSet, increment: int, first: int | None = None, order: int | Sequence[int] = 0
    ) -> None:
        classes = images.classes
        first = increment if first is None else first
        if not (1 <= increment <= classes and 1 <= first <= classes):
            raise ValueError(f"a task needs 1 to {classes} classes, but increment={increment} and first={first}")
        if (classes - first) % increment:
            raise ValueError(f"{classes} classes do not split into {first} and then tasks of {increment}")
        self.images = images
        self.order = class_order(classes, order)
        position = np.argsort(self.order)
        self.train_labels: Labels = position[images.train_labels]
        self.test_labels: Labels = position[images.test_labels]
        starts = [0, *range(first, classes, increment)]
        self._tasks = [self._task(i, range(*bounds)) for i, bounds in enumerate(pairwise([*starts, classes]))]

    def _task(self, index: int, labels: range) -> ClassTask:
        classes = tuple(self.order[label] for label in labels)
        train = np.flatnonzero((self.train_labels >= labels.start) & (self.train_labels < labels.stop))
        test = np.flatnonzero((self.test_labels >= labels.start) & (self.test_labels < labels.stop))
        return ClassTask(index, classes, labels, train, test)

    def __len__(self) -> int:
        return len(self._tasks)

    @overload
    def __getitem__(self, index: int) -> ClassTask: ...
    @overload
    def __getitem__(self, index: slice) -> list[ClassTask]: ...
    def __getitem__(self, index: int | slice) -> ClassTask | list[ClassTask]:
        return self._tasks[index]


def class_order(classes: int, order: int | Sequence[int]) -> tuple[int, ...]:
    """The classes in the order in which they arrive, from a seed or as given.

    A seed means numpy's legacy ``RandomState(seed).permutation``, which is what published class orders ("seed 1993")
    were drawn with.
    """
    if isinstance(order, int | np.integer):
        if not 0 <= order < 2**32:
            raise ValueError(f"the seed of a class order must be between 0 and 2**32 - 1, but it is {order}")
        return tuple(np.random.RandomState(int(order)).permutation(classes).tolist())
    given = tuple(int(c) for c in order)
    if sorted(given) != list(range(classes)):
        raise ValueError(f"a class order must name each of the {classes} classes once")
    return given


def split(labels: Labels, share: float, seed: int) -> tuple[Labels, Labels]:
    """Positions of rows to keep and to hold out, the share taken from every class."""
    if not 0.0 < share < 1.0:
        raise ValueError(f"the share to hold out must be between 0 and 1, but it is {share}")
    rng, out = np.random.default_rng(seed), []
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        out.append(rows[: min(max(1, round(share * len(rows))), len(rows) - 1)])
    held = np.sort(np.concatenate(out))
    return np.setdiff1d(np.arange(len(labels)), held), held


def checked_names(names: Any, classes: int) -> tuple[str, ...]:
    """Distinct, printable names; the numbers where there are none."""
    if classes > MOST_CLASSES:
        raise ValueError(f"there may be at most {MOST_CLASSES:,} classes, but there are {classes:,}")
    array = np.asarray(names)
    if array.ndim != 1:
        raise ValueError("class names must be a list")
    texts = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in array.tolist())
    if not texts:
        return tuple(str(c) for c in range(classes))
    if len(texts) != classes:
        raise ValueError(f"labels go up to {classes - 1}, but there are {len(texts)} class names")
    seen: set[str] = set()
    for name in texts:
        if not name or not name.isprintable() or name in seen:
            raise ValueError(f"class names must be distinct and printable, but one is {name!r:.60}")
        seen.add(name)
    return texts


def _checked_images(images: Any, part: str) -> Pixels:
    array = np.asarray(images)
    if array.dtype == object:
        raise ValueError(f"{part} images must have one size")
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or array.shape[3] not in (1, 3):
        raise ValueError(f"{part} images must be (n, height, width) or (n, height, width, 1 or 3), not {array.shape}")
    if array.dtype != np.uint8:
        raise ValueError(f"{part} images must be bytes (uint8), not {array.dtype}")
    if not array.size:
        raise ValueError(f"there are no {part} images, or they have no pixels")
    return np.ascontiguousarray(np.moveaxis(array, -1, 1))


def _checked_labels(labels: Any, images: int, part: str) -> Labels:
    array = np.asarray(labels)
    if array.shape != (images,):
        raise ValueError(f"there are {images} {part} images but labels of shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{part} labels must be integers, not {array.dtype}")
    labels64: Labels = array.astype(np.int64)
    if labels64.min() < 0:
        raise ValueError(f"{part} labels must be 0 or more, but one is {array.min()}")
    return labels64


def _size(images: Pixels) -> str:
    return f"{images.shape[2]} x {images.shape[3]} with {images.shape[1]} channels"
