"""StableFDG's attention-based feature highlighter (Sec. 3.2): a second feature in which what a class has in
common weighs more.

The similarity S = Q_j^T K_i [hw, hw] is averaged over its query axis, so all that one image needs of another
is its mean query [d].
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
    """Self-attention: every image is its own partner, as in every test."""
    return query


@equation("StableFDG", "Eq. 6, 8")
def attention(query: Tensor, key: Tensor) -> Tensor:
    """Scores [B, hw] that sum to 1: softmax over the positions of key [B, d, hw] of their product with the
    mean query [B, d].

    The mean over the query axis of S = Q^T K [hw, hw] is (mean of Q)^T K: Q = theta_q X_j in Eq. 6, (theta_q
    X_j + theta_q X_i) / 2 in Eq. 8; K = theta_k X_i. No scale; the released code (`similarity: cosine`)
    divides each column of Q and K by its norm. Not a matrix product, which autocast would take to bf16.
    """
    return (query[:, :, None] * key).sum(1).softmax(1)


@equation("StableFDG", "Eq. 7")
def highlighted(scores: Tensor, z: Tensor) -> Tensor:
    """A [B, C]: the mean of z [B, C, h, w] with weights `scores` [B, hw], positions row by row."""
    return torch.einsum("bp,bcp->bc", scores, z.flatten(2).to(scores.dtype))


@equation("StableFDG", "Sec. 3.2")
def partners(labels: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """For labels [B]: the next row of the same class that shows another image, cyclic [B], and whether there
    is none [B]: then it is the row itself. source [B]: the image that each row is, or is a copy of.
    """
    rows = torch.arange(len(labels), device=labels.device)
    fits = (labels == labels[:, None]) & (source != source[:, None])
    steps = torch.where(fits, (rows - rows[:, None]) % len(rows), len(rows)).amin(1)
    return (rows + steps) % len(rows), steps == len(rows)


class Neck(nn.Sequential):
    """A network's neck, its tensors' names kept, and the highlighted feature: [B, C, h, w] to [B, F + C].

    For ResNets the neck is the global average, as in the paper; other networks keep their own.
    """

    def __init__(self, neck: nn.Module) -> None:
        parts = list(neck) if isinstance(neck, nn.Sequential) else [neck]
        super().__init__(*parts)
        self._parts = len(parts)

    def scores(self, z: Tensor, partner: Partner) -> Tensor:
        """The weight of each position, [B, hw]."""
        raise NotImplementedError

    def forward(self, z: Tensor, partner: Partner = itself) -> Tensor:
        """partner: makes the queries that are used from the images' own mean queries, both [B, d]."""
        feature = z
        for part in itertools.islice(self, self._parts):
            feature = part(feature)
        return torch.cat([feature, highlighted(self.scores(z, partner), z).to(feature.dtype)], 1)


class Embedding(nn.Conv2d):
    """theta: the map [B, C, h, w] to [B, d, h, w], a 1x1 convolution. It starts as in the released code,
    where one convolution makes queries, keys and values: Kaiming normal by fan-out 3 d, biases 0.
    """

    def __init__(self, channels: int, d: int) -> None:
        super().__init__(channels, d, 1)

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=math.sqrt(2 / (3 * self.out_channels)))
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Highlighter(Neck):
    """Queries and keys are embeddings of the map; cosine: both of length 1 at each position (released code).

    dead_v: the released code's unused value map and 1x1 convolution, for its number of parameters.
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
    """Table 16's baseline of the same size, its form guessed: two 1x1 convolutions make the scores."""

    def __init__(self, neck: nn.Module, channels: int, width: int) -> None:
        super().__init__(neck)
        first, second = nn.Conv2d(channels, width, 1), nn.Conv2d(width, 1, 1)
        self.score = nn.Sequential(first, nn.ReLU(inplace=True), second)

    def scores(self, z: Tensor, partner: Partner) -> Tensor:
        return self.score(z).flatten(1).float().softmax(1)
