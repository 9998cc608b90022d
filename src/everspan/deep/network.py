"""The network: frozen encoders and a new one, concatenated, and one classifier over all (Section 2.3)."""

from __future__ import annotations

import copy
import math
import operator
from collections import Counter
from typing import cast

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from .backbones import BackboneFactory


class Frozen(nn.Module):
    """An encoder that no longer changes: no gradient, BatchNorm folded into convolutions, never in training mode.

    In mixed precision on a GPU it runs as a copy in bfloat16 whose ReLUs, and the sums before them, are done by the
    convolutions.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.feature_size = cast(int, encoder.feature_size)
        self.encoder = _folded(encoder)
        self.encoder.requires_grad_(False)
        self.train(False)
        self._copy: tuple[list[tuple[int, int]], list[nn.Module]] = ([], [])  # in a list, so that it is no submodule

    def train(self, mode: bool = True) -> Frozen:
        """Stay in evaluation mode, whatever the network around it does."""
        return super().train(False)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16:
            x = x.to(torch.bfloat16)
            return cast(Tensor, self._in_bf16(x)(x))
        return cast(Tensor, self.encoder(x))

    def _in_bf16(self, example: Tensor) -> nn.Module:
        """The encoder in bfloat16, made again when its weights were written to."""
        weights = written(self.encoder)
        if self._copy[0] != weights:
            plain = copy.deepcopy(self.encoder).to(torch.bfloat16)
            self._copy = weights, [_quick(plain, example)]
        return self._copy[1][0]


def written(module: nn.Module) -> list[tuple[int, int]]:
    """Where a module's tensors lie and how often they were written to: what was made of them is as good as this."""
    return [(tensor.data_ptr(), tensor._version) for tensor in module.state_dict().values()]


def _quick(plain: nn.Module, example: Tensor) -> nn.Module:
    """The same with joined convolutions; as it is where those cannot do it, or do something else."""
    if not isinstance(plain, fx.GraphModule):
        return plain
    try:
        joined = _joined(plain)
        wanted, got = plain(example).float(), joined(example).float()
    except Exception:  # a graph of another form, or shapes that cuDNN does not join: it works as it is
        return plain
    return joined if torch.dist(wanted, got) <= 0.02 * wanted.norm() else plain


def _joined(plain: fx.GraphModule) -> fx.GraphModule:
    """A copy with a convolution, the sum behind it, and a ReLU as one cuDNN call."""
    joined = copy.deepcopy(plain)
    modules, graph = dict(joined.named_modules()), joined.graph

    def lone_convolution(node: object) -> bool:
        if not isinstance(node, fx.Node) or node.op != "call_module" or len(node.users) != 1:
            return False
        module = modules[str(node.target)]
        return type(module) is nn.Conv2d and module.padding_mode == "zeros" and isinstance(module.padding, tuple)

    for node in list(graph.nodes):
        if node.op != "call_module" or not isinstance(modules[str(node.target)], nn.ReLU):
            continue
        before = node.all_input_nodes[0]
        convolution, added = before, None
        if isinstance(before, fx.Node) and before.target is operator.add and len(before.users) == 1:
            convolution, added = before.args if lone_convolution(before.args[0]) else reversed(before.args)
        if not lone_convolution(convolution) or convolution is added:
            continue
        module = modules[str(convolution.target)]
        shape = (list(module.stride), list(module.padding), list(module.dilation), module.groups)
        with graph.inserting_before(node):
            weight, bias = (graph.get_attr(f"{convolution.target}.{name}") for name in ("weight", "bias"))
            operands = (convolution.args[0], weight)
            if added is None:
                new = graph.call_function(torch.ops.aten.cudnn_convolution_relu.default, (*operands, bias, *shape))
            else:
                operation = torch.ops.aten.cudnn_convolution_add_relu.default
                new = graph.call_function(operation, (*operands, added, 1.0, bias, *shape))
        node.replace_all_uses_with(new)
        for gone in dict.fromkeys([node, before, convolution]):
            graph.erase_node(gone)
    joined.recompile()
    return joined


