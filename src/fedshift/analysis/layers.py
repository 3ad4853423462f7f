"""The network of a run, by its shapes alone: its size, and its layers as in reference/architectures.yaml.

A network is the list of its modules in order, each in torch's notation: `Conv2d(3, 64, 11, 4, 2)` has inputs,
outputs, kernel, stride and padding. A published layer is as many modules as the reference lists for it, so
one module too many or too few shifts all that follow. The modules after the last layer belong to it.
"""

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only
from fedshift.common.yaml_file import read
from fedshift.federation.cost import macs_per_image, state_dict_bytes
from fedshift.federation.layout import Layout
from fedshift.methods.fdse.block import ChannelBias, DepthwiseLinear, DSEBlock
from fedshift.methods.hfedf.autoencoder import Autoencoder
from fedshift.methods.hfedf.hypernet import Generated, Hypernetwork
from fedshift.models.hfedf_cnn import Inception
from fedshift.models.layers.blocks import AdaptiveAverage
from fedshift.planning.costs import taking_part
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

MEGA, MIB = 1e6, 2**20
NORMALISED = 4  # operations per value in batch normalisation, as thop counts


def network(spec: RunSpec) -> nn.Module | None:
    """The run's network on the meta device; None if the number of classes is only known from its images."""
    classes = len(get("datasets", spec.data.dataset).classes)
    with shapes_only():
        return spec.method.build().model(spec.model.build(classes, spec.data.input_px)) if classes else None


def normalised(model: nn.Module, px: int) -> int:
    """The number of values that pass batch normalisation for one image of `px`.

    `model`: on the meta device; it is not used again.
    """
    passed: list[int] = []
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.register_forward_hook(lambda module, inputs, output: passed.append(output.numel()))
    with torch.no_grad():
        model.eval()(torch.empty(1, 3, px, px, device="meta"))
    return sum(passed)


@functools.cache
def counts(text: str) -> dict[str, float]:
    """The counted costs of a spec (JSON); NaN if the number of classes is only known from its images."""
    spec = RunSpec.model_validate_json(text)
    model, px = network(spec), spec.data.input_px
    if model is None:
        return {}
    macs = macs_per_image(model, px)
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()) / MEGA,
        "state_dict": state_dict_bytes(model) / MIB,
        "macs": macs / MEGA,
        "macs_norm": (macs + NORMALISED * normalised(model, px)) / MEGA,
    }


class Piece(NamedTuple):
    """A module in words, and its number of parameters."""

    text: str
    parameters: int


def layer(workspace: Workspace, paper: str, table: str, name: str, text: str) -> Piece:
    """The modules of a run's network (its spec, JSON) that correspond to a published layer.

    Empty if the table has no such layer.

    `name`: `<part>.<number>`, as in fedshift.experiments.column.
    """
    part, _, number = name.partition(".")
    bounds = [0, *itertools.accumulate(map(len, printed_layers(workspace, paper, table).values()))]
    if int(number) >= len(bounds):
        return Piece("", 0)
    bounds[-1] = sys.maxsize  # the remaining modules belong to the last layer
    pieces = _pieces(text, part)[bounds[int(number) - 1] : bounds[int(number)]]
    return Piece(", ".join(one.text for one in pieces), sum(one.parameters for one in pieces))


@functools.cache
def printed_layers(workspace: Workspace, paper: str, table: str) -> dict[str, list[str]]:
    """The modules of a published table by layer; empty if the reference lists no such table."""
    papers: dict[str, dict[str, dict[str, list[str]]]] = read(workspace.reference / "architectures.yaml")
    return papers.get(paper, {}).get(table, {})


@functools.lru_cache(256)
def _pieces(text: str, part: str) -> tuple[Piece, ...]:
    """All modules of one of a run's networks (fedshift.experiments.column.PARTS)."""
    spec = RunSpec.model_validate_json(text)
    where, cure = f"method {spec.method.name}", "Ask for the layers of `model`."
    with torch.device("meta"):
        if (model := network(spec)) is None:
            what = "names its classes in its images alone"
            raise FedshiftError(f"data set {spec.data.dataset}", what, "Name another.")
        if part == "model":
            return (*_modules(model),)
        if part == "block":
            if block := next((one for one in model.modules() if isinstance(one, DSEBlock)), None):
                return (*_block(block),)
            raise FedshiftError(where, "makes no blocks", cure)
        method = spec.method.build()
        if not isinstance(method, Generated):
            raise FedshiftError(where, "has no hypernetwork", cure)
        layout = Layout(model)
        sources = len(get("datasets", spec.data.dataset).domains) - len(spec.data.held_out)
        net = method.net(layout, taking_part(spec, sources)[1])
        return (*(_hypernetwork(net, layout) if part == "hypernetwork" else _modules(Autoencoder(net.dim))),)


