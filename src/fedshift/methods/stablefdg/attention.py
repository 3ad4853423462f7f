"""StableFDG's attention-based feature highlighter (Sec. 3.2): a second feature in which what a class has in
common weighs more.

The similarity S = Q_j^T K_i [hw, hw] is averaged over its query axis, so the mean query [d] of the other
image is sufficient.
"""

import itertools
import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.common.equations import equation

Similarity = Literal["cosine", "dot"]
Partner = Callable[[Tensor], Tensor]


def itself(query: Tensor) -> Tensor:
    """Self-attention: every image is its own partner, as in evaluation."""
    return query


@equation("StableFDG", "Eq. 6, 8")
def attention(query: Tensor, key: Tensor) -> Tensor:
    """Attention scores [B, hw] of sum 1: the softmax over positions of key [B, d, hw] times the mean query
    [B, d].

    The mean over the query axis of S = Q^T K [hw, hw] is (mean of Q)^T K, with K = theta_k X_i. Q is theta_q
    X_j in Eq. 6 and (theta_q X_j + theta_q X_i) / 2 in Eq. 8. There is no scale; the released code
    (`similarity: cosine`) divides each column of Q and K by its norm. This is not written as a matrix
    product, which autocast would compute in bf16.
    """
    return (query[:, :, None] * key).sum(1).softmax(1)


@equation("StableFDG", "Eq. 7")
def highlighted(scores: Tensor, z: Tensor) -> Tensor:
    """The mean A [B, C] of z [B, C, h, w] with weights `scores` [B, hw], positions row by row."""
    return torch.einsum("bp,bcp->bc", scores, z.flatten(2).to(scores.dtype))


@equation("StableFDG", "Sec. 3.2")
def partners(labels: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """The partner of each row of a batch [B], and whether it has none [B]; then its partner is the row
    itself.

    The partner is the next row, cyclically, of the same class that shows another image. labels [B]; source
    [B]: the image that each row is, or is a copy of.
    """
    rows = torch.arange(len(labels), device=labels.device)
    fits = (labels == labels[:, None]) & (source != source[:, None])
    steps = torch.where(fits, (rows - rows[:, None]) % len(rows), len(rows)).amin(1)
    return (rows + steps) % len(rows), steps == len(rows)


class Neck(nn.Sequential):
    """The network's neck with the highlighted feature appended: [B, C, h, w] to [B, F + C].

    Names of the neck's tensors do not change. For ResNets the neck is the global average, as in the paper;
    other networks use their own.
    """

    def __init__(self, neck: nn.Module) -> None:
        parts = list(neck) if isinstance(neck, nn.Sequential) else [neck]
        super().__init__(*parts)
        self._parts = len(parts)

    def scores(self, z: Tensor, partner: Partner) -> Tensor:
        """The weight of each position, [B, hw]."""
        raise NotImplementedError

    def forward(self, z: Tensor, partner: Partner = itself) -> Tensor:
        """Features of the map z; partner: maps the images' mean queries [B, d] to the queries that are used
        [B, d].
        """
        feature = z
        for part in itertools.islice(self, self._parts):
            feature = part(feature)
        return torch.cat([feature, highlighted(self.scores(z, partner), z).to(feature.dtype)], 1)


class Embedding(nn.Conv2d):
    """theta, a 1x1 convolution from the map [B, C, h, w] to [B, d, h, w].

    It starts as in the released code, where one convolution makes queries, keys and values: Kaiming normal by
    fan-out 3 d, biases 0.
    """

    def __init__(self, channels: int, d: int) -> None:
        super().__init__(channels, d, 1)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=math.sqrt(2 / (3 * self.out_channels)))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Highlighter(Neck):
    """Neck with attention whose queries and keys are embeddings of the map.

    similarity "cosine": both have length 1 at each position (released code). dead_v: adds the released code's
    unused value map and 1x1 convolution, for its number of parameters.
    """

    def __init__(
        self, neck: nn.Module, channels: int, d: int, similarity: Similarity, dead_v: bool = False
    ) -> None:
        super().__init__(neck)
        self._cosine = similarity == "cosine"
        self.query, self.key = Embedding(channels, d), Embedding(channels, d)
        if dead_v:
            self.value, self.out = Embedding(channels, d), nn.Conv2d(1, 1, 1)

    def queries(self, z: Tensor) -> Tensor:
        """The mean over space of theta_q z, [B, d]."""
        return self._embedded(self.query, z).mean(2)

    def scores(self, z: Tensor, partner: Partner) -> Tensor:
        return attention(partner(self.queries(z)), self._embedded(self.key, z))

    def _embedded(self, convolution: nn.Module, z: Tensor) -> Tensor:
        embedded = convolution(z).flatten(2)
        embedded = embedded.to(torch.promote_types(embedded.dtype, torch.float32))
        return F.normalize(embedded, dim=1) if self._cosine else embedded


class ConvolutionHighlighter(Neck):
    """Table 16's baseline of the same size. Its form is a guess: two 1x1 convolutions make the scores."""

    def __init__(self, neck: nn.Module, channels: int, width: int) -> None:
        super().__init__(neck)
        first, second = nn.Conv2d(channels, width, 1), nn.Conv2d(width, 1, 1)
        self.score = nn.Sequential(first, nn.ReLU(inplace=True), second)

    def scores(self, z: Tensor, partner: Partner) -> Tensor:
        return self.score(z).flatten(1).float().softmax(1)
