"""Class-incremental scenarios."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everspan.scenarios import ClassScenario, ImageSet, class_order


def image_set(classes=6, each=3, test=2, size=8, channels=3):
    rng = np.random.default_rng(0)

    def part(count):
        labels = np.repeat(np.arange(classes), count)
        return rng.integers(0, 256, (len(labels), size, size, channels), dtype=np.uint8), rng.permutation(labels)

    return ImageSet(*part(each), *part(test))


@given(st.integers(0, 2**31), st.sampled_from([(1, None), (2, None), (3, None), (2, 4), (1, 3)]))
def test_tasks_are_a_partition_of_the_images_and_of_the_classes(order, shape):
    increment, first = shape
    scenario = ClassScenario(image_set(), increment, first, order)
    images = scenario.images
    assert sorted(c for task in scenario for c in task.classes) == list(range(6))
    assert [label for task in scenario for label in task.labels] == list(range(6))
    for part in ("train", "test"):
        rows = np.concatenate([getattr(task, part) for task in scenario])
        assert sorted(rows) == list(range(len(getattr(images, f"{part}_images"))))
        for task in scenario:
            own = getattr(images, f"{part}_labels")[getattr(task, part)]
            assert set(own) == set(task.classes)
            ordered = getattr(scenario, f"{part}_labels")[getattr(task, part)]
            assert [scenario.order[label] for label in ordered] == own.tolist()


def test_a_slice_is_all_seen_so_far():
    scenario = ClassScenario(image_set(), 2)
    assert [task.index for task in scenario[:2]] == [0, 1]
    assert scenario[:2][-1].seen == 4
    assert scenario[-1].labels == range(4, 6)


def test_the_class_order_of_a_seed_is_the_published_one():
    assert class_order(100, 1993)[:10] == (68, 56, 78, 8, 23, 84, 90, 65, 74, 76)  # as in iCaRL's and DER's code


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]])
def test_an_order_names_every_class_once(order):
    with pytest.raises(ValueError, match="each of the 6 classes once"):
        ClassScenario(image_set(), 2, order=order)


@pytest.mark.parametrize(("increment", "first"), [(4, None), (7, None), (0, None), (2, 3), (2, 0)])
def test_classes_that_do_not_split_are_refused(increment, first):
    with pytest.raises(ValueError, match="classes"):
        ClassScenario(image_set(), increment, first)


def test_held_out_images_are_of_every_class_and_no_longer_trained_on():
    images = image_set(each=10)
    out = images.held_out(0.2, seed=3)
    assert np.bincount(out.test_labels).tolist() == [2] * 6
    assert np.bincount(out.train_labels).tolist() == [8] * 6
    before = {image.tobytes() for image in images.train_images}
    trained, judged = ({image.tobytes() for image in part} for part in (out.train_images, out.test_images))
    assert trained | judged == before
    assert not trained & judged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_labels": np.array([0, 0, 2])}, "class 1 has no train images"),
        ({"test_labels": np.array([0, 1, 1])}, "class 2 has no test images"),
        ({"train_labels": np.array([0, 1])}, "3 train images but labels of shape"),
        ({"train_labels": np.array([0, 1, -1])}, "0 or more"),
        ({"train_labels": np.array([0.0, 1.0, 2.0])}, "integers"),
        ({"train_images": np.zeros((3, 8, 8), dtype=np.float32)}, "uint8"),
        ({"train_images": np.zeros((3, 8, 8, 2), dtype=np.uint8)}, "height, width"),
        ({"test_images": np.zeros((3, 9, 8), dtype=np.uint8)}, "8 x 8 .* 9 x 8"),
        ({"train_images": np.zeros((0, 8, 8), dtype=np.uint8), "train_labels": np.zeros(0, dtype=int)}, "no train"),
        ({"names": ["a", "b"]}, "there are 2 class names"),
        ({"names": ["a", "b", "a"]}, "distinct"),
        ({"names": ["a", "b", "c\t"]}, "printable"),
        ({"names": "abc"}, "must be a list"),
        ({"train_labels": np.array([0, 1, 10**13])}, "only 3 train images"),
        ({"train_labels": np.array([0, 1, 2**64 - 1], dtype=np.uint64)}, "0 or more"),
    ],
)
def test_bad_images_and_labels_are_refused_by_name(change, message):
    pixels, labels = np.zeros((3, 8, 8), dtype=np.uint8), np.arange(3)
    good = {"train_images": pixels, "train_labels": labels, "test_images": pixels, "test_labels": labels}
    with pytest.raises(ValueError, match=message):
        ImageSet(**(good | change))
