"""The server as a method's hooks see it."""

import functools
from types import SimpleNamespace

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.federation.batches import generator
from fedshift.federation.layout import Index
from fedshift.federation.log import Log
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.state import State


class Server:
    """The server in a round.

    - t: the round, from 0
    - T: the number of rounds
    - N: the number of clients
    - active: the clients of this round
    - p: their weights by the protocol or the method [K], of sum 1
    - weights: weights of all clients [N]
    - row: the global row [P + Q]
    - slot: `S.slot.<name>` are the server's slots
    - layout: the entries of a row
    - shared, personal, local: the entries of each kind
    - rng: this round's generator, on the CPU
    - peeked: floats of private entries that analysis has read
    """

    def __init__(self, state: State, weights: Tensor, rounds: int, log: Log) -> None:
        self._state, self.weights, self._log = state, weights, log
        self.T, self.N = rounds, state.clients
        self.layout = state.layout
        self.shared, self.personal, self.local = state.shared, state.personal, state.local
        self.slot = SimpleNamespace(**state.server_slots())
        self.peeked = 0
        self._layers: dict[tuple[Index, str], dict[str, slice | Tensor]] = {}
        self.start_round(0, list(range(state.clients)))

    @property
    def row(self) -> Tensor:
        """The global row [P + Q]; its personal and local entries have no meaning."""
        return self._state.row

    def start_round(self, t: int, active: list[int]) -> None:
        """Start round t with these clients."""
        weights = self.weights[active]
        self.t, self.active, self.p = t, active, weights / weights.sum()
        self.rng = generator(self._state.seed, "server", t, *active)

    @property
    def trained(self) -> list[int]:
        """The clients that have taken part in a round so far, or all clients if none has."""
        visited = [k for k, visits in enumerate(self._state.visits) if visits]
        return visited or list(range(self.N))

    def descend(self, name: str, g: Tensor, rule: Rule) -> None:
        """One optimiser step on the server's slot `name` along g, of its shape, with a persistent memory."""
        w = getattr(self.slot, name)
        optimizer = Optimizer(rule, w, g, self._state.optimizers[f"server-{name}", 0])
        optimizer.clip()
        optimizer.step()

    def layers(self, index: Index, by: str = "layer") -> dict[str, slice | Tensor]:
        """Positions of the trainable entries of each layer in `index` (`S.shared`, `S.personal`).

        Returns name -> positions, in the order of the model. A layer is a convolution or linear map with its
        normalisation, or a module with `layer = True`. by "tensor": each tensor separately.
        """
        if (index, by) not in self._layers:
            parts = self.layout.layers(index & self.layout.trainable, by)
            self._layers[index, by] = {name: part.to(self.row.device).at for name, part in parts.items()}
        return self._layers[index, by]

    @functools.cached_property
    def buffers(self) -> slice | Tensor:
        """Positions of the shared buffers (statistics of normalisations) in a row."""
        return (self.shared & ~self.layout.trainable).to(self.row.device).at

    def shuffled(self) -> list[int]:
        """The round's clients in random order."""
        order = torch.randperm(len(self.active), generator=generator(self._state.seed, "order", self.t))
        return [self.active[i] for i in order.tolist()]

    def log(self, name: str, value: Tensor, axes: str = "K") -> None:
        """Save a small tensor of this round with the run.

        It stays on the device until the round ends; the last one of a name counts. Raises FedshiftError for a
        name that is not among the method's `logs`.

        axes: a word for each axis: "K" counts the round's clients, "N" all clients, any other word what it
            names
        """
        self._log.of_server(name, value, axes, self.active)

    def peek(self, index: Index) -> Tensor:
        """Private entries of all clients [N, |index|], for held-out domains only; counted in floats."""
        self.peeked += self.N * self._state.layout.floats(index)
        return self._state.own[:, self._state.within_private(index)]


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
    """Add weight times `row` [..] to a sum [..] in place, or start the sum if `total` is None."""
    return row * weight if total is None else total.addcmul_(row, weight)
