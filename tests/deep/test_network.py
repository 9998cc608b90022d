"""The expandable network, its backbones, and what frozen means."""

from __future__ import annotations

import pytest
import torch
from torch import fx, nn
from torch.nn import functional

from everspan.deep.backbones import BACKBONES, backbone_factory
from everspan.deep.network import ExpandableNetwork, Frozen, _joined
from everspan.deep.runs import learn_task

from ._common import Odd, Tiny, make_method


@pytest.mark.parametrize(
    ("name", "channels", "features", "parameters"),
    [("resnet18", 3, 512, 11_168_832), ("resnet32", 3, 64, 0.46e6), ("small", 1, 64, 0.076e6)],
)
def test_backbones_have_the_published_sizes(name, channels, features, parameters):
    encoder = BACKBONES[name](channels)
    assert encoder.feature_size == features
    assert sum(p.numel() for p in encoder.parameters()) == pytest.approx(parameters, rel=0.02)
    with torch.no_grad():
        assert encoder.eval()(torch.rand(2, channels, 16, 16)).shape == (2, features)


def test_folding_batchnorm_changes_nothing_but_rounding():
    torch.manual_seed(0)
    encoder = BACKBONES["resnet32"](3)
    for _ in range(3):
        encoder(torch.rand(16, 3, 16, 16))  # statistics that are not the initial ones
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    frozen, x = Frozen(encoder), torch.rand(4, 3, 16, 16)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in frozen.modules())
    torch.testing.assert_close(frozen(x), encoder.eval()(x), rtol=1e-4, atol=1e-4)


class OnAnyDevice(fx.Interpreter):
    """Does what cuDNN's joined convolutions are documented to do."""

    def call_function(self, target, args, kwargs):
        if target is torch.ops.aten.cudnn_convolution_relu.default:
            x, weight, bias, *how = args
            return functional.relu(functional.conv2d(x, weight, bias, *how))
        if target is torch.ops.aten.cudnn_convolution_add_relu.default:
            x, weight, added, alpha, bias, *how = args
            return functional.relu(functional.conv2d(x, weight, bias, *how) + alpha * added)
        return super().call_function(target, args, kwargs)


@pytest.mark.parametrize("name", ["resnet18", "small"])
def test_joining_convolutions_changes_nothing_but_rounding(name):
    torch.manual_seed(0)
    encoder = BACKBONES[name](3)
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
    frozen, x = Frozen(encoder), torch.rand(4, 3, 16, 16)
    joined = _joined(frozen.encoder)
    assert not any(
        isinstance(joined.get_submodule(str(n.target)), nn.ReLU) for n in joined.graph.nodes if n.op == "call_module"
    )
    torch.testing.assert_close(OnAnyDevice(joined).run(x), frozen(x), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_frozen_encoder_in_mixed_precision_follows_its_weights():
    frozen, x = Frozen(BACKBONES["resnet18"](3)).cuda(), torch.rand(4, 3, 16, 16).cuda()
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            quick = frozen(x)
        assert quick.dtype == torch.bfloat16
        assert torch.dist(quick.float(), frozen(x)) < 0.02 * frozen(x).norm()
        frozen.load_state_dict(Frozen(BACKBONES["resnet18"](3)).state_dict())


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(8, track_running_stats=False), nn.GroupNorm(2, 8)])
def test_other_norms_are_left_as_they_are(norm):
    encoder = Tiny()
    encoder.layers[1] = norm
    frozen, x = Frozen(encoder), torch.rand(5, 1, 8, 8)
    torch.testing.assert_close(frozen(x), encoder.eval()(x))


def test_an_encoder_that_cannot_be_traced_is_frozen_all_the_same():
    encoder = Odd()
    frozen, x = Frozen(encoder), torch.rand(3, 1, 8, 8)
    frozen.train()
    assert torch.equal(frozen(x), encoder.eval()(x))
    assert not any(p.requires_grad for p in frozen.parameters())


def test_frozen_encoders_give_the_same_bits_before_and_after_later_tasks():
    method, scenario = make_method("hlll", epochs=3, classifier_epochs=2)
    x, outputs = torch.rand(7, 1, 8, 8), []
    for task in scenario:
        learn_task(method, task)
        method.train()  # what training later does to all modules
        outputs.append(method.network.encoders[task.index](x))
        for encoder, before in zip(method.network.encoders, outputs, strict=True):
            assert torch.equal(encoder(x), before)
    assert len({tuple(out.flatten().tolist()) for out in outputs}) == len(outputs)  # three encoders, not one


def test_widening_keeps_what_was_known():
    torch.manual_seed(0)
    network = ExpandableNetwork(Tiny)
    network.grow()
    network.widen(2)
    network.eval()
    x = torch.rand(5, 1, 8, 8)
    before = network(x)
    network.widen(5)
    torch.testing.assert_close(network(x)[:, :2], before)
    network.grow()
    network.eval()
    torch.testing.assert_close(network(x)[:, :2], before)  # a new encoder says nothing yet about old classes
    assert network.feature_size == 16


def test_an_encoder_can_start_from_another():
    network = ExpandableNetwork(Tiny)
    first = network.grow()
    second = network.grow(start=first)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert first is not second


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet19", "unknown backbone 'resnet19': take resnet18"),
        ("nowhere.at:all", "cannot be loaded"),
        ("everspan.deep.backbones:nothing", "cannot be loaded"),
        ("torch.nn:Identity", "feature_size"),
    ],
)
def test_unknown_backbones_are_refused(name, message):
    with pytest.raises(ValueError, match=message):
        backbone_factory(name, 3)


def test_a_backbone_of_ones_own():
    assert isinstance(backbone_factory("tests.deep._common:Tiny", 3)(), Tiny)
