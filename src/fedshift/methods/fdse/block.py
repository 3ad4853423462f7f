"""The block of FDSE: a smaller shared layer extracts features, cheap personal operations expand and deskew
them.

"Federated Domain Shift Eraser" (CVPR 2025), Eq. 2-3, Tables A6 and A7. A layer with T outputs and the BN
after it become

    DFE layer with m = ceil(T / G) outputs, BN_DSE, ReLU, depthwise layer, concatenation, bias, BN_DFE

This follows Eq. 3 and the released code. Table A7 deviates: it has a dense layer in place of the depthwise
one, which contradicts the paper's own counts (Table 4). It also calls the last normalisation BN_DSE.
"""

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


@dataclass(frozen=True)
class Decomposition:
    """How a layer becomes a block.

    `G`: outputs of the block for each output of its DFE layer.
    `dw`: side of the depthwise kernel (1 in linear blocks).
    `activation`: between BN_DSE and the depthwise layer.
    `fc_identity`: whether a linear block passes its m features on (Table A6, second release) or its depthwise
    layer makes all T outputs (first release, which alone fits Table 4's counts).
    `concat_bias`: owner of the bias after the concatenation.
    `padding`: of the DFE convolution: the layer's (a6), half the kernel (v1, first release), or none for
    kernels of 3 (head, second release).
    """

    G: int = 2
    dw: int = 3
    activation: Literal["relu", "none"] = "relu"
    fc_identity: bool = False
    concat_bias: Literal["personal", "shared", "none"] = "personal"
    padding: Literal["a6", "v1", "head"] = "a6"

    def __post_init__(self) -> None:
        if self.G < 1 or self.dw < 1 or self.dw % 2 == 0:
            raise ValueError(f"G must be positive and dw positive and odd, not {self.G} and {self.dw}")


class ChannelBias(nn.Module):
    """Adds a learned number to each channel of x [B, T, ..]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias.to(x.dtype).view(-1, *[1] * (x.dim() - 2))


class DepthwiseLinear(nn.Conv2d):
    """Linear layer in which each output is one input times a weight: [B, m] to [B, n], n a multiple of m."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1, groups=inputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:, :, None, None]).flatten(1)


class Half(nn.Module):
    """One half of a block: shared by all clients (role "dfe") or personal (role "dse")."""

    def __init__(self, role: str, conv: nn.Module, bn: nn.Module, bias: nn.Module) -> None:
        super().__init__()
        self.role = role
        self.conv: nn.Module = conv
        self.bn: nn.Module = bn
        self.bias: nn.Module = bias


class DSEBlock(nn.Module):
    """Replaces a layer and its BN: [B, inputs, ..] to [B, T, ..].

    deskewed: the input of BN_DFE [B, T, ..] at the last call, or None if the DSE half was in eval mode.
    """

    layer = True

    def __init__(self, dfe: Half, dse: Half, outputs: int, identity: bool, activation: nn.Module) -> None:
        super().__init__()
        self.dfe, self.dse = dfe, dse
        self.outputs, self.identity, self.activation = outputs, identity, activation
        self.deskewed: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        x = self.deskew(self.dfe.conv(x))
        self.deskewed = x if self.dse.training else None
        return self.dfe.bn(x)

    def deskew(self, x: Tensor) -> Tensor:
        """The DSE module (Eq. 3): features [B, m, ..] to [B, T, ..]."""
        x = self.activation(self.dse.bn(x))
        expanded = self.dse.conv(x)
        x = torch.cat([x, expanded], 1) if self.identity else expanded
        return self.dse.bias(self.dfe.bias(x[:, : self.outputs]))


def decompose(model: nn.Module, how: Decomposition) -> int:
    """Replace in place each layer and BN that a module's `decomposes` names; returns the number of layers."""
    modules = [module for module in model.modules() if hasattr(module, "decomposes")]
    for module in modules:
        layer, bn = cast(tuple[str, str], module.decomposes)
        replaced = getattr(module, layer)
        block = _conv_block if isinstance(replaced, nn.Conv2d) else _linear_block
        setattr(module, layer, block(replaced, how))
        if bn:
            setattr(module, bn, nn.Identity())
    return len(modules)


def _conv_block(layer: nn.Conv2d, how: Decomposition) -> DSEBlock:
    outputs, kernel = layer.out_channels, layer.kernel_size[0]
    stride, own = layer.stride[0], int(layer.padding[0])
    features = math.ceil(outputs / how.G)
    padding = {"a6": own, "v1": kernel // 2, "head": 0 if kernel == 3 else own}[how.padding]
    extract = nn.Conv2d(layer.in_channels, features, kernel, stride, padding)
    bns = nn.BatchNorm2d(outputs), nn.BatchNorm2d(features)
    if how.G == 1:
        return _assembled(extract, nn.Identity(), *bns, False, how)
    added = features * (how.G - 1)
    expand = nn.Conv2d(features, added, how.dw, padding=how.dw // 2, groups=features, bias=False)
    return _assembled(extract, expand, *bns, True, how)


def _linear_block(layer: nn.Linear, how: Decomposition) -> DSEBlock:
    outputs = layer.out_features
    features, identity = math.ceil(outputs / how.G), how.fc_identity and how.G > 1
    extract = nn.Linear(layer.in_features, features)
    expand = DepthwiseLinear(features, features * (how.G - identity))
    bns = nn.BatchNorm1d(outputs), nn.BatchNorm1d(features)
    return _assembled(extract, expand, *bns, identity, how)


def _assembled(
    extract: nn.Module, expand: nn.Module, dfe_bn: _BatchNorm, dse_bn: _BatchNorm, identity: bool,
    how: Decomposition,
) -> DSEBlock:  # fmt: skip
    """Assemble a block from its extractor, its expansion and their normalisations."""
    outputs = dfe_bn.num_features
    owners = ("shared", "personal")
    biases = [ChannelBias(outputs) if how.concat_bias == owner else nn.Identity() for owner in owners]
    dfe, dse = Half("dfe", extract, dfe_bn, biases[0]), Half("dse", expand, dse_bn, biases[1])
    activation = nn.ReLU(inplace=True) if how.activation == "relu" else nn.Identity()
    return DSEBlock(dfe, dse, outputs, identity, activation)
