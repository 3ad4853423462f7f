"""All that outlives a round: the global row, private entries, slots, optimisers' memories."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift.federation.batches import generator
from fedshift.federation.layout import Index, Layout


@dataclass(frozen=True)
class Slot:
    """A tensor that outlives the round, in addition to the model.

    Hooks reach it as `S.slot.<name>` on the server and `C.slot.<name>` at a client.

    - name: its name
    - like: "model" [P + Q], "w" [P], or a function of the layout and the number of clients N that returns the
      shape
    - owner: one for the server, or one for each client
    - travels: a server slot with "down" reaches the clients as `C.down.<name>` in every round; with "once" on
      their first visit, and they store it
    - init: zeros, the row that the client receives on its first visit, or a function of layout, N and a
      seeded generator that returns the server's tensor
    - saved: whether a server slot is written with the weights of a run whose `evaluation.keep` is "slots"
    """

    name: str
    like: Literal["model", "w"] | Shape
    owner: Literal["server", "client"]
    travels: Literal["", "down", "once"] = ""
    init: Literal["zeros", "received"] | Draw = "zeros"
    saved: bool = False

    def __post_init__(self) -> None:
        if self.owner == "server" and self.init == "received":
            raise ValueError(f"slot '{self.name}' of the server starts from what no client has sent it")


TRAINED = Slot("trained", "model", "client")  # where `evaluation.keep` is "clients": models after training


class State:
    """The persistent tensors of a run with `clients` clients, N; layout: the entries of a row.

    Entries:

    - personal: entries of which every client has its own, and which travel
    - local: entries of which every client has its own, and which never leave it
    - private: both of these
    - shared: all others
    - travelling: number of floats of a row that travel, one way

    Tensors:

    - row: the global row [P + Q], of which only the shared entries have a meaning
    - own: private entries of the clients [N, |private|]
    - slots: name -> tensor, with a first axis over clients if these own it
    - optimizers: (role of a network, client) -> an optimiser's memory
    - visits: rounds each client trained in
    """

    def __init__(
        self, layout: Layout, start: Tensor, clients: int, seed: int, slots: Sequence[Slot] = (),
        personal: Index | None = None, local: Index | None = None,
    ) -> None:  # fmt: skip
        device = start.device
        personal, local = personal or layout.nothing, local or layout.nothing
        self.layout, self.clients, self.seed = layout, clients, seed
        self.personal, self.local = personal.to(device), local.to(device)
        self.private = (personal | local).to(device)
        self.shared = (~(personal | local)).to(device)
        self.travelling = layout.floats(~local)
        self.row = start.clone()
        self._mixed = self.within_private(personal)
        self.own = start[self.private.at].repeat(clients, 1)
        self._declared = tuple(slots)
        self.slots = {slot.name: self._slot(slot, start) for slot in slots}
        self.optimizers: dict[tuple[str, int], dict[str, Tensor]] = defaultdict(dict)
        self.visits = [0] * clients

    def _slot(self, slot: Slot, start: Tensor) -> Tensor:
        if callable(slot.init):
            drawn = slot.init(self.layout, self.clients, generator(self.seed, "slot", slot.name))
            return drawn.to(start.device)
        sizes = {"model": (self.layout.size,), "w": (self.layout.P,)}
        shape = slot.like(self.layout, self.clients) if callable(slot.like) else sizes[slot.like]
        axis = (self.clients,) if slot.owner == "client" else ()
        return torch.zeros(*axis, *shape, dtype=start.dtype, device=start.device)

    def receive(self, client: int, row: Tensor) -> None:
        """Store the personal entries of a `row` that the server mixed; the client receives them next."""
        self.own[client, self._mixed] = row[self.personal.at]

    def private_row(self, client: int) -> Tensor:
        """A copy of the global row [P + Q] with the client's private entries."""
        row = self.row.clone()
        row[self.private.at] = self.own[client]
        return row

    def within_private(self, index: Index) -> Tensor:
        """Positions of the private entries of `index` in a row of `own`."""
        return index.mask[self.private.mask].nonzero().flatten().to(self.row.device)

    def server_slots(self) -> dict[str, Tensor]:
        """The server's slots by name."""
        return {slot.name: self.slots[slot.name] for slot in self._declared if slot.owner == "server"}

    def client_slots(self, client: int, row: Tensor) -> dict[str, Tensor]:
        """The client's slots by name; on its first visit those with init "received" are filled from `row`."""
        owned = {slot.name: slot for slot in self._declared if slot.owner == "client"}
        tensors = {name: self.slots[name][client] for name in owned}
        if not self.visits[client]:
            for name, slot in owned.items():
                if slot.init == "received":
                    tensors[name].copy_(row[: tensors[name].numel()])
        return tensors

    def state_dict(self) -> dict[str, Any]:
        """All tensors, nested by name; they share memory with the state."""
        memories: dict[str, dict[str, dict[str, Tensor]]] = {}
        for (role, client), memory in self.optimizers.items():
            memories.setdefault(role, {})[str(client)] = dict(memory)
        tensors = {"row": self.row, "own": self.own, "slots": self.slots, "optimizers": memories}
        return {**tensors, "visits": list(self.visits)}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore a `state_dict` in place, so that views of hooks remain valid."""
        self.row.copy_(saved["row"])
        self.own.copy_(saved["own"])
        for name, slot in self.slots.items():
            slot.resize_(saved["slots"][name].shape).copy_(saved["slots"][name])
        for role, clients in saved.get("optimizers", {}).items():
            for client, memory in clients.items():
                entries = {name: tensor.to(self.row.device) for name, tensor in memory.items()}
                self.optimizers[role, int(client)].update(entries)
        self.visits[:] = saved["visits"]


Shape = Callable[[Layout, int], tuple[int, ...]]
Draw = Callable[[Layout, int, torch.Generator], Tensor]
