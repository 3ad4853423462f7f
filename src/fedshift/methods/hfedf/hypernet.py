"""A hypernetwork in one flat vector: from a client's embedding to its whole model, and from a cotangent back.

hFedF's Table 8: embeddings [N, e], then hidden linear layers of 50, then one linear head for each layer of
the client's model. LeakyReLU .01 is between the hidden layers, and nothing after the last. PyTorch's start of
Linear(50, n), U(-1 / sqrt 50, 1 / sqrt 50), does not depend on n. The heads side by side are therefore one
map to all P trainable entries. Outputs are in the order of a row: convolution weights channels_last.

The head is linear: the gradient of client i's cotangent v_i is the outer product of v_i with the hidden
features, and v_i for the bias. Inner products of gradients therefore need no gradient of that size, and their
weighted sum is one matrix product. Autograd only computes the gradients of the embeddings and the hidden
layers.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.method import Layout, Method, Server, Slot, equation

WIDTH = 50


class Hypernetwork:
    """The shapes of all tensors and their places in the flat vector h [size].

    In order: embeddings [N, e], weight and bias of each hidden layer, head [F, P], its bias [P]. F = 50, or e
    without a hidden layer.
    """

    def __init__(self, clients: int, dim: int, hidden: int, outputs: int) -> None:
        self.dim = dim
        widths = [dim] + [WIDTH] * hidden
        layers = [shape for a, b in itertools.pairwise(widths) for shape in ((b, a), (b,))]
        self.shapes = [(clients, dim), *layers, (widths[-1], outputs), (outputs,)]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size, self.inner = sum(self.sizes), sum(self.sizes[:-2])

    def views(self, h: Tensor) -> list[Tensor]:
        """All tensors in their shapes, sharing memory with h [size]; without the head for its beginning
        [inner].
        """
        sizes = self.sizes if len(h) == self.size else self.sizes[:-2]
        return [part.view(shape) for part, shape in zip(h.split(sizes), self.shapes, strict=False)]

    def embeddings(self, h: Tensor) -> Tensor:
        """[N, e], sharing memory with h."""
        return self.views(h)[0]

    def features(self, inner: Tensor, clients: list[int]) -> Tensor:
        """The input of the head for some clients, [K, F], from the first `inner` entries of h."""
        embeddings, *layers = self.views(inner)
        x = embeddings[clients]
        for i, (weight, bias) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
            x = F.linear(F.leaky_relu(x, 0.01) if i else x, weight, bias)
        return x

    def draw(self, rng: torch.Generator, dtype: torch.dtype, deviation: Tensor | None = None) -> Tensor:
        """Sample a start: embeddings N(0, 1), layers as torch's Linear; outputs scaled to `deviation` [P]."""
        h = torch.empty(self.size, dtype=dtype)
        embeddings, *layers = views = self.views(h)
        embeddings.normal_(generator=rng)
        *hidden, head, head_bias = layers
        for weight, bias in zip(hidden[::2], hidden[1::2], strict=True):
            _uniform(weight, bias, weight.shape[1], rng)
        _uniform(head, head_bias, len(head), rng)
        if deviation is not None:
            x = self.features(h[: self.inner], list(range(len(views[0]))))
            drawn = (x.square().sum(1).mean() + 1).sqrt() / math.sqrt(3 * len(head))
            head.mul_(deviation / drawn)
            head_bias.mul_(deviation / drawn)
        return h


def _uniform(weight: Tensor, bias: Tensor, fan_in: int, rng: torch.Generator) -> None:
    bound = 1 / math.sqrt(fan_in)
    weight.uniform_(-bound, bound, generator=rng)
    bias.uniform_(-bound, bound, generator=rng)


@equation("hFedF", "Eq. 4")
def generate(net: Hypernetwork, h: Tensor, client: int) -> Tensor:
    """phi_i = h(i; theta, nu), [P]; h [net.size]: all tensors of `Hypernetwork`, flattened in turn.

    Clients are generated one by one, so the bits do not depend on which others take part.
    """
    *_, head, bias = net.views(h)
    return torch.addmv(bias, head.T, net.features(h[: net.inner], [client])[0])


