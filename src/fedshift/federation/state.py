"""Everything that outlives a round: the global row, what each client keeps, the slots, the optimisers' memories, kept weights."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import torch
from torch import Tensor

from fedshift.federation.layout import Index, Layout
from fedshift.federation.method import Method, Slot
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.rng import generator


class State:
    """The persistent tensors of a run. `own` [N, |kept|] holds each client's personal and local entries."""

    def __init__(
        self, method: Method, layout: Layout, start: Tensor, clients: int, seed: int, keep_trained: bool = False
    ) -> None:  # fmt: skip
        device = start.device
        self.layout, self.clients, self.seed = layout, clients, seed
        self.personal, self.local = method.personal(layout).to(device), method.local(layout).to(device)
        self.shared = (~(method.personal(layout) | method.local(layout))).to(device)
        self.kept = (method.personal(layout) | method.local(layout)).to(device)
        self._mixed = self.personal.mask[self.kept.mask].nonzero().flatten().to(device)
        self.row = start.clone()
        self.own = start[self.kept.at].repeat(clients, 1)
        self.slots = {slot.name: self._slot(slot, start) for slot in method.slots}
        self.optimizers: dict[tuple[str, int], dict[str, Tensor]] = defaultdict(dict)
        self.visits = [0] * clients
        self.trained = start.repeat(clients, 1) if keep_trained else None

    def _slot(self, slot: Slot, start: Tensor) -> Tensor:
        if callable(slot.init):
            drawn = slot.init(self.layout, self.clients, generator(self.seed, "slot", slot.name))
            return drawn.to(start.device)
        sizes = {"model": (self.layout.size,), "w": (self.layout.P,)}
        shape = slot.like(self.layout, self.clients) if callable(slot.like) else sizes[slot.like]
        each = (self.clients,) if slot.owner == "client" else ()
        return torch.zeros(*each, *shape, dtype=start.dtype, device=start.device)

    def tensors(self) -> dict[str, Tensor]:
        """All of it by name, for a checkpoint; shares memory with the state."""
        named = {"row": self.row, "own": self.own} | {
            f"slot/{name}": value for name, value in self.slots.items()
        }
        if self.trained is not None:
            named["trained"] = self.trained
        for (network, client), memory in self.optimizers.items():
            named |= {f"optimizer/{network}/{client}/{name}": value for name, value in memory.items()}
        return named

    def receive(self, client: int, row: Tensor) -> None:
        """Store the personal entries of a `row` that the server mixed: what this client gets next."""
        self.own[client, self._mixed] = row[self.personal.at]

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors()` gave."""
        self.row.copy_(tensors["row"])
        self.own.copy_(tensors["own"])
        if self.trained is not None:
            self.trained.copy_(tensors["trained"])
        for name, slot in self.slots.items():
            self.slots[name] = slot.resize_(tensors[f"slot/{name}"].shape).copy_(tensors[f"slot/{name}"])
        for name, tensor in tensors.items():
            kind, *rest = name.split("/")
            if kind == "optimizer":
                network, client, memory = rest
                self.optimizers[network, int(client)][memory] = tensor.to(self.row.device)


class Server:
    """What a method's server hooks see.

    t, T: the round from 0, all rounds; N: all clients; active: those of this round; p [K]: their weights, by the protocol or the method,
    which sum to 1; share [K]: the same as parts of the weights of all N clients;
    row: the global row; slot.<name>: the server's slots (clients' slots never show here); indicator: the weight that FedRD measures;
    rng: this round's generator, on the CPU.
    """

    def __init__(self, state: State, method: Method, weights: Tensor, rounds: int, indicator: Index) -> None:
        self._state, self._sizes = state, weights
        self.T, self.N, self.indicator = rounds, state.clients, indicator
        self.layout = state.layout
        self.shared, self.personal, self.local = state.shared, state.personal, state.local
        owned = [slot.name for slot in method.slots if slot.owner == "server"]
        self.slot = SimpleNamespace(**{name: state.slots[name] for name in owned})
        self.peeked = 0
        self.start_round(0, list(range(state.clients)))

    @property
    def row(self) -> Tensor:
        """The global row [P + Q]; its personal and local entries are meaningless."""
        return self._state.row

    def start_round(self, t: int, active: list[int]) -> None:
        """Round t with these clients."""
        chosen = self._sizes[active]
        self.t, self.active, self.p = t, active, chosen / chosen.sum()
        self.share = chosen / self._sizes.sum()
        self.rng = generator(self._state.seed, "server", t, *active)

    @property
    def trained(self) -> list[int]:
        """The clients that have taken part in a round so far; all of them before anybody has."""
        visited = [k for k, visits in enumerate(self._state.visits) if visits]
        return visited or list(range(self.N))

    def descend(self, name: str, g: Tensor, rule: Rule) -> None:
        """One optimiser step on the server's slot `name` along g, of its shape; the optimiser's memory is kept with the run."""
        w = getattr(self.slot, name)
        optimizer = Optimizer(rule, w, g, self._state.optimizers[f"server-{name}", 0])
        optimizer.clip()
        optimizer.step(rule.lr)

    def keep(self, name: str, value: Tensor) -> None:
        """Fill the server's slot `name` with a value of any shape."""
        slot: Tensor = getattr(self.slot, name)
        slot.resize_(value.shape).copy_(value)

    def peek(self, index: Index) -> Tensor:
        """Kept entries of all clients [N, |index|]: a declared exception for analysis (unseen domains), counted in floats."""
        inside = index.mask[self._state.kept.mask].nonzero().flatten().to(self.row.device)
        self.peeked += self.N * index.size
        return self._state.own[:, inside]
