"""Image sets from archives, folders, arrays and scikit-learn."""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile

import numpy as np
import pytest
from PIL import Image

from everspan.scenarios import _images, load_images
from everspan.scenarios._images import Archive, cifar
from everspan.scenarios._pickles import read_arrays


def test_digits_are_there_without_a_network_and_split_by_class():
    images = load_images("digits")
    assert images.train_images.shape == (1438, 1, 8, 8)
    assert images.test_images.shape == (359, 1, 8, 8)
    assert images.train_images.max() == 255
    assert images.classes == 10


# CIFAR ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path):
    """A small archive laid out like CIFAR-100's, and what is in it."""
    rng, folder = np.random.default_rng(0), tmp_path / "made" / "cifar-100-python"
    folder.mkdir(parents=True)
    content = {}
    for name, count in (("train", 12), ("test", 6)):
        data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        content[name] = {b"data": data, b"fine_labels": [i % 3 for i in range(count)]}
        (folder / name).write_bytes(pickle.dumps(content[name], protocol=2))
    (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", b"bear", "cup"]}, protocol=2))
    packed = tmp_path / "made" / "cifar-100-python.tar.gz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(folder, "cifar-100-python")
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    described = _images.CIFAR["cifar100"]._replace(url="http://127.0.0.1:9/cifar-100-python.tar.gz", sha256=digest)
    return described, tmp_path / "made", content


def test_cifar_is_read_unpacked_and_packed_and_the_same(archive, tmp_path):
    described, home, content = archive
    unpacked = cifar(described, home)
    packed_home = tmp_path / "packed"
    packed_home.mkdir()
    (home / "cifar-100-python.tar.gz").rename(packed_home / "cifar-100-python.tar.gz")
    packed = cifar(described, packed_home)
    for images in (unpacked, packed):
        np.testing.assert_array_equal(images.train_images.reshape(12, 3072), content["train"][b"data"])
        assert images.test_labels.tolist() == content["test"][b"fine_labels"]
        assert images.names == ("apple", "bear", "cup")


def test_cifar_10_is_read_from_its_five_batches(tmp_path):
    rng, folder = np.random.default_rng(0), tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    pixels = {}
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        pixels[name] = rng.integers(0, 256, (4, 3072), dtype=np.uint8)
        batch = {b"data": pixels[name], b"labels": [0, 1, 0, 1]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"airplane", b"automobile"]}, protocol=2))
    images = load_images("cifar10", tmp_path)
    assert images.train_images.shape == (20, 3, 32, 32)
    np.testing.assert_array_equal(images.train_images[4:8].reshape(4, 3072), pixels["data_batch_2"])
    np.testing.assert_array_equal(images.test_images.reshape(4, 3072), pixels["test_batch"])
    assert images.names == ("airplane", "automobile")


def test_an_archive_that_is_not_the_official_one_is_refused(archive, tmp_path):
    described, home, _ = archive
    other = tmp_path / "other"
    other.mkdir()
    content = (home / "cifar-100-python.tar.gz").read_bytes()
    (other / "cifar-100-python.tar.gz").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="not the official archive"):
        cifar(described, other)


def test_without_a_network_the_message_says_where_to_put_the_archive(archive, tmp_path):
    described: Archive = archive[0]
    with pytest.raises(ValueError, match=r"cannot be reached .* put the archive"):
        cifar(described, tmp_path / "empty")
    assert not list((tmp_path / "empty").iterdir())


def test_an_archive_is_fetched_checked_and_kept(archive, tmp_path, monkeypatch):
    described, home, _ = archive
    content = (home / "cifar-100-python.tar.gz").read_bytes()
    monkeypatch.setattr(_images.urllib.request, "urlopen", lambda url, timeout: io.BytesIO(content))
    fetched = tmp_path / "fetched"
    assert cifar(described, fetched).classes == 3
    assert [path.name for path in fetched.iterdir()] == ["cifar-100-python.tar.gz"]


class Evil:
    def __reduce__(self):
        return print, ("owned",)


