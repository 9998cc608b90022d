"""Image sets from where people have them: CIFAR's archives, folders of pictures, arrays, scikit-learn's digits."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ..untrusted import one_line, open_regular, read_whole
from ._classes import ImageSet, split
from ._pickles import read_arrays

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".pbm", ".pgm", ".ppm", ".pnm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # Pillow's names; others may start other programs
MOST_PIXELS = 1 << 25  # of a picture that is read: decoding takes about 14 bytes for each
MOST_PICTURE_BYTES = 1 << 28
MOST_BATCH_BYTES = 1 << 28  # of a file of CIFAR: the largest has 155 MB
MOST_SHRUNK = 100  # how many times smaller than its content a large array may be in its .npz file
BESIDE = (".txt", ".md", ".json", ".xml", ".csv", ".ini", ".db")  # what may lie beside pictures and is none


class Archive(NamedTuple):
    """An official archive of CIFAR, and where things are in it."""

    url: str
    sha256: str
    folder: str
    train: tuple[str, ...]
    test: str
    labels: str
    meta: str
    names: str


CIFAR = {
    "cifar10": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        "cifar-10-batches-py",
        tuple(f"data_batch_{i}" for i in range(1, 6)),
        "test_batch",
        "labels",
        "batches.meta",
        "label_names",
    ),
    "cifar100": Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        "cifar-100-python",
        ("train",),
        "test",
        "fine_labels",
        "meta",
        "fine_label_names",
    ),
}


def load_images(data: str, folder: Path | None = None, download: bool = True) -> ImageSet:
    """An image set by name: ``digits``, ``cifar10``, ``cifar100``, or the path of an ``.npz`` file or of a folder.

    Parameters
    ----------
    data : str
        The name or path. A folder has ``train/CLASS/picture`` and ``test/CLASS/picture``; an ``.npz`` file has
        ``train_images``, ``train_labels``, ``test_images``, ``test_labels`` and perhaps ``names``.
    folder : Path, optional
        Where CIFAR is, unpacked or as its archive, or is to be put. None: ``$EVERSPAN_DATA``, or ``~/.cache/everspan``.
    download : bool
        Fetch CIFAR where it is missing.
    """
    if data == "digits":
        return digits()
    if data in CIFAR:
        home = folder or Path(os.environ.get("EVERSPAN_DATA") or Path.home() / ".cache" / "everspan")
        return cifar(CIFAR[data], home, download)
    path = Path(data)
    if path.suffix == ".npz" and path.is_file():
        return from_npz(path)
    if path.is_dir():
        return from_folder(path)
    raise ValueError(f"--data must be digits, cifar10, cifar100, an .npz file or a folder of pictures, not {data!r}")


def digits(seed: int = 0) -> ImageSet:
    """scikit-learn's 1,797 digits of 8 x 8, a fifth of every class held out by the seed as the test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ValueError("--data digits needs scikit-learn: pip install scikit-learn") from error
    bunch = load_digits()
    pixels = np.round(bunch.images * (255.0 / 16.0)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    train, test = split(labels, 0.2, seed)
    return ImageSet(pixels[train], labels[train], pixels[test], labels[test])


def from_npz(path: Path) -> ImageSet:
    """An ``.npz`` file of arrays; pickled objects are refused, and arrays that unpack to far more than the file."""
    needed = ("train_images", "train_labels", "test_images", "test_labels")
    try:
        with open_regular(path) as opened, zipfile.ZipFile(opened) as packed:
            _check_unpacked(packed)
        with open_regular(path) as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in (*needed, "names") if name in file.files}
    except Exception as error:  # numpy and zipfile end in many ways on a file that is cut short or made up
        raise ValueError(f"{path} cannot be read as an .npz file of arrays: {one_line(error)}") from error
    for name in needed:
        if name not in arrays:
            raise ValueError(f"{path} has no array {name!r}")
    return ImageSet(**arrays)


def _check_unpacked(packed: zipfile.ZipFile) -> None:
    """Refuse a few kilobytes that unpack to gigabytes; pixels of real images never shrink so much."""
    for member in packed.infolist():
        if member.file_size > (1 << 26) + MOST_SHRUNK * member.compress_size:
            raise ValueError(f"an array would unpack to {member.file_size:,} bytes from {member.compress_size:,}")


def from_folder(path: Path) -> ImageSet:
    """Pictures in ``train/CLASS/`` and ``test/CLASS/``, all of one size."""
    for part in ("train", "test"):
        if not (path / part).is_dir():
            raise ValueError(f"{path} has no folder {part!r}: pictures go into {part}/CLASS/")
    names = _folders(path / "train")
    unknown = set(_folders(path / "test")) - set(names)
    if not names or unknown:
        raise ValueError(f"{path / 'train'} has no folder of class {min(unknown, default='...')!r}")
    return ImageSet(*_pictures(path / "train", names), *_pictures(path / "test", names), tuple(names))


def _folders(path: Path) -> list[str]:
    return sorted(child.name for child in path.iterdir() if child.is_dir() and not child.name.startswith("."))


def _pictures(folder: Path, names: list[str]) -> tuple[Any, Any]:
    images: list[Any] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        if not (folder / name).is_dir():
            raise ValueError(f"class {name!r} is missing in {folder}")
        there = sorted(path for path in (folder / name).iterdir() if not path.name.startswith("."))
        files = [path for path in there if path.suffix.lower() in PICTURES]
        others = [path for path in there if path.suffix.lower() not in PICTURES + BESIDE]
        if others:  # left out without a word, they would be missed
            more = f" and {len(others) - 1} more there" if len(others) > 1 else ""
            raise ValueError(f"{others[0]}{more}: pictures are {', '.join(PICTURES)}; take out what is none")
        if not files:
            raise ValueError(f"class {name!r} has no pictures in {folder}")
        for file in files:
            image = read_picture(file)
            if images and image.shape != images[0].shape:
                raise ValueError(f"{file} is {_shape(image)}, but the pictures before it are {_shape(images[0])}")
            images.append(image)
            labels.append(label)
    return np.stack(images), np.array(labels)


