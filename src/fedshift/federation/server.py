"""What a method's server hooks see."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from torch import Tensor

from fedshift.common.equations import equation
from fedshift.federation.batches import generator
from fedshift.federation.diagnostics import Diagnostics
from fedshift.federation.layout import Index
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.state import State


class Server:
    """The server in a round.

    t: the round, from 0.
    T: the number of rounds.
    N: the number of clients.
    active: the clients of this round.
    p: their weights by the protocol or the method [K], which sum to 1.
    share: the same as parts of the weights of all N clients [K].
    row: the global row [P + Q].
    slot: `S.slot.<name>` are the server's slots; clients' slots never show here.
    layout: what a row holds; shared, personal, local: which entries of it are whose.
    indicator: the weight whose drift FedRD measures.
    rng: this round's generator, on the CPU.
    peeked: floats of clients' private entries that analysis has read.
    """

    def __init__(
        self, state: State, weights: Tensor, rounds: int, indicator: Index, diagnostics: Diagnostics
    ) -> None:
        self._state, self._weights, self._diagnostics = state, weights, diagnostics
        self.T, self.N, self.indicator = rounds, state.clients, indicator
        self.layout = state.layout
        self.shared, self.personal, self.local = state.shared, state.personal, state.local
        self.slot = SimpleNamespace(**state.server_slots())
        self.peeked = 0
        self.start_round(0, list(range(state.clients)))

    @property
    def row(self) -> Tensor:
        """The global row [P + Q]; its personal and local entries are meaningless."""
        return self._state.row

    def start_round(self, t: int, active: list[int]) -> None:
        """Round t with these clients."""
        weights = self._weights[active]
        self.t, self.active, self.p = t, active, weights / weights.sum()
        self.share = weights / self._weights.sum()
        self.rng = generator(self._state.seed, "server", t, *active)

    @property
    def trained(self) -> list[int]:
        """The clients that have taken part in a round so far; all of them before anybody has."""
        visited = [k for k, visits in enumerate(self._state.visits) if visits]
        return visited or list(range(self.N))

    def descend(self, name: str, g: Tensor, rule: Rule) -> None:
        """One optimiser step on the server's slot `name` along g, of its shape; the optimiser's memory is
        kept with the run.
        """
        w = getattr(self.slot, name)
        optimizer = Optimizer(rule, w, g, self._state.optimizers[f"server-{name}", 0])
        optimizer.clip()
        optimizer.step(rule.lr)

    def keep(self, name: str, value: Tensor) -> None:
        """Fill the server's slot `name` with a value of any shape."""
        slot: Tensor = getattr(self.slot, name)
        slot.resize_(value.shape).copy_(value)

    def record(self, name: str, value: Tensor) -> None:
        """Keep a tensor of this round with the run; it stays where it is until the round ends, and the last
        one counts.

        Raises FedshiftError for what is none of the method's `diagnostics` of the server.
        """
        self._diagnostics.by_server(name, value, self.active)

    def peek(self, index: Index) -> Tensor:
        """Private entries of all clients [N, |index|]: a declared exception for analysis (unseen domains),
        counted in floats.
        """
        self.peeked += self.N * self._state.layout.floats(index)
        return self._state.own[:, self._state.within_private(index)]

    def state_dict(self) -> dict[str, Any]:
        """What was counted; the rest follows from the state and the round."""
        return {"peeked": self.peeked}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.peeked = saved["peeked"]


@equation("FedAvg", "Algorithm 1, server")
def mean(rows: Tensor, p: Tensor) -> Tensor:
    """sum_k p[k] rows[k], added in client order in the rows' own precision; rows [K, ..], p [K], result [..].

    Exact for one row of weight 1, so that a federation of one client equals that client bit for bit.
    """
    total = accumulate(None, rows[0], p[0])
    for row, weight in zip(rows[1:], p[1:], strict=True):
        total = accumulate(total, row, weight)
    return total


def accumulate(total: Tensor | None, row: Tensor, weight: Tensor) -> Tensor:
    """`mean`, row by row as they come: what it is so far [..], None before the first, with one `row` [..]
    more, in place.
    """
    return row * weight if total is None else total.addcmul_(row, weight)
