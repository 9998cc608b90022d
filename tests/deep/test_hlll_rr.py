"""H-LLL with refinement: the network stays small, keeps what it knows, and is exported as it is."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from everspan.deep import IncrementalModel, resolve
from everspan.deep.memory import ExemplarMemory
from everspan.deep.methods.hlll_rr import standardised
from everspan.deep.network import Frozen
from everspan.deep.runs import learn_task
from everspan.scenarios import ClassScenario

from ._common import image_set, make_engine, make_method
from ._runs import finished

KEPT = {"classifier": "kept", "start": "previous", "refine_epochs": 2, "refined": "in-turn"}


def refining(monkeypatch, **settings):
    """A method in the middle of its third task, when the refinement is about to train."""
    method, scenario = make_method("hlll-rr", **(KEPT | settings))
    for task in scenario[:2]:
        learn_task(method, task)
    method.engine.begin(2, 6)
    method.begin(scenario[2])

    class Reached(Exception):
        pass

    train = method.engine.train

    def until_refinement(learner, loss, *arguments, **options):
        if loss == method.refining_loss:
            raise Reached
        train(learner, loss, *arguments, **options)

    monkeypatch.setattr(method.engine, "train", until_refinement)
    with pytest.raises(Reached):
        method.learn(scenario[2])
    return method.eval()


@pytest.mark.parametrize("refined", ["in-turn", "all"])
@pytest.mark.parametrize("encoders", [1, 2])
def test_no_more_encoders_are_kept_than_asked_for(encoders, refined):
    method, scenario = make_method("hlll-rr", encoders=encoders, **(KEPT | {"refined": refined}))
    for task in scenario:
        learn_task(method, task)
        assert len(method.network.encoders) == min(task.index + 1, encoders)
        assert all(isinstance(encoder, Frozen) for encoder in method.network.encoders)
        assert method.network.classifier.weight.shape == (task.seen, 8 * len(method.network.encoders))


def test_results_count_the_parameters_that_are_kept(tmp_path, data):
    results = finished(data, tmp_path / "run", method="hlll-rr", encoders=1, **KEPT)
    encoder = 9 * 8 + 8
    assert results["parameters_per_step"] == [encoder + (8 + 1) * classes for classes in (2, 4, 6)]


def test_the_encoder_whose_turn_it_is_not_stays_to_the_bit():
    method, scenario = make_method("hlll-rr", encoders=2, **KEPT)
    for task in scenario[:2]:
        learn_task(method, task)
    images = torch.rand(5, 1, 8, 8)
    first, second = (encoder(images) for encoder in method.network.encoders)
    learn_task(method, scenario[2])
    assert torch.equal(method.network.encoders[1](images), second)
    assert not torch.equal(method.network.encoders[0](images), first)


def test_all_encoders_are_refined_where_that_is_asked_for(monkeypatch):
    method = refining(monkeypatch, encoders=2, refined="all")
    images, unrefined = torch.rand(5, 1, 8, 8), method.scaffold["unrefined"]
    students = list(method.network.encoders)
    assert not any(isinstance(student, Frozen) for student in students)
    own = torch.cat([standardised(student(images)) for student in students], dim=1)
    torch.testing.assert_close(method.scaffold["map"](own), torch.cat([own, torch.zeros(5, 8)], dim=1))
    loss = method.refining_loss(images, torch.zeros(5, 6), unrefined.features(images))
    loss.backward()
    assert all(student.layers[0].weight.grad.abs().sum() > 0 for student in students)


def test_a_refinement_starts_from_what_the_old_encoder_knows(monkeypatch):
    method = refining(monkeypatch, encoders=2)
    images, unrefined = torch.rand(5, 1, 8, 8), method.scaffold["unrefined"]
    student, old = method.network.encoders[method.places[0]], unrefined.encoders[method.places[0]]
    torch.testing.assert_close(student(images), old(images))
    mapped = method.scaffold["map"](standardised(student(images)))
    torch.testing.assert_close(mapped, torch.cat([standardised(old(images)), torch.zeros(5, 8)], dim=1))
    parts = torch.cat([encoder(images) for encoder in list(unrefined.encoders)[:2]], dim=1)
    known = functional.linear(parts, unrefined.classifier.weight[:, :16], unrefined.classifier.bias)
    torch.testing.assert_close(method.network(images), known)


@pytest.mark.parametrize("encoders", [1, 2])
def test_the_loss_is_the_distance_to_the_unrefined_network_in_probabilities_and_features(monkeypatch, encoders):
    own = {"refine_temperature": 3.0, "feature_matching": 0.7, "refine_labels": 0.3, "balanced_softmax": 1.0}
    method = refining(monkeypatch, encoders=encoders, **own)
    images, labels = torch.rand(7, 1, 8, 8), torch.arange(7) % 6
    targets, unrefined = functional.one_hot(labels, 6).float(), method.scaffold["unrefined"]
    with torch.no_grad():
        method.network.encoders[method.places[0]].layers[0].weight.add_(0.1)
        method.network.classifier.weight.add_(0.1 * torch.randn_like(method.network.classifier.weight))
        features = unrefined.features(images)
        scores, wanted = method.network(images), unrefined(images)
        p = torch.softmax(wanted / 3.0, dim=1)
        divergence = (p * (p.log() - torch.log_softmax(scores / 3.0, dim=1))).sum(dim=1).mean()
        own = method.network.encoders[method.places[0]](images)
        scale = own.var(dim=0, unbiased=False).sum().sqrt()
        mapped = functional.linear(own, method.scaffold["map"].weight / scale).split([8, 8], dim=1)
        errors = 0.0
        for found, encoder in zip(mapped, (unrefined.encoders[method.places[0]], unrefined.newest), strict=True):
            old = encoder(images)
            gap = found - old / old.var(dim=0, unbiased=False).sum().sqrt()
            errors += gap.var(dim=0, unbiased=False).sum()
        likelihood = torch.log_softmax(scores + method.log_frequencies, dim=1)[torch.arange(7), labels]
        expected = 9.0 * divergence + 0.7 * errors - 0.3 * likelihood.mean()
        torch.testing.assert_close(method.refining_loss(images, targets, features), expected)


def test_standardised_features_have_no_mean_and_a_total_variance_of_one():
    features = torch.rand(20, 5) * torch.tensor([1.0, 10.0, 0.1, 0.0, 3.0]) + 7.0
    found = standardised(features)
    torch.testing.assert_close(found.mean(dim=0), torch.zeros(5), atol=1e-5, rtol=0.0)
    assert float(found.var(dim=0, unbiased=False).sum()) == pytest.approx(1.0)
    assert torch.equal(standardised(torch.ones(20, 5)), torch.zeros(20, 5))  # a dead encoder


def test_only_the_refined_encoder_the_classifier_and_the_map_are_trained(monkeypatch):
    method, scenario = make_method("hlll-rr", encoders=2, **KEPT)
    for task in scenario[:2]:
        learn_task(method, task)
    train, seen = method.engine.train, {}

    def watch(learner, loss, rows, plan, parameters=None, **options):
        if loss == method.refining_loss:
            before = copy.deepcopy(method.state_dict())
            train(learner, loss, rows, plan, parameters, **options)
            after = method.state_dict()
            seen["changed"] = [name for name in after if not torch.equal(before[name], after[name])]
            seen["rows"] = rows
        else:
            train(learner, loss, rows, plan, parameters, **options)

    monkeypatch.setattr(method.engine, "train", watch)
    learn_task(method, scenario[2])
    rows = seen["rows"]
    assert {".".join(name.split(".")[:3]) for name in seen["changed"]} == {
        "network.encoders.0",
        "network.classifier.weight",
        "network.classifier.bias",
        "scaffold.map.weight",
    }
    old = method.engine.labels[rows] < 4
    assert int(old.sum()) == 12
    assert sorted(rows[~old].tolist()) == sorted(scenario[2].train.tolist())


def test_old_images_are_seen_as_often_as_asked_for(monkeypatch):
    method, scenario = make_method("hlll-rr", encoders=1, refine_memory=3, **KEPT)
    learn_task(method, scenario[0])
    memory, seen, train = method.memory.positions().tolist(), [], method.engine.train

    def watch(learner, loss, rows, *arguments, **options):
        seen.append(rows.tolist())
        train(learner, loss, rows, *arguments, **options)

    monkeypatch.setattr(method.engine, "train", watch)
    learn_task(method, scenario[1])
    assert [[rows.count(row) for row in memory] for rows in seen] == [[1] * 12, [3] * 12]


def test_a_refined_network_is_exported_as_it_predicts(tmp_path, data):
    finished(data, tmp_path / "run", method="hlll-rr", encoders=1, recipe="best", flip_test=True, refine_epochs=2)
    with np.load(data) as arrays:
        images = arrays["test_images"]
    model = IncrementalModel.load(tmp_path / "run", allow_code=True)
    probabilities = model.predict_proba(images)
    model.export(tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    exported = program(torch.from_numpy(np.moveaxis(images, -1, 1).copy()))
    np.testing.assert_allclose(exported.detach().numpy(), probabilities, atol=1e-5)


@pytest.mark.parametrize("encoders", [1, 2])
def test_refinement_keeps_what_old_classes_look_like(encoders):
    scenario = ClassScenario(image_set(each=30), 2)
    own = {"epochs": 25, "refine_epochs": 25, "learning_rate": 0.1, "balanced_softmax": 1.0}
    engine = make_engine(scenario, augment="none")
    method, _ = make_method("hlll-rr", scenario, ExemplarMemory(total=30), engine, encoders=encoders, **(KEPT | own))
    for task in scenario:
        learn_task(method, task)
    guesses = engine.scores(method, torch.from_numpy(scenario.images.test_images)).argmax(dim=1)
    assert float((guesses == torch.from_numpy(scenario.test_labels)).float().mean()) > 0.8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"encoders": 0}, "encoders must be from 1"),
        ({"refine_epochs": 0}, "refine_epochs must be from 1"),
        ({"refine_memory": 0}, "refine_memory must be from 1"),
        ({"refine_temperature": 0.0}, "refine_temperature must be above zero"),
        ({"refine_learning_rate": -0.1}, "refine_learning_rate must be zero or more"),
        ({"feature_matching": float("nan")}, "feature_matching must be zero or more"),
        ({"refine_augment": "blur"}, "unknown augmentation 'blur'"),
    ],
)
def test_bad_settings_of_refinement_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        resolve({"method": "hlll-rr", **given})
