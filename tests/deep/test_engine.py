"""The training loop: its schedule, its descent, its determinism."""

from __future__ import annotations

import copy
import math
import time
from itertools import combinations, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from everspan.deep.descent import Descent, Plan
from everspan.scenarios import ClassScenario

from ._common import Tiny, image_set, make_engine


class Linear(nn.Module):
    """The smallest thing that can be trained."""

    def __init__(self, classes=6):
        super().__init__()
        self.layer = nn.Linear(64, classes)

    def forward(self, x):
        return self.layer(x.flatten(1))

    def loss(self, images, targets):
        return functional.cross_entropy(self(images), targets)


def scenario():
    return ClassScenario(image_set(), 2)


def test_descent_is_torchs_sgd():
    torch.manual_seed(0)
    first, second = nn.Linear(5, 3), nn.Linear(5, 3)
    second.load_state_dict(first.state_dict())
    plan = Plan(epochs=1, momentum=0.9, weight_decay=0.01)
    ours = Descent(list(first.parameters()), plan, torch.device("cpu"))
    theirs = torch.optim.SGD(second.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for step in range(20):
        x, rate = torch.randn(7, 5), 0.1 / (1 + step)
        ours.rate.fill_(rate)
        ours.step(first(x).square().mean())
        theirs.param_groups[0]["lr"] = rate
        theirs.zero_grad()
        second(x).square().mean().backward()
        theirs.step()
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_the_schedule_of_steps():
    rates = Plan(epochs=10, learning_rate=1.0, warmup=2, milestones=(0.5, 0.8), decay=0.1).rates(steps=4)
    assert len(rates) == 40
    torch.testing.assert_close(rates[:8], torch.arange(1, 9) / 8.0)  # rises through two epochs
    assert rates[8:20].tolist() == [1.0] * 12
    torch.testing.assert_close(rates[20:32], torch.full((12,), 0.1))
    torch.testing.assert_close(rates[32:], torch.full((8,), 0.01))


def test_the_cosine_schedule_falls_towards_zero():
    rates = Plan(epochs=10, learning_rate=2.0, warmup=2, schedule="cosine").rates(steps=5)
    assert rates[9:11].tolist() == [2.0, 2.0]  # the end of warming up, and where falling begins
    assert rates[10 + 20] == pytest.approx(2.0 * 0.5 * (1 + math.cos(math.pi / 2)), rel=1e-5)  # half-way
    assert (rates[10:].diff() < 0).all()
    assert 0.0 < float(rates[-1]) < 0.01


@given(
    epochs=st.integers(1, 30),
    steps=st.integers(1, 9),
    warmup=st.integers(0, 40),
    schedule=st.sampled_from(["steps", "cosine"]),
)
def test_no_step_is_without_a_rate(epochs, steps, warmup, schedule):
    """One epoch of one step, such as a few held-out images are, learned nothing once."""
    rates = Plan(epochs=epochs, learning_rate=2.0, warmup=warmup, schedule=schedule).rates(steps)
    assert len(rates) == epochs * steps
    assert ((rates > 0.0) & (rates <= 2.0)).all()


def trained(seed=0, epochs=3, engine=None, start=0, clipped=False):
    torch.manual_seed(start)
    engine = engine or make_engine(scenario(), seed=seed)
    module = Linear().to(engine.device)
    torch.manual_seed(time.perf_counter_ns())  # whatever state the global generator is in

    def clip():
        with torch.no_grad():
            module.layer.weight.clamp_(min=0.0)

    engine.begin(0, 6)
    plan = Plan(epochs=epochs, batch_size=16, learning_rate=0.05)
    engine.train(module, module.loss, torch.arange(72), plan, after=clip if clipped else None)
    return module.state_dict()


def same(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    first = trained()
    assert same(first, trained())
    assert not same(first, trained(seed=1))
    assert not same(first, trained(start=1))


def test_every_stage_and_every_epoch_of_every_task_draws_its_own_order():
    engine, module, orders = make_engine(scenario(), augment="none"), Linear(), []

    def loss(images, targets):
        orders.append(images.clone())
        return module.loss(images, targets)

    for task in range(2):
        engine.begin(task, 6)
        for _ in range(2):
            engine.train(module, loss, torch.arange(72), Plan(epochs=2, batch_size=72))
    assert len(orders) == 8
    assert not any(torch.equal(first, second) for first, second in combinations(orders, 2))


def test_training_learns():
    images = scenario()
    engine = make_engine(images, augment="none")
    engine.begin(0, 6)
    module = Linear()
    engine.train(module, module.loss, torch.arange(72), Plan(epochs=30, batch_size=24, learning_rate=0.05))
    scores = engine.scores(module, torch.from_numpy(images.images.test_images))
    assert (scores.argmax(dim=1) == torch.from_numpy(images.test_labels)).float().mean() > 0.9


def test_only_the_parameters_given_are_trained():
    engine = make_engine(scenario())
    engine.begin(0, 6)
    module = Linear()
    before = module.layer.weight.clone()
    engine.train(module, module.loss, torch.arange(72), Plan(epochs=1), [module.layer.bias])
    assert torch.equal(module.layer.weight, before)
    assert not torch.equal(module.layer.bias, torch.zeros(6))


def test_what_ends_a_step_is_done_after_every_one():
    engine = make_engine(scenario())
    engine.begin(0, 6)
    module, before = Linear(), []

    def loss(images, targets):
        before.append(module.layer.weight.detach().clone())
        return module.loss(images, targets)

    def halve():
        with torch.no_grad():
            module.layer.weight.mul_(0.5)

    still = Plan(epochs=2, batch_size=24, learning_rate=0.0)
    engine.train(module, loss, torch.arange(72), still, after=halve)
    assert len(before) == 6
    for one, next_one in pairwise([*before, module.layer.weight.detach()]):
        assert torch.equal(next_one, 0.5 * one)


def test_every_epoch_sees_every_image_once():
    engine = make_engine(scenario(), augment="none")
    engine.begin(0, 6)
    seen = []
    module = Linear()

    def loss(images, targets):
        seen.append((images[:, 0, 0, 0].clone(), images.flatten(1).sum(dim=1)))
        return module.loss(images, targets)

    rows = torch.arange(0, 72, 3)
    engine.train(module, loss, rows, Plan(epochs=2, batch_size=8))
    expected = engine._normalised(engine.images[rows] / 255.0).flatten(1).sum(dim=1).sort().values
    for epoch in range(2):
        sums = torch.cat([total for _, total in seen[3 * epoch : 3 * epoch + 3]])
        torch.testing.assert_close(sums.sort().values, expected)
    assert not torch.equal(seen[0][1], seen[3][1])  # in another order


@pytest.mark.parametrize(
    ("plan", "made"),
    [
        ({"nesterov": True}, lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.01, nesterov=True)),
        ({"momentum": 0.0}, lambda p: torch.optim.SGD(p, 0.05, weight_decay=0.01)),
        ({"optimiser": "adam"}, lambda p: torch.optim.Adam(p, 0.05, weight_decay=0.01)),
    ],
)
def test_descent_is_that_of_torch(plan, made):
    plan = Plan(epochs=4, batch_size=72, learning_rate=0.05, weight_decay=0.01, milestones=(), **plan)
    engine = make_engine(scenario(), augment="none")
    engine.begin(0, 6)
    torch.manual_seed(0)
    module = Linear()
    reference = copy.deepcopy(module)
    engine.train(module, module.loss, torch.arange(72), plan)
    optimiser = made(reference.parameters())
    images = engine._normalised(engine.images / 255.0)
    for _ in range(4):
        optimiser.zero_grad()
        reference.loss(images, nn.functional.one_hot(engine.labels, 6).float()).backward()
        optimiser.step()
    torch.testing.assert_close(module.layer.weight, reference.layer.weight, rtol=1e-4, atol=1e-5)


class Laid(nn.Module):
    """Parameters whose gradients come in another order of memory: transposed, expanded, channels first and last."""

    def __init__(self):
        super().__init__()
        self.turned = nn.Parameter(torch.linspace(-1.0, 1.0, 6 * 64).view(6, 64))
        self.spread = nn.Parameter(torch.ones(3, 64, 6))
        self.conv = nn.Conv2d(1, 6, 3, padding=1)

    def forward(self, x):
        flat = x.flatten(1)
        return flat @ self.turned.t() + torch.einsum("bi,kij->bj", flat, self.spread) + self.conv(x).mean(dim=(2, 3))

    def loss(self, images, targets):
        return nn.functional.cross_entropy(self(images), targets)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_gradients_of_any_layout_are_taken_as_they_are(optimiser):
    torch.manual_seed(0)
    module = Laid()
    reference = copy.deepcopy(module)
    plan = Plan(epochs=3, batch_size=72, learning_rate=0.01, weight_decay=0.0, milestones=(), optimiser=optimiser)
    engine = make_engine(scenario(), augment="none")
    engine.begin(0, 6)
    engine.train(module, module.loss, torch.arange(72), plan)
    made = torch.optim.SGD(reference.parameters(), 0.01, 0.9) if optimiser == "sgd" else None
    made = made or torch.optim.Adam(reference.parameters(), 0.01)
    images = engine._normalised(engine.images / 255.0)
    for _ in range(3):
        made.zero_grad()
        reference.loss(images, nn.functional.one_hot(engine.labels, 6).float()).backward()
        made.step()
    for name, wanted in reference.named_parameters():
        torch.testing.assert_close(module.get_parameter(name), wanted, rtol=1e-3, atol=1e-4)


def test_nothing_to_train_on_is_said_so():
    engine = make_engine(scenario())
    engine.begin(2, 6)
    with pytest.raises(ValueError, match="no image to train on in task 3"):
        engine.train(Linear(), Linear().loss, torch.zeros(0, dtype=torch.long), Plan(epochs=1))


@pytest.mark.parametrize("ahead", [1, 20, 24, 64, 1000])
def test_batches_made_ahead_are_the_same_batches(ahead):
    """Whatever is made at once, a step sees the same images, targets and fixed values."""
    seen = {}
    for now in (1, ahead):
        engine = make_engine(scenario(), augment="crop:2,flip", ahead=now)
        engine.begin(0, 6)
        module, steps = Linear(), []

        def loss(images, targets, fixed, module=module, steps=steps):
            assert torch.equal(fixed, images.flatten(1)[:, :3])
            steps.append((images.clone(), targets))
            return module.loss(images, targets)

        plan = Plan(epochs=2, batch_size=8)
        engine.train(module, loss, torch.arange(1, 71), plan, fixed=lambda images: images.flatten(1)[:, :3])
        seen[now] = steps
    assert len(seen[1]) == len(seen[ahead]) == 16
    for (images, targets), (others, their_targets) in zip(seen[1], seen[ahead], strict=True):
        assert torch.equal(targets, their_targets)
        assert torch.equal(images, others)


def test_shifted_views_are_averaged():
    engine = make_engine(scenario(), shift_test=1)
    images = torch.randint(256, (3, 1, 8, 8), dtype=torch.uint8)
    padded = nn.functional.pad(images.float(), [1] * 4, mode="replicate").byte()
    views = [images, padded[:, :, :8, :8], padded[:, :, 2:, 2:]]
    module, plain = Linear(), make_engine(scenario())
    expected = torch.stack([plain.scores(module, view) for view in views]).mean(dim=0)
    torch.testing.assert_close(engine.scores(module, images), expected)


def test_a_loss_that_is_no_number_is_said_so():
    engine = make_engine(scenario())
    engine.begin(0, 6)
    module = Linear()
    with pytest.raises(FloatingPointError, match="smaller --learning-rate"):
        engine.train(module, module.loss, torch.arange(72), Plan(epochs=50, learning_rate=1e30))


def test_flips_at_test_time_make_scores_the_same_for_mirror_images():
    engine = make_engine(scenario(), flip_test=True)
    module = Linear()
    images = engine.images[:5]
    torch.testing.assert_close(engine.scores(module, images), engine.scores(module, images.flip(3)))
    plain = make_engine(scenario())
    assert not torch.allclose(plain.scores(module, images), plain.scores(module, images.flip(3)))


def test_inference_leaves_batchnorm_alone():
    engine = make_engine(scenario())
    module = nn.Sequential(Tiny(), nn.Linear(8, 6))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    engine.scores(module, engine.images)
    assert same(before, module.state_dict())


def test_mixed_precision_stays_near_full_precision():
    first, second = trained(), trained(engine=make_engine(scenario(), bf16=True))
    assert not same(first, second)
    torch.testing.assert_close(first["layer.weight"], second["layer.weight"], atol=0.05, rtol=0.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("clipped", [False, True])
def test_a_recorded_step_is_the_step(clipped):
    results = []
    for graphs in (False, True):
        engine = make_engine(scenario(), device=torch.device("cuda"), graphs=graphs)
        results.append(trained(engine=engine, clipped=clipped))
    assert (float(results[1]["layer.weight"].min()) >= 0.0) is clipped
    torch.testing.assert_close(results[0]["layer.weight"], results[1]["layer.weight"], rtol=1e-4, atol=1e-5)
