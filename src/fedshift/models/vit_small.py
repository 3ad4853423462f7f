"""The small vision transformer of FDSE, called ViT-B/8 in its Table A8.

FDSE (CVPR 2025), model/vit.py of its code: patches of 32 px, 6 blocks of width 64, 8 heads of 64, batch
normalisation in the feed-forward part. It has 1,096,327 parameters at 7 classes and 256 px, and 70.1 M
multiply-adds in its linear layers. Patches, tokens and their order are those of that code.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fedshift.common.errors import FedshiftError
from fedshift.models.base import Model

PATCH, WIDTH, DEPTH, HEADS, HEAD_WIDTH, HIDDEN = 32, 64, 6, 8, 64, 128


def tokens(x: Tensor) -> Tensor:
    """A map [B, c, n, 1] as [B, n, c]; a view."""
    return x.flatten(2).transpose(1, 2)


def as_map(x: Tensor) -> Tensor:
    """Tokens [B, n, c] as a map [B, c, n, 1]; a view."""
    return x.transpose(1, 2).unsqueeze(3)


class Embedding(nn.Module):
    """Projected patches behind a class token, plus positions: [B, 3, h, w] to [B, 64, 1 + h w / 32^2, 1]."""

    def __init__(self, patches: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(3 * PATCH**2)
        self.fc = nn.Linear(3 * PATCH**2, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.cls = nn.Parameter(torch.empty(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.empty(1, patches + 1, WIDTH))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.cls)
        nn.init.normal_(self.positions)

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        cut = x.permute(0, 2, 3, 1).reshape(batch, height // PATCH, PATCH, width // PATCH, PATCH, 3)
        patches = cut.transpose(2, 3).reshape(batch, -1, 3 * PATCH**2)
        embedded = self.norm2(self.fc(self.norm1(patches)))
        return as_map(torch.cat([self.cls.expand(batch, -1, -1), embedded], 1) + self.positions)


class Attention(nn.Module):
    """Self-attention of the normalised tokens: [B, n, 64] to [B, n, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * HEADS * HEAD_WIDTH, bias=False)
        self.out = nn.Linear(HEADS * HEAD_WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, n, _ = x.shape
        # Written out: PyTorch's fused kernels add gradients in any order on CUDA.
        q, k, v = self.qkv(self.norm(x)).view(batch, n, 3, HEADS, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(2, 3) * HEAD_WIDTH**-0.5).softmax(3)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, n, -1))


class FeedForward(nn.Module):
    """Linear, BN over all tokens of a batch, GELU, linear: [B, n, 64] to the same; `fc2` sees [B n, 128]."""

    decomposes = ("fc2", "")

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.bn = nn.BatchNorm1d(HIDDEN)
        self.gelu = nn.GELU()
        self.fc2 = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.gelu(self.bn(self.fc1(x.flatten(0, 1))))).view(x.shape)


class Block(nn.Module):
    """x + attention(x), then x + feed-forward(x), on a map [B, 64, n, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.feedforward = FeedForward()

    def forward(self, x: Tensor) -> Tensor:
        x = tokens(x)
        x = x + self.attention(x)
        return as_map(x + self.feedforward(x))


class ClassToken(nn.Module):
    """The normalised class token of a map [B, 64, n, 1]: [B, 64]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x[:, :, 0, 0])


class ViTSmall(Model):
    """An embedding and six blocks.

    `body` returns a map [B, 64, 1 + patches, 1] of the tokens, the class token first. A statistic over space
    is therefore one over tokens. Raises FedshiftError if the input is not a whole number of patches.
    """

    name = "vit_small"
    min_px = PATCH
    indicator = "stages.stage1.feedforward.fc2.weight"  # there is no convolution

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        if input_px % PATCH:
            cure = f"Set data.input_px to a multiple of {PATCH}; FDSE has 256."
            raise FedshiftError("model vit_small", f"{input_px} px are no whole number of patches", cure)
        self.stages = nn.ModuleDict({"stem": Embedding((input_px // PATCH) ** 2)})
        self.stages.update({f"stage{i + 1}": Block() for i in range(DEPTH)})
        self.neck = ClassToken()
        self.feature_dim = WIDTH
        self.head = nn.Linear(WIDTH, classes)
