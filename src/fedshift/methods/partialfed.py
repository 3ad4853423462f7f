"""PartialFed (a reconstruction): each client learns which layers to load from the global model (Sun et al.,
NeurIPS 2021).

No released code was found. Procedure and values are reconstructed from the paper's summary, and every result
is a reconstruction.

At the start of a round each of a client's layers comes from the global model or from the client's own last
model. Gates decide, one for each convolution or linear layer with its normalisation. With `adaptive`, the
gates' logits are trained first, for one epoch. Both sets of weights are fixed meanwhile, and normalisation is
in eval mode. A straight-through Gumbel softmax makes each layer one or the other in the forward pass. Its
derivative is taken in the space of weights, which for a linear layer equals mixing outputs. Statistics of
normalisation are not part of that derivative.
"""

import functools
import operator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedshift.federation.method import Client, Index, Layout, Method, Slot, equation


@dataclass(frozen=True)
class Params:
    """rule: learned gates, or normalisation and head local, or the last `top` layers local; lr: learning rate
    of the gates' logits.

    warm, cold: the temperature falls from one to the other exponentially over `rounds` rounds.
    """

    rule: Literal["adaptive", "fix_bn_head", "fix_top"] = "adaptive"
    top: Annotated[int, Field(ge=1)] = 1
    lr: float = 0.1
    warm: Annotated[float, Field(gt=0)] = 5.0
    cold: Annotated[float, Field(gt=0)] = 0.5
    rounds: Annotated[int, Field(ge=1)] = 500


@equation("PartialFed", "reconstructed, temperature", rule="adaptive")
def temperature(t: int, warm: float, cold: float, rounds: int) -> float:
    """warm (cold / warm)^(t / rounds), t from 0; `cold` from round `rounds` on."""
    return warm * (cold / warm) ** min(1.0, t / rounds)


@equation("PartialFed", "reconstructed, Gumbel softmax", rule="adaptive")
def gumbel_gate(logits: Tensor, uniforms: Tensor, tau: float) -> Tensor:
    """softmax((logits - log(-log u)) / tau) over (global, own); logits, uniforms u in (0, 1) [.., 2].

    This is the soft value; a layer is loaded from the global model if the first part is 0.5 or more.
    """
    return ((logits - (-uniforms.log()).log()) / tau).softmax(-1)


class Parts:
    """The entries of a row that each gate decides about, on the row's device.

    gate [P + Q]: index of an entry's gate, 0 for padding; trained: trainable entries of each gate.
    """

    def __init__(self, L: Layout, device: torch.device) -> None:
        layers = list(L.layers(L.everything).values())
        gate = torch.zeros(L.size, dtype=torch.int64)
        for number, layer in enumerate(layers):
            gate[layer.at] = number
        self.gate = gate.to(device)
        self.trained = [(layer & L.trainable).to(device).at for layer in layers]

    def choose(self, C: Client, row: Tensor, from_global: Tensor) -> None:
        """Fill `row` [P + Q] from the received model where `from_global` [gates], else from the client's last
        one.
        """
        torch.where(from_global[self.gate], C.received, C.slot.last, out=row)


class PartialFed(Method):
    """FedAvg of all entries; with learned gates a client is evaluated with its own last model."""

    name = "partialfed"
    Params = Params

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        self._parts: Parts | None = None
        if self.hp.rule == "adaptive":
            gates = Slot("gates", lambda L, N: (len(L.layers(L.everything)), 2), "client")
            self.slots = (Slot("last", "model", "client", init="received"), gates)
            self.evaluates = "last"

    def local(self, L: Layout) -> Index:
        if self.hp.rule == "fix_bn_head":
            return L.kind("bn_affine", "bn_statistic") | L.under("head")
        layers = list(L.layers(L.everything).values())
        own = layers[-self.hp.top :] if self.hp.rule == "fix_top" else []
        return functools.reduce(operator.or_, own, L.nothing)

    def begin(self, C: Client) -> None:
        if self.hp.rule == "adaptive" and C.visits:
            self._parts = self._parts or Parts(C.layout, C.row.device)
            self._train_gates(C, self._parts)
            self._parts.choose(C, C.row, C.slot.gates[:, 0] >= C.slot.gates[:, 1])

    def end(self, C: Client) -> None:
        if self.hp.rule == "adaptive":
            C.slot.last.copy_(C.row)

    def _train_gates(self, C: Client, parts: Parts) -> None:
        """One epoch of the gates' logits, by straight-through gradients of mixed models."""
        tau = temperature(C.t, self.hp.warm, self.hp.cold, self.hp.rounds)
        mixed, logits = C.row.clone(), C.slot.gates
        network = C.net(mixed)
        network.model.eval()
        difference = (C.received - C.slot.last)[C.layout.W]
        for x, y in C.batches():
            uniforms = torch.rand(logits.shape, generator=C.rng).clamp_min(1e-12)
            with torch.enable_grad():
                leaf = logits.detach().requires_grad_()
                gate = gumbel_gate(leaf, uniforms.to(logits, non_blocking=True), tau)[:, 0]
            parts.choose(C, mixed, gate.detach() >= 0.5)
            network.backward(C.criterion(network.model(x).logits, y))
            slopes = [network.g[at] @ difference[at] for at in parts.trained]
            (slope,) = torch.autograd.grad(gate, leaf, torch.stack(slopes))
            logits.sub_(slope, alpha=self.hp.lr)