def read_picture(path: Path, channels: int | None = None) -> Any:
    """The pixels of a picture: (height, width, channels), grey ones with one channel unless another number is given.

    The file may come from a stranger: only the formats in ``FORMATS`` are opened, and its size is looked at before its
    pixels are decoded.
    """
    from PIL import Image

    try:
        content = io.BytesIO(read_whole(path, MOST_PICTURE_BYTES))
        with _quiet(), Image.open(content, formats=FORMATS) as picture:
            wrong = _unreadable(picture)
            if wrong is None:
                grey = picture.mode in ("1", "L", "LA") if channels is None else channels == 1
                pixels = np.asarray(picture.convert("L" if grey else "RGB"))
    except FileNotFoundError as error:
        raise ValueError(f"{path} is not there") from error
    except Exception as error:  # decoders end in as many ways as there are broken pictures
        raise ValueError(f"{path} is no picture that can be read") from error
    if wrong is not None:
        raise ValueError(f"{path} {wrong}")
    return pixels[..., None] if pixels.ndim == 2 else pixels


@contextmanager
def _quiet() -> Iterator[None]:
    """Say nothing about a picture that is odd and can be read all the same, or cannot be read, which we say.

    libtiff prints to the process's standard error, where no setting of Python's reaches.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        except OSError:  # standard error was closed: nothing is said there
            yield
            return
        try:
            os.dup2(nowhere, 2)
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
            os.close(nowhere)


def _unreadable(picture: Any) -> str | None:
    """Why a picture is not decoded, by what its header says."""
    width, height = picture.size
    if picture.mode.startswith(("I", "F")):
        return "has more than 8 bits a pixel: make its values bytes first"
    if width * height > MOST_PIXELS:
        return f"has {width:,} x {height:,} pixels, but at most {MOST_PIXELS:,} are read: make it smaller"
    return None


def _shape(image: Any) -> str:
    return f"{image.shape[1]} x {image.shape[0]} with {image.shape[2]} channels"


# CIFAR ----------------------------------------------------------------------------------------------------------------


def cifar(archive: Archive, home: Path, download: bool = True) -> ImageSet:
    """CIFAR from its unpacked folder or from its archive, fetched first where there is neither."""
    folder, packed = home / archive.folder, home / Path(archive.url).name
    if folder.is_dir():
        return _batches(archive, lambda name: open_regular(folder / name))
    if not packed.exists():
        if not download:
            raise ValueError(f"{folder} is not there")
        _fetch(archive, packed)
    _check(archive, packed)
    with tarfile.open(packed) as tar:

        def member(name: str) -> IO[bytes]:
            found = tar.extractfile(f"{archive.folder}/{name}")
            if found is None:
                raise ValueError(f"{packed} has no {name}")
            return io.BytesIO(found.read())

        return _batches(archive, member)


def _fetch(archive: Archive, packed: Path) -> None:
    packed.parent.mkdir(parents=True, exist_ok=True)
    partial = packed.with_suffix(".partial")
    try:
        with urllib.request.urlopen(archive.url, timeout=30) as source, partial.open("wb") as target:
            while block := source.read(1 << 20):
                target.write(block)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise ValueError(
            f"{archive.url} cannot be reached ({error}): put the archive, or its folder {archive.folder}, "
            f"into {packed.parent}, or name the folder that has it with --data-dir"
        ) from error
    os.replace(partial, packed)


def _check(archive: Archive, packed: Path) -> None:
    with packed.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != archive.sha256:
            raise ValueError(f"{packed} is not the official archive (its SHA-256 differs): delete it to fetch it anew")


def _batches(archive: Archive, opened: Callable[[str], IO[bytes]]) -> ImageSet:
    def content(name: str, *wanted: str) -> list[Any]:
        with opened(name) as file:
            found = read_arrays(file.read(MOST_BATCH_BYTES))
        held = {_text(key): value for key, value in found.items()} if isinstance(found, dict) else {}
        for key in wanted:
            if key not in held:
                raise ValueError(f"{name}, a file of CIFAR, has no {key!r}")
        return [held[key] for key in wanted]

    def batch(name: str) -> tuple[Any, Any]:
        data, labels = content(name, "data", archive.labels)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
            raise ValueError(f"{name}, a file of CIFAR, must hold images as bytes of shape (n, 3072)")
        if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 1000 for label in labels):
            raise ValueError(f"{name}, a file of CIFAR, must hold labels as a list of whole numbers below 1,000")
        return np.moveaxis(data.reshape(-1, 3, 32, 32), 1, -1), np.array(labels, dtype=np.int64)

    parts = [batch(name) for name in archive.train]
    (names,) = content(archive.meta, archive.names)
    if not isinstance(names, list) or not all(isinstance(name, bytes | str) for name in names):
        raise ValueError(f"{archive.meta}, a file of CIFAR, must hold a list of the classes' names")
    images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ImageSet(images, labels, *batch(archive.test), tuple(_text(name) for name in names))


def _text(name: Any) -> str:
    """Archives written by Python 2 have bytes where others have text."""
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
