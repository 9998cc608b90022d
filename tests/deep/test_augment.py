"""Augmentation keeps labels and ranges, and does what each operation says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from everspan.deep.augment import COLUMNS, OPERATIONS, Augmentation, affine, crop, cutmix, cutout, flip, turn
from everspan.deep.descent import Plan
from everspan.scenarios import ClassScenario

from ._common import image_set, make_engine


def batch(seed, size=8, channels=3, count=6):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8, generator=generator)
    return images, generator


@pytest.mark.parametrize("name", [*OPERATIONS, "cutmix"])
@pytest.mark.parametrize("channels", [1, 3])
@settings(max_examples=20)
@given(seed=st.integers(0, 2**31))
def test_every_operation_keeps_shape_and_range_and_is_a_function_of_its_numbers(name, channels, seed):
    images, generator = batch(seed, channels=channels)
    augmentation = Augmentation.parse(name)
    u = torch.rand(len(images), augmentation.columns, generator=generator)
    first, second = augmentation(images, u), augmentation(images, u)
    assert first.images.shape == images.shape
    assert 0.0 <= first.images.min() <= first.images.max() <= 1.0
    assert torch.equal(first.images, second.images)
    assert torch.isfinite(first.images).all()


@pytest.mark.parametrize("name", ["flip:0", "contrast:0", "saturation:0", "affine:0", "cutout:0", "cutmix:0", "crop:0"])
def test_an_operation_on_no_image_changes_none(name):
    images, generator = batch(0)
    mixed = Augmentation.parse(name)(images, torch.rand(6, COLUMNS, generator=generator))
    assert torch.equal(mixed.images, images / 255.0)
    assert mixed.share is None or torch.equal(mixed.share, torch.ones(6))


@given(st.integers(0, 2**31), st.integers(1, 3))
def test_a_crop_is_a_window_of_the_padded_image(seed, padding):
    images, generator = batch(seed)
    x = images / 255.0
    u = torch.rand(6, COLUMNS, generator=generator)
    out = crop(x, u, padding)
    padded = torch.nn.functional.pad(x, [padding] * 4)
    for i in range(6):
        windows = [padded[i, :, a : a + 8, b : b + 8] for a in range(2 * padding + 1) for b in range(2 * padding + 1)]
        assert any(torch.equal(out[i], window) for window in windows)
    corner = crop(x, torch.zeros(6, COLUMNS), padding)
    assert torch.equal(corner, padded[:, :, :8, :8])
    assert torch.equal(crop(x, torch.full((6, COLUMNS), 0.9999999), padding), padded[:, :, -8:, -8:])


def test_a_flip_is_a_mirror_and_every_second_image_on_average():
    images, generator = batch(0, count=2000, size=4)
    x = images / 255.0
    out = flip(x, torch.rand(2000, COLUMNS, generator=generator), 0.5)
    mirrored = (out == x.flip(3)).flatten(1).all(dim=1)
    same = (out == x).flatten(1).all(dim=1)
    assert (mirrored | same).all()
    assert 900 < int(mirrored.sum()) < 1100


def test_cutout_greys_a_box_and_nothing_else():
    images, generator = batch(0, count=50)
    x = images / 255.0
    out = cutout(x, torch.rand(50, COLUMNS, generator=generator), 1.0)
    changed = (out != x).any(dim=1)
    assert (out[(out != x)] == 0.5).all()
    assert changed.flatten(1).sum(dim=1).max() <= 16  # half of each side
    assert changed.any()


@settings(max_examples=50)
@given(st.integers(0, 2**31))
def test_the_label_share_of_cutmix_is_the_area(seed):
    _, generator = batch(seed)
    x = torch.arange(6.0)[:, None, None, None].expand(6, 3, 8, 8).clone()  # every image one colour of its own
    mixed = cutmix(x, torch.rand(6, COLUMNS, generator=generator), 0.7)
    own = torch.arange(6)
    for i in range(6):
        assert (mixed.images[i] == own[i]).float().mean() == pytest.approx(float(mixed.share[i]))
        others = mixed.images[i][mixed.images[i] != own[i]]
        assert (others == mixed.partner[i]).all()


def test_targets_follow_the_mixture():
    scenario = ClassScenario(image_set(), 2)
    engine = make_engine(scenario, augment="cutmix:1.0")
    engine.begin(0, 6)
    rows = torch.arange(20)
    noise = torch.rand(20, COLUMNS, generator=torch.Generator().manual_seed(0))
    _, targets = engine._batch(rows, noise)
    mixed = engine.augmentation(engine.images[rows], noise)
    torch.testing.assert_close(targets.sum(dim=1), torch.ones(20))
    for i in range(20):
        expected = torch.zeros(6)
        expected[engine.labels[i]] += mixed.share[i]
        expected[engine.labels[mixed.partner[i]]] += 1.0 - mixed.share[i]
        torch.testing.assert_close(targets[i], expected)


def test_the_last_epochs_go_without_mixing_and_the_first_task_has_its_own_augmentation():
    scenario = ClassScenario(image_set(), 2)
    weak, strong = Augmentation.parse("crop:1"), "crop:1,flip,cutmix:1.0"
    engine = make_engine(scenario, augment=strong, first_augmentation=weak)
    module = torch.nn.Linear(64, 6)
    mixed_epochs = []

    def loss(images, targets):
        mixed_epochs.append(bool(((targets > 0.0) & (targets < 1.0)).any()))
        return torch.nn.functional.cross_entropy(module(images.flatten(1)), targets)

    plan = Plan(epochs=5, batch_size=72, unmixed=0.4)
    for task in (0, 1, 2):
        engine.begin(task, 6)
        engine.train(module, loss, torch.arange(72), plan)
    assert mixed_epochs == [False] * 5 + 2 * [True, True, True, False, False]


@given(st.integers(0, 1000))
def test_numbers_that_mix_nothing_change_nothing_else(seed):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8, generator=generator)
    for text in ("crop:1,flip,cutout", "crop:1,cutmix:1.0,flip,cutout"):
        both = Augmentation.parse(text)
        u = torch.rand(6, both.columns, generator=generator)
        plain = Augmentation.parse("crop:1,flip,cutout")(images, u[:, :12])
        assert torch.equal(both(images, both.unmixed(u)).images, plain.images)


def test_without_mixing_targets_are_the_labels():
    scenario = ClassScenario(image_set(), 2)
    engine = make_engine(scenario, augment="crop:1,flip,brightness,contrast,saturation,affine,cutout")
    engine.begin(0, 6)
    rows = torch.arange(30)
    _, targets = engine._batch(rows, torch.rand(30, engine.augmentation.columns))
    assert torch.equal(targets.argmax(dim=1), engine.labels[:30])
    assert torch.equal(targets, torch.nn.functional.one_hot(engine.labels[:30], 6).float())


@pytest.mark.parametrize("text", ["spin", "flip:2", "crop:-1", "flip:often", "turn:200"])
def test_unknown_augmentation_is_refused(text):
    with pytest.raises(ValueError, match="augmentation"):
        Augmentation.parse(text)


def test_a_turn_is_a_turn_on_images_that_are_not_square():
    x = torch.zeros(1, 1, 20, 80)
    x[:, :, 10:, :] = 1.0  # a level edge
    turned = affine(x, torch.tensor([[0.0, 1.0, 0.5, 0.5]]), 1.0)  # by 15 degrees
    middle = (turned[0, 0, :, 30:50] > 0.5).float().argmax(dim=0).float()
    slope = (middle[-1] - middle[0]) / 19.0
    assert abs(abs(float(slope)) - math.tan(math.radians(15.0))) < 0.06


def test_a_turn_of_a_quarter_is_that_of_the_grid_and_no_turn_is_none():
    images, _ = batch(0)
    x = images / 255.0
    quarters, none = torch.ones(6, COLUMNS), torch.full((6, COLUMNS), 0.5)
    torch.testing.assert_close(turn(x, quarters, 90.0), x.rot90(1, dims=(2, 3)), atol=1e-4, rtol=0.0)
    torch.testing.assert_close(turn(x, 1.0 - quarters, 90.0), x.rot90(-1, dims=(2, 3)), atol=1e-4, rtol=0.0)
    torch.testing.assert_close(turn(x, none, 90.0), x, atol=1e-4, rtol=0.0)


def test_none_is_no_augmentation_and_cutmix_is_last():
    assert Augmentation.parse("none").steps == ()
    assert [name for name, _ in Augmentation.parse("cutmix,flip").steps] == ["flip", "cutmix"]
