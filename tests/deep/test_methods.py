"""What each method promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from everspan.deep.memory import ExemplarMemory
from everspan.deep.methods import METHODS, Method, load_method
from everspan.deep.runs import learn_task
from everspan.scenarios import ClassScenario, ImageSet

from ._common import image_set, make_engine, make_method

SMALL = {
    "rpsnet": {"widths": (4, 8), "modules": 3, "candidates": 2, "optimiser": "adam", "learning_rate": 1e-3},
    "bic": {"bias_epochs": 3},
}


def rows_seen(method, task):
    """Learn a task and return the rows of every stage of training."""
    seen = []
    original = method.engine.train

    def train(module, loss, rows, *others, **more):
        seen.append(rows.clone())
        original(module, loss, rows, *others, **more)

    method.engine.train = train
    learn_task(method, task)
    method.engine.train = original
    return seen


def test_finetune_sees_the_new_images_only():
    method, scenario = make_method("finetune")
    for task in scenario:
        (rows,) = rows_seen(method, task)
        assert sorted(rows.tolist()) == task.train.tolist()
    assert len(method.memory) == 0


def test_replay_sees_the_new_images_and_the_memory():
    method, scenario = make_method("replay")
    for task in scenario:
        before = method.memory.positions().tolist()
        (rows,) = rows_seen(method, task)
        assert sorted(rows.tolist()) == sorted([*task.train.tolist(), *before])
        assert len(method.memory) <= 12


def test_joint_sees_all_data_at_every_step_and_starts_anew():
    method, scenario = make_method("joint")
    for task in scenario:
        (rows,) = rows_seen(method, task)
        assert sorted(rows.tolist()) == sorted(np.concatenate([t.train for t in scenario[: task.index + 1]]).tolist())
        assert len(method.network.encoders) == 1


def test_hlll_learns_an_encoder_a_task_on_memory_and_new_data():
    method, scenario = make_method("hlll", classifier_epochs=1)
    for task in scenario:
        before = method.memory.positions().tolist()
        stages = rows_seen(method, task)
        assert sorted(stages[0].tolist()) == sorted([*task.train.tolist(), *before])
        assert len(stages) == (2 if task.index else 1)
        assert len(method.network.encoders) == task.index + 1
        assert method.network.classifier.weight.shape == (task.seen, 8 * (task.index + 1))


@pytest.mark.parametrize("total", [12, 20, 30])
def test_the_balanced_set_is_balanced(total):
    rng = np.random.default_rng(0)
    sizes = [9, 14, 7, 12, 30, 8]
    labels = rng.permutation(np.repeat(np.arange(6), sizes))
    pixels = rng.integers(0, 256, (len(labels), 8, 8), dtype=np.uint8)
    images = ImageSet(pixels, labels, pixels, labels)
    method, scenario = make_method(
        "hlll", ClassScenario(images, 2, order=range(6)), memory=ExemplarMemory(total=total), classifier_epochs=1
    )
    for task in scenario:
        stages = rows_seen(method, task)
        if task.index:
            counts = torch.bincount(method.engine.labels[stages[1]])
            assert len(counts) == task.seen
            assert len(set(counts.tolist())) == 1
            assert counts[0] >= 1
            assert len(set(stages[1].tolist())) == len(stages[1])


def test_the_temperature_acts_as_the_formula_says():
    images, targets = torch.rand(5, 1, 8, 8), functional.one_hot(torch.arange(5) % 2, 2).float()
    for temperature in (0.5, 1.0, 5.0):
        method, scenario = make_method("hlll", temperature=temperature)
        method.engine.begin(0, 2)
        method.begin(scenario[0])
        method.eval()
        scores = method(images)
        likelihood = torch.softmax(scores / temperature, dim=1)[torch.arange(5), torch.arange(5) % 2]
        torch.testing.assert_close(method.heated_loss(images, targets), -likelihood.log().mean())


def test_balanced_softmax_adds_log_frequencies_in_training_only():
    method, scenario = make_method("hlll", balanced_softmax=1.0)
    learn_task(method, scenario[0])
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    rows = method.rows(scenario[1])
    counts = torch.bincount(method.engine.labels[rows], minlength=4).float()
    method.log_frequencies.copy_((counts / counts.sum()).log())
    images, targets = torch.rand(6, 1, 8, 8), functional.one_hot(torch.arange(6) % 4, 4).float()
    method.eval()
    scores = method(images)
    weighted = scores.exp() * counts / (scores.exp() * counts).sum(dim=1, keepdim=True)
    expected = -(targets * weighted.log()).sum(dim=1).mean()
    torch.testing.assert_close(method.loss(images, targets), expected)


def test_the_auxiliary_loss_sees_all_old_classes_as_one():
    method, scenario = make_method("hlll", auxiliary=2.0)
    learn_task(method, scenario[0])
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    method.eval()
    images = torch.rand(4, 1, 8, 8)
    targets = torch.tensor([[0.5, 0.2, 0.3, 0.0], [1, 0, 0, 0], [0, 0, 0, 1.0], [0, 0, 1, 0]])
    own = torch.tensor([[0.7, 0.3, 0.0], [1, 0, 0], [0, 0, 1.0], [0, 1, 0]])
    head = method.scaffold["auxiliary"](method.network.newest(images))
    expected = functional.cross_entropy(method(images), targets) + 2.0 * functional.cross_entropy(head, own)
    torch.testing.assert_close(method.loss(images, targets), expected)


@pytest.mark.parametrize("batch", [3, 4, 9, 16, 50])
def test_turned_images_are_classes_of_their_own(batch):
    method, scenario = make_method("hlll", rotation=0.7, batch_size=8)
    learn_task(method, scenario[0])
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    method.eval()
    generator = torch.Generator().manual_seed(batch)
    images = torch.rand(batch, 1, 8, 8, generator=generator)
    targets = torch.softmax(3.0 * torch.randn(batch, 4, generator=generator), dim=1)
    head, losses = method.scaffold["turned"].head, []
    for i in range(batch // 4):  # an image upright, and turned by one, two or three quarters
        own = torch.tensor([targets[i, :2].sum(), targets[i, 2], targets[i, 3]])
        for quarters in (0, i % 3 + 1):
            turned = images[i]
            for _ in range(quarters):
                turned = turned.transpose(1, 2).flip(1)
            log_shares = functional.log_softmax(head(method.network.newest(turned[None]))[0], dim=0).view(4, 3)
            losses.append(-(own * log_shares[quarters]).sum())
    expected = functional.cross_entropy(method(images), targets)
    if losses:
        expected = expected + 0.7 * torch.stack(losses).mean()
    torch.testing.assert_close(method.loss(images, targets), expected)


def test_joint_training_with_turned_images_has_the_same_classifier_loss_beside_theirs():
    method, scenario = make_method("joint", rotation=0.5)
    method.engine.begin(0, 2)
    method.begin(scenario[0])
    method.eval()
    images, targets = torch.rand(8, 1, 8, 8), functional.one_hot(torch.arange(8) % 2, 2).float()
    head = method.scaffold["turned"]
    upright, turned = head.features(method.network.newest, images)
    torch.testing.assert_close(turned[0], method.network.newest(torch.rot90(images[:1], 1, (2, 3)))[0])
    expected = functional.cross_entropy(method(images), targets) + 0.5 * head.loss(upright, turned, targets)
    torch.testing.assert_close(method.loss(images, targets), expected)


def test_turns_need_square_images():
    images = image_set()
    wide = ImageSet(*(a[:, :, :6] if a.ndim == 4 else a for a in pixels_and_labels(images)))
    method, scenario = make_method("hlll", ClassScenario(wide, 2), rotation=0.5)
    with pytest.raises(ValueError, match=r"square images, not 8 x 6: take --rotation 0"):
        learn_task(method, scenario[0])


def pixels_and_labels(images):
    def last(pixels):
        return np.moveaxis(pixels, 1, -1)

    return last(images.train_images), images.train_labels, last(images.test_images), images.test_labels


def test_a_new_encoder_starts_from_the_last_where_it_is_asked_to():
    method, scenario = make_method("hlll", start="previous", classifier="kept")
    learn_task(method, scenario[0])
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    first, second = method.scaffold["previous"].state_dict(), method.network.newest.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("name", METHODS)
def test_no_test_label_is_ever_seen_in_training(name):
    """Other test images under other labels: every weight is the same, to the bit."""
    images = image_set()
    rng = np.random.default_rng(1)
    others = ImageSet(
        np.moveaxis(images.train_images, 1, -1),
        images.train_labels,
        rng.integers(0, 256, (30, 8, 8, 1), dtype=np.uint8),
        rng.permutation(np.repeat(np.arange(6), 5)),
    )
    states = []
    for used in (images, others):
        method, scenario = make_method(name, ClassScenario(used, 2), **SMALL.get(name, {}))
        for task in scenario:
            learn_task(method, task)
            method.engine.scores(method, torch.from_numpy(used.test_images))
        states.append(method.state_dict())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lwf", "unknown method 'lwf': take bic, finetune, hlll"),
        ("nowhere.at:All", "cannot be loaded"),
        ("torch.nn:Linear", "no subclass of everspan.deep.Method"),
    ],
)
def test_unknown_methods_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        load_method(name)


def test_bad_settings_are_refused():
    for name, value in (("epochs", 0), ("batch_size", 0), ("learning_rate", -1.0), ("weight_decay", float("nan"))):
        with pytest.raises(ValueError, match=name):
            Method.Settings(**{name: value})
    with pytest.raises(ValueError, match="temperature"):
        load_method("hlll").Settings(temperature=0.0)


def test_hlll_does_not_forget_where_finetune_does():
    scenario = ClassScenario(image_set(each=30), 2)
    accuracies = {}
    for name in ("hlll", "finetune"):
        engine = make_engine(scenario, augment="none")
        method, _ = make_method(
            name,
            scenario,
            ExemplarMemory(total=30),
            engine,
            epochs=25,
            **({"classifier_epochs": 25, "classifier_learning_rate": 0.5} if name == "hlll" else {}),
        )
        for task in scenario:
            learn_task(method, task)
        guesses = engine.scores(method, torch.from_numpy(scenario.images.test_images)).argmax(dim=1)
        accuracies[name] = float((guesses == torch.from_numpy(scenario.test_labels)).float().mean())
    assert accuracies["hlll"] > 0.8
    assert accuracies["finetune"] < 0.5