@dataclass(frozen=True)
class Pullback:
    """Gradients over h in factors: `inner` [K, inner], the head's `features` [K, F], `cotangents` [K, P]."""

    inner: Tensor
    features: Tensor
    cotangents: Tensor

    def gram(self) -> Tensor:
        """Gram matrix <g_i, g_j> of the gradients, [K, K]."""
        heads = self.cotangents @ self.cotangents.T * (self.features @ self.features.T + 1)
        return heads + self.inner @ self.inner.T

    def combined(self, weights: Tensor) -> Tensor:
        """sum_i weights[i] g_i, [size]; weights [K]."""
        (_, inner), (features, outputs) = self.inner.shape, (self.features.shape[1], self.cotangents.shape[1])
        g = self.inner.new_empty(inner + (features + 1) * outputs)
        at, head, bias = g.split([inner, features * outputs, outputs])
        torch.mv(self.inner.T, weights, out=at)
        torch.mm((self.features * weights[:, None]).T, self.cotangents, out=head.view(features, outputs))
        torch.mv(self.cotangents.T, weights, out=bias)
        return g


@equation("hFedF", "Eq. 6")
def pullback(net: Hypernetwork, h: Tensor, clients: list[int], cotangents: Tensor) -> Pullback:
    """g_i = (d phi_i / d (theta, nu))^T v_i for K clients with cotangents v [K, P]; net, h: as in `generate`.

    The result is in factors. `.gram()` is <g_i, g_j> [K, K]; `.combined(weights)` is sum_i weights[i] g_i
    [size] in the order of h (Eq. 7). `.combined(one-hot)` is a single g_i.
    """
    *_, head, _ = net.views(h)
    leaf = h[: net.inner].clone().requires_grad_()
    features = net.features(leaf, clients)
    arriving = cotangents @ head.T
    pairs = zip(features, arriving, strict=True)
    inner = [torch.autograd.grad(one, leaf, back, retain_graph=True)[0] for one, back in pairs]
    return Pullback(torch.stack(inner), features.detach(), cotangents)


@equation("hFedF", "Sec. 4.1, e")
def embedding_dim(clients: int) -> int:
    """floor(1 + N / 4): hFedF, Section 4.1, after pFedHN."""
    return 1 + clients // 4


def own_deviation(L: Layout) -> Tensor:
    """Standard deviation of torch's start of convolutions and linear layers, 1 / sqrt(3 fan-in), by entry
    [P].
    """
    fans = {entry.name: math.prod(entry.shape[1:]) for entry in L.entries}
    deviation = torch.zeros(L.size, dtype=L.dtype)
    for entry in L.entries:
        weight = f"{entry.name.removesuffix('bias')}weight" if entry.kind == "bias" else entry.name
        deviation[entry.slice] = 1 / math.sqrt(3 * fans[weight])
    return deviation[L.W]


class Generated(Method):
    """Base of methods whose server generates all trainable entries of the clients' models.

    Slot h contains embeddings and hypernetwork in one vector, for one optimiser. Statistics of batch
    normalisation stay in the server's row.
    """

    weighs = True

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        size = lambda L, N: (self.net(L, N).size,)  # noqa: E731
        self.slots = (Slot("h", size, "server", init=self._start, saved=True),)

    def net(self, L: Layout, N: int) -> Hypernetwork:
        """The hypernetwork for N clients with models of layout L."""
        return Hypernetwork(N, self.hp.embedding_dim or embedding_dim(N), self.hp.hidden, L.P)

    def _start(self, L: Layout, N: int, rng: torch.Generator) -> Tensor:
        deviation = own_deviation(L) if self.hp.head_init == "fanin" else None
        return self.net(L, N).draw(rng, L.dtype, deviation)

    def broadcast(self, S: Server, clients: list[int]) -> Tensor:
        net, rows = self.net(S.layout, S.N), S.row.repeat(len(clients), 1)
        for row, client in zip(rows, clients, strict=True):
            row[S.layout.W] = generate(net, S.slot.h, client)
        return rows

    def pulled(self, S: Server, rows: Tensor) -> Pullback:
        """The gradients of the active clients, with cotangents phi - phi~; rows [K, P + Q] as received."""
        W = S.layout.W
        cotangents = self.broadcast(S, S.active)[:, W] - rows[:, W]
        return pullback(self.net(S.layout, S.N), S.slot.h, S.active, cotangents)