def _block(block: DSEBlock) -> Iterator[Piece]:
    """A block of FDSE, in the order in which it computes (fedshift.methods.fdse.block)."""
    for module in (block.dfe.conv, block.dse.bn, block.activation, block.dse.conv):
        yield from _modules(module)
    if block.identity:
        yield Piece("Concat", 0)
    for module in (block.dfe.bias, block.dse.bias, block.dfe.bn, nn.ReLU()):
        yield from _modules(module)


def _hypernetwork(net: Hypernetwork, layout: Layout) -> Iterator[Piece]:
    """Its shapes, with the activations between hidden layers of fedshift.methods.hfedf.hypernet."""
    embedding, *hidden, head = [shape for shape in net.shapes if len(shape) > 1]
    yield Piece(f"Embedding({embedding[0]}, {embedding[1]})", math.prod(embedding))
    for place, shape in enumerate(hidden):
        yield Piece(f"Linear({shape[1]}, {shape[0]})", math.prod(shape) + shape[0])
        if place + 1 < len(hidden):
            yield Piece("LeakyReLU", 0)
    outputs = "all weights" if head[1] == layout.P else head[1]
    yield Piece(f"Linear({head[0]}, {outputs})", math.prod(head) + head[1])


def _modules(module: nn.Module) -> Iterator[Piece]:
    """The modules inside a module, in order: those in WORDS, without those that compute nothing."""
    words = next((words for kind, words in WORDS.items() if isinstance(module, kind)), None)
    if words is None and [*module.children()]:
        for child in module.children():
            yield from _modules(child)
    elif not isinstance(module, nn.Identity):
        text = words(module) if words else type(module).__name__
        yield Piece(text, sum(parameter.numel() for parameter in module.parameters()))


def _convolution(conv: nn.Conv2d) -> str:
    bias = "" if conv.bias is not None else ", no bias"
    groups = f", groups {conv.groups}" if conv.groups > 1 else ""
    numbers = (conv.in_channels, conv.out_channels, conv.kernel_size[0], conv.stride[0], conv.padding[0])
    return f"Conv2d({', '.join(map(str, numbers))}{groups}{bias})"


def _decomposed(block: DSEBlock) -> str:
    """A convolution with kernel, stride and padding; G and dw as in fedshift.methods.fdse.block."""
    layer, dw = block.dfe.conv, getattr(block.dse.conv, "kernel_size", (0,))[0]
    if isinstance(layer, nn.Conv2d):
        features, inputs = layer.out_channels, layer.in_channels
        inner = f", {layer.kernel_size[0]}, {layer.stride[0]}, {layer.padding[0]}"
    else:
        assert isinstance(layer, nn.Linear)
        features, inputs, inner = layer.out_features, layer.in_features, ""
    return f"DSEBlock({inputs}, {block.outputs}{inner}, G {-(-block.outputs // features)}, dw {dw})"


def _inception(block: Inception) -> str:
    widths = [branch.out_channels for branch in (block.conv1, block.conv3, block.conv5)]
    return f"Inception({block.conv1.in_channels + sum(widths)}, {widths}, ReLU)"


WORDS: dict[Any, Callable[[Any], str]] = {
    DepthwiseLinear: _convolution,
    nn.Conv2d: _convolution,
    nn.ConvTranspose2d: lambda m: (
        f"ConvTranspose2d({m.in_channels}, {m.out_channels}, {m.kernel_size[0]}, {m.stride[0]})"
    ),
    nn.Linear: lambda m: f"Linear({m.in_features}, {m.out_features})",
    nn.BatchNorm1d: lambda m: f"BatchNorm({m.num_features})",
    nn.BatchNorm2d: lambda m: f"BatchNorm({m.num_features})",
    nn.MaxPool2d: lambda m: f"MaxPool2d({m.kernel_size}, {m.stride})",
    nn.Dropout: lambda m: f"Dropout({m.p})",
    AdaptiveAverage: lambda m: f"AdaptiveAvgPool2d({m.side})",
    ChannelBias: lambda m: f"Bias({len(m.bias)})",
    DSEBlock: _decomposed,
    Inception: _inception,
}  # a kind of module -> in words; any other without children is its name