def _folded(encoder: nn.Module) -> nn.Module:
    """A copy in evaluation mode with every BatchNorm that follows a convolution made part of it."""
    copied = copy.deepcopy(encoder).eval()
    try:
        traced = fx.symbolic_trace(copied)
    except Exception:  # its forward depends on the images: it works as it is
        return copied
    modules, calls = dict(traced.named_modules()), Counter(node.target for node in traced.graph.nodes)
    for node in list(traced.graph.nodes):
        before = node.args[0] if node.args else None
        if node.op != "call_module" or not isinstance(before, fx.Node) or before.op != "call_module":
            continue
        convolution, norm = modules[str(before.target)], modules[str(node.target)]
        alone = len(before.users) == calls[before.target] == calls[node.target] == 1
        if type(convolution) is nn.Conv2d and isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats and alone:
            traced.set_submodule(str(before.target), fuse_conv_bn_eval(convolution, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced


class ExpandableNetwork(nn.Module):
    """Encoders side by side and one linear classifier over all their features.

    Parameters
    ----------
    factory : () -> nn.Module
        Makes an encoder with an attribute ``feature_size``.

    Notes
    -----
    ``grow`` adds an encoder, ``widen`` outputs, ``freeze`` ends the training of the newest encoder for good. A network
    that is only widened is the single network of the other methods.
    """

    def __init__(self, factory: BackboneFactory) -> None:
        super().__init__()
        self.factory = factory
        self.encoders = nn.ModuleList()
        self.classifier = linear(0, 0)

    @property
    def feature_size(self) -> int:
        """Features of all encoders together."""
        return sum(cast(int, encoder.feature_size) for encoder in self.encoders)

    @property
    def newest(self) -> nn.Module:
        """The encoder that was added last."""
        return self.encoders[-1]

    def grow(self, start: nn.Module | None = None) -> nn.Module:
        """Add an encoder: from scratch, or with the weights of a given one."""
        self.encoders.append(self._made(start))
        self._reshape(self.classifier.out_features)
        return self.newest

    def _made(self, start: nn.Module | None) -> nn.Module:
        encoder = self.factory()
        if start is not None:
            encoder.load_state_dict(start.state_dict())
        encoder.to(self.classifier.weight.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        return encoder

    def widen(self, classes: int) -> None:
        """Give the classifier outputs for so many classes; those there are keep their weights."""
        self._reshape(classes)

    def freeze(self, place: int = -1) -> None:
        """Freeze an encoder, by default the newest: from now on its outputs stay the same, to the bit."""
        self.encoders[place] = Frozen(self.encoders[place])

    def without_newest(self) -> ExpandableNetwork:
        """Return a network of all encoders but the newest, which shares them, with a classifier of its own."""
        network = ExpandableNetwork(self.factory)
        network.encoders.extend(list(self.encoders)[:-1])
        old = self.classifier
        network.classifier = linear(network.feature_size, old.out_features).to(old.weight.device)
        with torch.no_grad():
            network.classifier.weight.copy_(old.weight[:, : network.feature_size])
            network.classifier.bias.copy_(old.bias)
        return network

    def restart(self, place: int, start: nn.Module) -> nn.Module:
        """Put an encoder that can be trained in the place of a frozen one, with the weights of a given encoder."""
        self.encoders[place] = self._made(start)
        return self.encoders[place]

    def new_classifier(self) -> None:
        """Forget the classifier's weights."""
        classifier = self.classifier
        self.classifier = linear(classifier.in_features, classifier.out_features).to(classifier.weight.device)

    def _reshape(self, classes: int) -> None:
        old = self.classifier
        self.classifier = linear(self.feature_size, classes).to(old.weight.device)
        with torch.no_grad():
            rows, columns = old.weight.shape
            if rows and columns:
                self.classifier.weight[:rows, columns:] = 0.0  # what is new says nothing yet about what is old
                self.classifier.weight[:rows, :columns] = old.weight
                self.classifier.bias[:rows] = old.bias

    def features(self, x: Tensor) -> Tensor:
        return torch.cat([encoder(x) for encoder in self.encoders], dim=1)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.classifier(self.features(x)))


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A linear layer, also with no inputs or no outputs yet."""
    layer, bound = nn.Linear(1, 1), 1.0 / math.sqrt(max(inputs, 1))
    layer.in_features, layer.out_features = inputs, outputs
    layer.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
    layer.bias = nn.Parameter(torch.zeros(outputs))
    return layer
