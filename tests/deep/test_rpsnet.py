"""The ideas of RPSNet: paths, what is frozen, candidates, and what its distillation looks at."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from everspan.deep import resolve
from everspan.deep.methods import rpsnet
from everspan.deep.methods._base import distance
from everspan.deep.runs import learn_task, parameters

from ._common import GRID, begun, make_method


def modules_of(grid):
    return {
        (layer, place): {name: t.clone() for name, t in one.state_dict().items()}
        for layer, modules in enumerate(grid.layers)
        for place, one in enumerate(modules)
    }


def equal(first, second):
    return all(torch.equal(first[name], second[name]) for name in first)


def test_rpsnet_keeps_its_path_between_switches_and_freezes_it_after():
    method, scenario = make_method("rpsnet", **GRID)
    paths, kept, past = [], [], []
    for task in scenario:
        learn_task(method, task)
        paths.append(method.grid.path.clone())
        kept.append(modules_of(method.grid))
        past.append({name: t.clone() for name, t in method.grid.shortcuts.state_dict().items()})
    assert torch.equal(paths[0], paths[1])
    assert paths[0][:, 0].all()
    assert (paths[2].sum(dim=1) == 1).all()
    assert torch.equal(method.grid.fixed, paths[0])
    for place in kept[0]:
        on_first, on_second = bool(paths[0][place]), bool(paths[2][place] & ~paths[0][place])
        assert equal(kept[1][place], kept[2][place]) is not on_second  # the first path is as it was, statistics too
        assert equal(kept[0][place], kept[1][place]) is not on_first
    assert not equal(past[0], past[1])
    assert equal(past[1], past[2])  # what leads past the modules goes with the first path


def test_rpsnet_adds_up_all_modules_at_work():
    method, scenario = make_method("rpsnet", **GRID)
    for task in scenario:
        learn_task(method, task)
    grid, images = method.grid.eval(), torch.rand(3, 1, 8, 8)
    x = images
    for layer in range(3):
        total = sum(grid.layers[layer][i](x) for i in range(4) if grid.path[layer, i] or grid.fixed[layer, i])
        if layer == 1:
            total = total + grid.shortcuts["1"](x)  # from 4 to 8 channels: the image itself does not fit
        elif layer == 2:
            total = total + x
        x = functional.relu(total)
    torch.testing.assert_close(grid.features(images), x.mean(dim=(2, 3)))


@given(
    count=st.integers(1, 4),
    inputs=st.integers(1, 4),
    outputs=st.integers(1, 5),
    first=st.booleans(),
    seed=st.integers(0, 99),
)
def test_fixed_modules_merged_into_one_say_the_same_and_so_do_their_gradients(count, inputs, outputs, first, seed):
    torch.manual_seed(seed)
    modules = [rpsnet.module(inputs, outputs, first).double() for _ in range(count)]
    for one in modules:
        for _ in range(3):
            one(2.0 * torch.randn(4, inputs, 5, 5).double() + 1.0)  # statistics that are not those at the start
        one.eval().requires_grad_(False)
    merged, x = rpsnet.Merged(modules), torch.randn(3, inputs, 5, 5).double().requires_grad_()

    def agrees():
        wanted, got = sum(one(x) for one in modules), merged(x)
        torch.testing.assert_close(got, wanted)
        torch.testing.assert_close(*(torch.autograd.grad(values.square().sum(), x) for values in (got, wanted)))

    agrees()
    for tensor in modules[-1].parameters():
        tensor.mul_(1.5)
    agrees()  # what was written to is merged again


def test_rpsnet_distils_labels_as_scores_of_new_classes_beside_the_teachers_of_old_ones():
    method, images, targets = begun("rpsnet", **GRID)
    with torch.no_grad():
        method.grid.classifier.weight.normal_()
    found, wanted = method.network(images), torch.cat([method.taught(images), targets[:, 2:]], dim=1)
    expected = functional.cross_entropy(found, targets) + distance(found, wanted, 2.0)  # the controller says one
    torch.testing.assert_close(method.loss(images, targets), expected)
    method.session = 4
    torch.testing.assert_close(
        method.loss(images, targets) - functional.cross_entropy(found, targets), 5.0 * distance(found, wanted, 2.0)
    )


def test_classes_to_come_hold_scores_where_they_are():
    """Without them a constant added to all scores changes no probability, with them it does."""
    for outputs, free in ((None, True), (3, True), (9, False)):
        method, images, targets = begun("rpsnet", **GRID, outputs=outputs)
        with torch.no_grad():
            before = float(method.loss(images, targets))
            method.grid.classifier.bias += 5.0
            assert (abs(float(method.loss(images, targets)) - before) < 1e-5) is free


def test_the_controller_weighs_distillation_more_with_every_task():
    method, _ = make_method("rpsnet", **GRID)
    weights = []
    for session in range(10):
        method.session = session
        weights.append(method.controller())
    assert weights == [1.0, 1.0, 1.0, 2.5, 5.0, 7.5, 10.0, 12.5, 15.0, 17.5]


def test_the_better_candidate_is_kept(monkeypatch):
    method, scenario = make_method("rpsnet", **(GRID | {"candidates": 3}))
    for task in scenario[:2]:
        learn_task(method, task)
    seen, marks = [], iter([0.2, 0.9, 0.5])
    monkeypatch.setattr(method, "judge", lambda rows: (seen.append(method.grid.path.clone()), next(marks))[1])
    method.engine.begin(2, 6)
    method.begin(scenario[2])
    method.learn(scenario[2])
    assert len(seen) == 3
    assert torch.equal(method.grid.path, seen[1])


def test_a_candidate_is_judged_by_the_mean_of_the_classes(monkeypatch):
    method, _ = make_method("rpsnet", **GRID)
    labels = method.engine.labels
    rows = torch.cat([(labels == 0).nonzero()[:8, 0], (labels == 1).nonzero()[:2, 0], (labels == 4).nonzero()[:1, 0]])
    guesses = torch.tensor([0] * 8 + [1, 5] + [5])  # 9 of 11 are right, but one class in three is never seen

    def scores(module, images):
        assert torch.equal(images, method.engine.images[rows])
        return functional.one_hot(guesses, 6).float()

    monkeypatch.setattr(method.engine, "scores", scores)
    assert method.judge(rows) == pytest.approx((1.0 + 0.5 + 0.0) / 3)


@pytest.mark.parametrize(("share", "each"), [(0.1, 1), (0.25, 3), (0.5, 6)])
def test_the_share_that_is_held_out_is_that_of_every_class(share, each):
    method, scenario = make_method("rpsnet", **GRID, held_out_share=share)
    rows = torch.from_numpy(scenario[0].train)  # 12 of each of two classes
    held, rest = method.split(rows)
    assert torch.bincount(method.engine.labels[held]).tolist() == [each, each]
    assert sorted([*held.tolist(), *rest.tolist()]) == sorted(rows.tolist())


def test_every_candidate_starts_where_the_task_before_ended(monkeypatch):
    method, scenario = make_method("rpsnet", **(GRID | {"candidates": 3}))
    for task in scenario[:2]:
        learn_task(method, task)
    known = {name: t.clone() for name, t in method.grid.state_dict().items()}
    starts, original = [], method.engine.train

    def train(*arguments, **more):
        starts.append({name: t.clone() for name, t in method.grid.state_dict().items()})
        original(*arguments, **more)

    monkeypatch.setattr(method.engine, "train", train)
    method.engine.begin(2, 6)
    method.begin(scenario[2])
    method.learn(scenario[2])
    assert len(starts) == 3
    for start in starts:
        assert torch.equal(start["fixed"], known["path"])
        for name in known.keys() - {"path", "fixed"}:
            now = start[name]
            if name.startswith("classifier."):
                assert not now[4:].any()
                now = now[:4]
            assert torch.equal(now, known[name])


def test_what_is_counted_is_what_is_on_a_path_and_it_grows_at_a_switch_alone():
    method, scenario = make_method("rpsnet", **GRID)
    one = (9 * 4 + 8, 9 * (4 * 8 + 8 * 8) + 32, 9 * 2 * 8 * 8 + 32)  # a module of every layer: 1, 4, 8 and 8 channels
    past = 9 * 4 * 8 + 16  # what leads past the second layer
    counts = []
    for task in scenario:
        learn_task(method, task)
        at_work = (method.grid.path | method.grid.fixed).sum(dim=1).tolist()
        counts.append(parameters(method) - 9 * task.seen)  # 8 weights and a bias a class
        assert counts[-1] == past + sum(n * size for n, size in zip(at_work, one, strict=True))
    assert counts[0] == counts[1] == past + sum(one)
    assert counts[1] < counts[2] <= counts[1] + sum(one)


def test_after_short_trials_the_best_path_is_trained_in_full_on_all_images(monkeypatch):
    method, scenario = make_method("rpsnet", **(GRID | {"epochs": 4, "trial_epochs": 1}))
    for task in scenario[:2]:
        learn_task(method, task)
    stages, marks = [], iter([0.9, 0.2])
    monkeypatch.setattr(method, "judge", lambda rows: next(marks))
    original = method.engine.train

    def train(module, loss, rows, plan, *others, **more):
        begun = modules_of(method.grid)
        original(module, loss, rows, plan, *others, **more)
        stages.append((plan.epochs, set(rows.tolist()), method.grid.path.clone(), begun, modules_of(method.grid)))

    monkeypatch.setattr(method.engine, "train", train)
    method.engine.begin(2, 6)
    method.begin(scenario[2])
    method.learn(scenario[2])
    first, second, last = stages
    assert [stage[0] for stage in stages] == method.stages(scenario[2]) == [1, 1, 4]
    assert first[1] == second[1] < last[1] == set(method.rows(scenario[2]).tolist())
    assert torch.equal(last[2], first[2])
    assert all(equal(last[3][place], first[4][place]) for place in first[4])  # it goes on from where the trial ended
    assert any(not equal(last[4][place], first[4][place]) for place in first[4])


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        ({}, [4, 4]),
        ({"trial_epochs": 1}, [1, 1, 4]),
        ({"trial_epochs": 9}, [4, 4, 4]),  # no trial is longer than the training
        ({"trial_epochs": 1, "candidates": 1}, [4]),  # there is nothing to choose
    ],
)
def test_the_stages_of_a_switch_are_those_that_are_foretold(monkeypatch, changes, stages):
    method, scenario = make_method("rpsnet", **(GRID | {"epochs": 4} | changes))
    for task in scenario[:2]:
        learn_task(method, task)
    found = []
    monkeypatch.setattr(method.engine, "train", lambda m, loss, rows, plan, *others, **more: found.append(plan.epochs))
    method.begin(scenario[2])
    method.learn(scenario[2])
    assert found == method.stages(scenario[2]) == stages


def test_many_widths_on_small_images():
    method, scenario = make_method("rpsnet", **(GRID | {"widths": (2, 3, 4, 5, 6, 7)}))
    learn_task(method, scenario[0])  # 8 x 8 images cannot be halved five times
    assert torch.isfinite(method.engine.scores(method, method.engine.images[:3])).all()


def test_the_profile_of_gradient_descent_is_not_that_of_adam():
    _, own = resolve({"method": "rpsnet", "data": "digits"})
    assert (own.optimiser, own.learning_rate, own.weight_decay) == ("adam", 1e-3, 0.0)
    _, own = resolve({"method": "rpsnet", "data": "digits", "recipe": "strong"})
    assert (own.optimiser, own.learning_rate, own.weight_decay) == ("sgd", 0.1, 5e-3)
