"""Everything that outlives a round: the global row, what each client keeps, the slots, the optimisers' memories, kept weights."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import torch
from torch import Tensor

from fedshift.federation.layout import Index, Layout
from fedshift.federation.method import Method, Slot


class State:
    """The persistent tensors of a run. `own` [N, |kept|] holds each client's personal and local entries."""

    def __init__(
        self, method: Method, layout: Layout, start: Tensor, clients: int, keep_trained: bool = False
    ) -> None:
        device = start.device
        self.layout, self.clients = layout, clients
        self.personal, self.local = method.personal(layout).to(device), method.local(layout).to(device)
        self.shared = (~(method.personal(layout) | method.local(layout))).to(device)
        self.kept = (method.personal(layout) | method.local(layout)).to(device)
        self.row = start.clone()
        self.own = start[self.kept.at].repeat(clients, 1)
        self.slots = {slot.name: self._slot(slot, start) for slot in method.slots}
        self.optimizers: dict[tuple[str, int], dict[str, Tensor]] = defaultdict(dict)
        self.visits = [0] * clients
        self.trained = start.repeat(clients, 1) if keep_trained else None

    def _slot(self, slot: Slot, start: Tensor) -> Tensor:
        size = self.layout.size if slot.like == "model" else self.layout.P
        if slot.owner == "server":
            return torch.zeros(size, dtype=start.dtype, device=start.device)
        return torch.zeros(self.clients, size, dtype=start.dtype, device=start.device)

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

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `tensors()` gave."""
        self.row.copy_(tensors["row"])
        self.own.copy_(tensors["own"])
        if self.trained is not None:
            self.trained.copy_(tensors["trained"])
        for name, slot in self.slots.items():
            slot.copy_(tensors[f"slot/{name}"])
        for name, tensor in tensors.items():
            kind, *rest = name.split("/")
            if kind == "optimizer":
                network, client, memory = rest
                self.optimizers[network, int(client)][memory] = tensor.to(self.row.device)


class Server:
    """What a method's server hooks see. `slot.<name>` are the server's slots; clients' slots never show here."""

    def __init__(self, state: State, method: Method, weights: Tensor, rounds: int) -> None:
        self._state, self._sizes = state, weights
        self.T, self.N = rounds, state.clients
        self.layout, self.shared, self.personal, self.local = (
            state.layout,
            state.shared,
            state.personal,
            state.local,
        )
        self.slot = SimpleNamespace(
            **{slot.name: state.slots[slot.name] for slot in method.slots if slot.owner == "server"}
        )
        self.t, self.active, self.p = 0, list(range(state.clients)), weights / weights.sum()
        self.peeked = 0

    @property
    def row(self) -> Tensor:
        """The global row [P + Q]; its personal and local entries are meaningless."""
        return self._state.row

    def start_round(self, t: int, active: list[int]) -> None:
        """Round t, from 0, with these clients; p [K] sums to 1 over them."""
        chosen = self._sizes[active]
        self.t, self.active, self.p = t, active, chosen / chosen.sum()

    def peek(self, index: Index) -> Tensor:
        """Kept entries of all clients [N, |index|]: a declared exception for analysis (unseen domains), counted in floats."""
        inside = index.mask[self._state.kept.mask].nonzero().flatten().to(self.row.device)
        self.peeked += self.N * index.size
        return self._state.own[:, inside]