def test_a_pickle_that_wants_to_run_something_is_refused_before_it_does(capsys):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ValueError, match=r"wants to run .*print"):
            read_arrays(pickle.dumps({b"data": Evil()}, protocol=protocol))
    assert "owned" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2])[:-3]])
def test_a_broken_pickle_is_refused(content):
    with pytest.raises(ValueError, match="cannot be read"):
        read_arrays(content)


# Arrays and folders ---------------------------------------------------------------------------------------------------


def test_arrays_come_from_an_npz_file(tmp_path):
    pixels, labels = np.zeros((4, 5, 6), dtype=np.uint8), np.array([0, 1, 0, 1])
    good = {"train_images": pixels, "train_labels": labels, "test_images": pixels, "test_labels": labels}
    np.savez(tmp_path / "good.npz", **good, names=["cat", "dog"])
    images = load_images(str(tmp_path / "good.npz"))
    assert images.train_images.shape == (4, 1, 5, 6)
    assert list(images.names) == ["cat", "dog"]
    np.savez(tmp_path / "short.npz", train_images=pixels)
    with pytest.raises(ValueError, match="no array 'train_labels'"):
        load_images(str(tmp_path / "short.npz"))


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04", "npy", "cut"])
def test_a_broken_npz_file_is_refused_by_name(tmp_path, content):
    path = tmp_path / "images.npz"
    if content == "npy":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif content == "cut":
        np.savez_compressed(path, train_images=np.random.default_rng(0).random((50, 50)))
        path.write_bytes(path.read_bytes()[:-30])
    else:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"images\.npz cannot be read"):
        load_images(str(path))


def picture(path, size=(6, 5), color=(10, 20, 30), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, color).save(path)


def test_pictures_come_from_a_folder(tmp_path):
    for part in ("train", "test"):
        picture(tmp_path / part / "cat" / "a.png")
        picture(tmp_path / part / "dog" / "b.png", color=(1, 2, 3))
    picture(tmp_path / "train" / ".ipynb_checkpoints" / "a.png")
    for beside in ("notes.txt", "Thumbs.db", ".DS_Store"):
        (tmp_path / "train" / "cat" / beside).write_text("no picture")
    images = load_images(str(tmp_path))
    assert images.names == ("cat", "dog")
    assert images.train_images.shape == (2, 3, 5, 6)
    assert images.train_images[1, :, 0, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda root: picture(root / "train" / "cat" / "z.png", size=(7, 5)), r"z\.png is 7 x 5 .* are 6 x 5"),
        (lambda root: (root / "test" / "dog" / "b.png").unlink(), "class 'dog' has no pictures"),
        (lambda root: picture(root / "test" / "owl" / "c.png"), "no folder of class 'owl'"),
        (lambda root: (root / "train" / "cat" / "z.png").write_bytes(b"text"), r"z\.png is no picture"),
        (lambda root: picture(root / "train" / "cat" / "z.png", color=9, mode="I;16"), "more than 8 bits"),
        (lambda root: (root / "test").rename(root / "valid"), "no folder 'test'"),
        (lambda root: (root / "test" / "dog" / "c.heic").write_bytes(b""), r"c\.heic: pictures are \.png"),
    ],
)
def test_bad_folders_are_refused_by_name(tmp_path, change, message):
    for part in ("train", "test"):
        picture(tmp_path / part / "cat" / "a.png")
        picture(tmp_path / part / "dog" / "b.png")
    change(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_images(str(tmp_path))


@pytest.mark.parametrize("suffix", ["jpg", "JPEG", "webp", "tif", "bmp", "ppm", "gif"])
def test_pictures_of_all_usual_kinds_are_read(tmp_path, suffix):
    for part in ("train", "test"):
        picture(tmp_path / part / "cat" / f"a.{suffix}")
        picture(tmp_path / part / "cat" / "b.png")
    images = load_images(str(tmp_path))
    assert len(images.train_images) == len(images.test_images) == 2
    assert abs(images.train_images.astype(int) - images.test_images).max() == 0
    assert abs(images.train_images[0].mean(axis=(1, 2)) - [10, 20, 30]).max() < 6  # some kinds lose a little


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(ValueError, match="digits, cifar10, cifar100"):
        load_images("mnist")
