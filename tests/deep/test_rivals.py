"""The ideas of iCaRL, BiC and WA, and what all rivals share; RPSNet has a file of its own."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch.nn import functional

from everspan.deep import resolve
from everspan.deep.memory import ExemplarMemory
from everspan.deep.methods import MethodSettings
from everspan.deep.methods._base import distance
from everspan.deep.methods.wa import WA
from everspan.deep.runs import learn_task
from everspan.scenarios import ClassScenario, ImageSet

from ._common import GRID, begun, image_set, learned, make_engine, make_method

scores = arrays("float32", (4, 5), elements=st.floats(-20.0, 20.0, width=32))


# Distillation ---------------------------------------------------------------------------------------------------------


@given(scores, st.floats(0.5, 8.0))
def test_distillation_and_its_gradient_vanish_where_both_agree(values, temperature):
    found = torch.from_numpy(values).requires_grad_()
    loss = distance(found, torch.from_numpy(values) + 3.0, temperature)  # a constant changes no probability
    (gradient,) = torch.autograd.grad(loss, found)
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-5)
    assert float(gradient.abs().max()) < 1e-5


@given(scores, scores, st.floats(0.5, 8.0))
def test_distillation_is_the_divergence_of_its_formula(found, wanted, temperature):
    p = torch.softmax(torch.from_numpy(wanted).double() / temperature, dim=1)
    q = torch.softmax(torch.from_numpy(found).double() / temperature, dim=1)
    expected = (p * (p.log() - q.log())).sum(dim=1).mean()
    value = distance(torch.from_numpy(found), torch.from_numpy(wanted), temperature)
    assert float(value) == pytest.approx(float(expected), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [("icarl", {}), ("wa", {}), ("bic", {}), ("rpsnet", GRID), ("rpsnet", GRID | {"tasks_per_path": 1})],
)
def test_the_teacher_is_the_network_before_the_task(name, settings):
    method, scenario = learned(name, 1, **settings)
    images = torch.rand(6, 1, 8, 8)
    method.eval()
    before = method.network(images).detach()
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    method.learn(scenario[1])
    assert method.train().training
    torch.testing.assert_close(method.taught(images), before, rtol=1e-4, atol=1e-5)  # while the network is trained, too
    assert not any(p.requires_grad for p in method.scaffold.parameters())
    method.end(scenario[1])
    assert not len(method.scaffold)  # it is neither saved nor shipped


@pytest.mark.parametrize("name", ["wa", "bic"])
@pytest.mark.parametrize(("tasks", "share"), [(1, 1 / 2), (2, 2 / 3)])
def test_the_teacher_weighs_as_much_as_its_share_of_the_classes(name, tasks, share):
    method, images, targets = begun(name, tasks)
    with torch.no_grad():
        method.network.classifier.weight.normal_()
    found = method.trained_scores(images)
    expected = (1.0 - share) * functional.cross_entropy(found, targets)
    expected += share * distance(found[:, : 2 * tasks], method.taught(images), 2.0)
    torch.testing.assert_close(method.loss(images, targets), expected)


# iCaRL ----------------------------------------------------------------------------------------------------------------


def test_icarl_takes_the_nearest_mean_of_exemplars():
    method, scenario = learned("icarl", 3)
    engine = method.engine
    test = torch.from_numpy(scenario.images.test_images)
    found = engine.scores(method, test).argmax(dim=1)
    with torch.no_grad():
        method.eval()
        means = []
        for rows in method.memory.rows:
            x = functional.normalize(method.network.features(engine._normalised(engine.images[rows] / 255.0)), dim=1)
            means.append(functional.normalize(x.mean(dim=0), dim=0))
        x = functional.normalize(method.network.features(engine._normalised(test / 255.0)), dim=1)
    distances = torch.stack([(x - mean).square().sum(dim=1) for mean in means], dim=1)
    assert torch.equal(found, distances.argmin(dim=1))
    torch.testing.assert_close(-engine.scores(method, test), distances, rtol=1e-3, atol=1e-4)


def test_icarls_old_classes_are_what_the_teacher_says_and_new_ones_what_labels_say():
    method, images, targets = begun("icarl")
    with torch.no_grad():
        method.network.classifier.weight.normal_()
    p = method.network(images).sigmoid()
    wanted = torch.cat([method.taught(images).sigmoid(), targets[:, 2:]], dim=1)
    expected = -(wanted * p.log() + (1.0 - wanted) * (1.0 - p).log()).sum(dim=1).mean()
    torch.testing.assert_close(method.loss(images, targets), expected)
    others = targets.clone()
    others[:, :2] = targets[:, :2].flip(1)  # labels of old images are not looked at
    torch.testing.assert_close(method.loss(images, others), expected)


def test_nothing_draws_at_icarls_old_classes_where_network_and_teacher_agree():
    method, images, targets = begun("icarl", losses="sigmoids")
    (gradient,) = torch.autograd.grad(method.loss(images, targets), method.network.classifier.weight)
    assert float(gradient[:2].abs().max()) < 1e-6 < float(gradient[2:].abs().max())


def test_icarl_with_softmax_adds_the_two_losses():
    method, images, targets = begun("icarl", losses="softmax")
    with torch.no_grad():
        method.network.classifier.weight.normal_()
    found = method.network(images)
    expected = functional.cross_entropy(found, targets) + distance(found[:, :2], method.taught(images), 2.0)
    torch.testing.assert_close(method.loss(images, targets), expected)


# WA -------------------------------------------------------------------------------------------------------------------


def test_wa_makes_old_and_new_weights_as_long_in_the_mean():
    method, _ = learned("wa", 3, epochs=4)
    lengths = method.network.classifier.weight.detach().norm(dim=1)
    assert float(lengths[:4].mean()) == pytest.approx(float(lengths[4:].mean()), rel=1e-5)
    assert lengths.std() > 0  # of single classes they differ


def test_wa_leaves_directions_as_they_are():
    method, scenario = learned("wa", 1)
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    with torch.no_grad():
        method.network.classifier.weight[2:] *= 7.0
    before = method.network.classifier.weight.detach().clone()
    method.align()
    after = method.network.classifier.weight.detach()
    assert torch.equal(before[:2], after[:2])
    torch.testing.assert_close(functional.normalize(before, dim=1), functional.normalize(after, dim=1))
    ratios = after[2:].norm(dim=1) / before[2:].norm(dim=1)  # one number for all new classes: their order stays
    torch.testing.assert_close(ratios, ratios[:1].expand(2))
    assert float(ratios[0]) < 0.5


def test_was_weights_never_fall_below_zero_where_that_is_asked_for(monkeypatch):
    lowest, loss = {}, WA.loss

    def watched(method, *parts):
        lowest.setdefault(method.old, []).append(float(method.network.classifier.weight.detach().min()))
        return loss(method, *parts)

    monkeypatch.setattr(WA, "loss", watched)
    learned("wa", 3, epochs=4)
    assert all(min(of_task[1:]) < 0.0 for of_task in lowest.values())
    lowest.clear()
    method, _ = learned("wa", 3, epochs=4, positive_weights=True)
    assert all(min(of_task[1:]) >= 0.0 > of_task[0] for of_task in lowest.values())  # new ones begin on both sides
    weights = method.network.classifier.weight.detach()
    assert float(weights.min()) == 0.0
    assert (weights.max(dim=1).values > 0.0).all()


# BiC ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "shift"), [(2.0, 0.0), (1.0, 3.0), (0.5, -2.0)])
def test_bic_recovers_a_planted_bias(monkeypatch, scale, shift):
    """Labels follow the softmax of scores; those of the new classes are then seen through (score - shift) / scale."""
    rng = np.random.default_rng(0)
    true = rng.normal(0.0, 1.5, (3000, 4))
    chances = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
    labels = (rng.random(3000)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    seen = np.concatenate([true[:, :2], (true[:, 2:] - shift) / scale], axis=1)
    pixels = np.zeros((3000, 8, 8), dtype=np.uint8)
    pixels[:, 0, :4] = np.clip(128.0 + 6.0 * seen, 0, 255).round()  # the scores, as an image
    scenario = ClassScenario(ImageSet(pixels, labels, pixels[:8], np.arange(8) % 4), 2, order=range(4))
    engine = make_engine(scenario, augment="none")
    method, _ = make_method("bic", scenario, engine=engine, batch_size=3000, bias_epochs=300)
    for task in scenario:
        method.engine.begin(task.index, task.seen)
        method.begin(task)
    scores_of = lambda images: ((images * 0.25 + 0.5) * 255.0 - 128.0).flatten(1)[:, :4] / 6.0  # noqa: E731
    monkeypatch.setattr(method, "frozen_copy", lambda: scores_of)
    method.fit_bias(torch.arange(3000))
    assert method.biases[-1].alpha.item() == pytest.approx(scale, rel=0.1)
    assert method.biases[-1].beta.item() == pytest.approx(shift, abs=0.15)
    assert (method.biases[0].alpha.item(), method.biases[0].beta.item()) == (1.0, 0.0)


def test_bic_holds_out_as_many_of_every_class_and_trains_on_none_of_them():
    method, scenario = learned("bic", 1, bias_epochs=1)
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    trained, original = [], method.engine.train

    def train(module, loss, rows, *others, **more):
        trained.append(set(rows.tolist()))
        original(module, loss, rows, *others, **more)

    method.engine.train = train
    method.learn(scenario[1])
    network_rows, bias_rows = trained
    counts = torch.bincount(method.engine.labels[list(bias_rows)], minlength=4)
    assert counts.min() == counts.max() >= 1
    assert not network_rows & bias_rows
    assert network_rows | bias_rows == set(method.rows(scenario[1]).tolist())


def test_bic_holds_out_its_share_of_what_the_memory_has_of_a_class():
    scenario = ClassScenario(image_set(each=60), 2)
    method, _ = make_method("bic", scenario, memory=ExemplarMemory(total=75), bias_epochs=1)
    learn_task(method, scenario[0])  # 37 images a class are kept
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    plans, original = [], method.engine.train

    def train(module, loss, rows, plan, *others, **more):
        plans.append((plan, rows))
        original(module, loss, rows, plan, *others, **more)

    method.engine.train = train
    method.learn(scenario[1])
    (network_plan, _), (bias_plan, held_out) = plans
    assert torch.bincount(method.engine.labels[held_out]).tolist() == [3, 3, 3, 3]
    assert network_plan.unmixed == 0.0
    assert (bias_plan.unmixed, bias_plan.weight_decay) == (1.0, 0.0)  # CutMix would hide the bias, decay draw it to 0


def test_bic_speaks_through_every_tasks_bias_and_so_does_its_teacher():
    method, images, _ = begun("bic", tasks=2, bias_epochs=1)
    with torch.no_grad():
        for bias, (alpha, beta) in zip(method.biases, [(0.5, 1.0), (2.0, -1.0), (1.5, 0.3)], strict=True):
            bias.alpha.fill_(alpha)
            bias.beta.fill_(beta)
        raw, before = method.network(images), method.scaffold["teacher"](images)
    parts = [0.5 * raw[:, :2] + 1.0, 2.0 * raw[:, 2:4] - 1.0, 1.5 * raw[:, 4:] + 0.3]
    torch.testing.assert_close(method(images), torch.cat(parts, dim=1))
    torch.testing.assert_close(method.trained_scores(images), torch.cat(parts, dim=1))
    taught = torch.cat([0.5 * before[:, :2] + 1.0, 2.0 * before[:, 2:] - 1.0], dim=1)
    torch.testing.assert_close(method.taught(images), taught)


def test_a_bias_of_bic_stays_when_its_task_is_over():
    method, scenario = learned("bic", 2, bias_epochs=5)
    second = method.biases[1].alpha.item(), method.biases[1].beta.item()
    learn_task(method, scenario[2])
    assert (method.biases[1].alpha.item(), method.biases[1].beta.item()) == second != (1.0, 0.0)
    assert (method.biases[2].alpha.item(), method.biases[2].beta.item()) != (1.0, 0.0)
    assert (method.biases[0].alpha.item(), method.biases[0].beta.item()) == (1.0, 0.0)


@pytest.mark.parametrize("name", ["bic", "rpsnet"])
def test_a_class_of_one_image_is_learned_from_it(name):
    settings = {"bias_epochs": 1} if name == "bic" else GRID | {"tasks_per_path": 1}
    method, scenario = make_method(name, memory=ExemplarMemory(total=6), **settings)
    for task in scenario:
        seen, original = [], method.engine.train

        def train(module, loss, rows, *others, seen=seen, original=original, **more):
            seen.append(rows.clone())
            original(module, loss, rows, *others, **more)

        method.engine.train = train
        learn_task(method, task)
        method.engine.train = original
        counts = torch.bincount(method.engine.labels[seen[0]], minlength=task.seen)
        assert counts.min() >= 1


def test_bic_corrects_the_new_classes_alone_and_the_network_stays():
    method, scenario = learned("bic", 1)
    method.engine.begin(1, 4)
    method.begin(scenario[1])
    with torch.no_grad():
        method.biases[-1].alpha.fill_(0.5)
        method.biases[-1].beta.fill_(-1.0)
    found = torch.rand(3, 4)
    assert torch.equal(method.corrected(found), torch.cat([found[:, :2], 0.5 * found[:, 2:] - 1.0], dim=1))
    before = {name: t.clone() for name, t in method.network.state_dict().items()}
    method.fit_bias((method.engine.labels < 4).nonzero()[:, 0])
    assert all(torch.equal(before[name], t) for name, t in method.network.state_dict().items())


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("rpsnet", {"rigidness": -5.0}, "rigidness must be zero or more"),
        ("rpsnet", {"temperature": float("inf")}, "temperature must be above zero and finite"),
        ("rpsnet", {"candidates": 10**9}, "candidates must be from 1 to 1,000,000"),
        ("bic", {"bias_learning_rate": float("nan")}, "bias_learning_rate must be zero or more"),
        ("bic", {"bias_epochs": 10**10}, "bias_epochs must be from 1"),
        ("wa", {"milestones": (0.5, float("nan"))}, "milestones must be shares"),
        ("icarl", {"first_milestones": (2.0,)}, "first_milestones must be shares"),
        ("hlll", {"optimiser": "adam", "nesterov": True}, "nesterov needs gradient descent"),
        ("hlll", {"momentum": 1.0}, "momentum must be below 1"),
    ],
)
def test_bad_values_are_refused(method, given, message):
    with pytest.raises(ValueError, match=message):
        resolve({"method": method, **given})


@pytest.mark.parametrize(
    ("method", "changed"), [("icarl", set()), *((method, {"weight_decay"}) for method in ("bic", "wa", "replay"))]
)
def test_strong_is_the_training_of_best_with_the_usual_weight_decay(method, changed):
    _, own = resolve({"method": method, "data": "cifar100", "recipe": "strong"})
    _, best = resolve({"method": "hlll", "data": "cifar100", "recipe": "best"})
    different = {
        field.name for field in fields(MethodSettings) if getattr(own, field.name) != getattr(best, field.name)
    }
    assert different == changed
    assert own.weight_decay == (5e-4 if changed else best.weight_decay)


def test_epochs_given_are_those_of_all_tasks():
    _, own = resolve({"method": "icarl", "data": "cifar100", "recipe": "softmax"})
    assert own.plan(first=True).epochs == 200
    _, own = resolve({"method": "icarl", "data": "cifar100", "recipe": "softmax", "epochs": 3})
    assert own.plan(first=True).epochs == own.plan().epochs == 3
