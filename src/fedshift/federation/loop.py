"""The federated round: broadcast, local training, upload, aggregation, evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.federation.batches import participants
from fedshift.federation.evaluate import evaluate
from fedshift.federation.layout import Layout
from fedshift.federation.ledger import peak_memory_mb
from fedshift.federation.local import Client, Criterion, Turn
from fedshift.federation.method import Method
from fedshift.federation.network import Network, initial_row
from fedshift.federation.records import Records
from fedshift.federation.samples import ClientData, Samples, pooled
from fedshift.federation.selection import Selection
from fedshift.federation.state import Server, State
from fedshift.federation.transfer import Transfer
from fedshift.models.base import Model
from fedshift.spec import RunSpec

TARGET = -1


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy in fp32; logits [B, C], y [B]."""
    return F.cross_entropy(logits.float(), y)


@dataclass
class OpenRound:
    """What clients have left behind in the round under way: everything a resume between two clients needs."""

    rows: Tensor
    losses: Tensor
    done: int = 0
    messages: dict[str, list[Tensor]] = field(default_factory=dict)


class Federation:
    """A run in memory. `run()` yields after each client and each round: the places where the state is whole and may be saved."""

    def __init__(
        self, spec: RunSpec, method: Method, build: Callable[[], Model], samples: Samples, clients: list[ClientData], target: Tensor,
        device: torch.device, criterion: Criterion = cross_entropy, transfer: type[Transfer] = Transfer,
    ) -> None:  # fmt: skip
        self.spec, self.method, self.build, self.device = spec, method, build, device
        self.layout = Layout(build())
        self.held = clients
        self.clients = pooled(clients) if method.clients == "pooled" else clients
        self.samples = samples.to(device)
        self.train_index = [client.train.to(device) for client in self.clients]
        self._sets = [
            (k, split, client.split(split).to(device))
            for k, client in enumerate(clients)
            for split in ("val", "test")
        ]
        self._target = target.to(device)
        start = initial_row(build, self.layout, spec.seed).to(device)
        self.state = State(
            method, self.layout, start, len(self.clients), spec.evaluation.keep == "post_train"
        )
        self.server = Server(self.state, method, self._weights(start), spec.federation.rounds)
        self.transfer = transfer(method, self.state)
        persist = (method.optimizer_state or spec.local.optimizer_state) == "persist"
        batch_norm = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in build().modules())
        self.turn = Turn(spec, lambda: Network(build(), self.layout, device), criterion, persist, batch_norm)
        self.records = Records()
        self.round = 0
        self.open: OpenRound | None = None
        self.selection = Selection()

    def _weights(self, like: Tensor) -> Tensor:
        sizes = torch.tensor(
            [float(len(client.train)) for client in self.clients], dtype=like.dtype, device=like.device
        )
        return (
            torch.ones_like(sizes)
            if (self.method.weights or self.spec.federation.weights) == "uniform"
            else sizes
        )

    @property
    def keeps_own(self) -> bool:
        """Whether clients hold a model of their own: kept entries or a slot."""
        return self.state.kept.size > 0 or self.method.evaluates != "model"

    @property
    def shown(self) -> tuple[str, str]:
        """(model, stage) that selection and tables look at: a client's own after its training, else the aggregated one (C8)."""
        return ("personal", "post_train") if self.keeps_own else ("global", "post_agg")

    def run(self) -> Iterator[Literal["client", "round"]]:
        """Train to the last round, from wherever the state stands."""
        if self.round == 0 and self.open is None:
            self._evaluate_start()
        while self.round < self.spec.federation.rounds:
            yield from self._play()
            yield "round"

    def new_round(self, clients: int) -> OpenRound:
        """A round of which no client is done yet."""
        rows = torch.empty(clients, self.layout.size, dtype=self.layout.dtype, device=self.device)
        return OpenRound(rows, torch.zeros(clients, 2, dtype=torch.float64, device=self.device))

    def _play(self) -> Iterator[Literal["client"]]:
        began, t = time.perf_counter(), self.round
        active = participants(len(self.clients), self.spec.federation.participation, self.spec.seed, t)
        self.server.start_round(t, active)
        self.open = self.open or self.new_round(len(active))
        for position in range(self.open.done, len(active)):
            self._train(self.open, position, active[position])
            self.open.done += 1
            if self.open.done < len(active):
                yield "client"
        self._aggregate(self.open, active)
        self.open = None
        self.round += 1
        self.records.add(
            self.round,
            "machine",
            "",
            TARGET,
            "",
            {"seconds": time.perf_counter() - began, "peak_memory_mb": peak_memory_mb(self.device)},
        )

    def _train(self, open_round: OpenRound, position: int, k: int) -> None:
        row, index = open_round.rows[position], self.train_index[k]
        down = self.transfer.down(row, k)
        client = Client(k, self.round, len(index), self.state, self.method, row, down, self.turn)
        open_round.losses[position] = client.train(self.method, self.samples, index)
        messages = self.method.end(client) if client.steps else None
        self.state.visits[k] += 1
        if self._due(self.round + 1) and self.keeps_own:
            self._evaluate_own(k, row, self.round + 1)
        if self.state.trained is not None:
            self.state.trained[k] = row
        for name, value in self.transfer.up(row, k, messages).items():
            open_round.messages.setdefault(name, []).append(value)

    def _aggregate(self, open_round: OpenRound, active: list[int]) -> None:
        up = {name: torch.stack(values) for name, values in open_round.messages.items()}
        self.method.aggregate(self.server, open_round.rows, self.server.p, up)
        finished = self.round + 1
        for k, (loss, seen) in zip(active, open_round.losses.tolist(), strict=True):
            if seen:
                self.records.add(finished, "train", "", k, "train", {"loss": loss / seen}, n=int(seen))
        cost = {
            "bytes_down": self.transfer.bytes_down,
            "bytes_up": self.transfer.bytes_up,
            "images": sum(open_round.losses[:, 1].tolist()),
        }
        self.records.add(finished, "cost", "", TARGET, "", cost)
        self.transfer.bytes_down = self.transfer.bytes_up = 0
        if self._due(finished):
            self._evaluate_aggregated(finished)
            self._select(finished)

    # ---- evaluation

    def _due(self, finished: int) -> bool:
        return finished % self.spec.evaluation.every == 0 or finished == self.spec.federation.rounds

    def _evaluate_start(self) -> None:
        if self.keeps_own:
            for k in range(len(self.clients)):
                self._evaluate_own(k, self._own_row(k), 0)
        self._evaluate_aggregated(0)
        self._select(0)

    def _own_row(self, k: int) -> Tensor:
        row = self.state.row.clone()
        row[self.state.kept.at] = self.state.own[k]
        return row

    def _evaluate_own(self, k: int, row: Tensor, finished: int) -> None:
        slot = self.method.evaluates
        if slot != "model":
            row = self.state.slots[slot][k] if self.state.visits[k] else self.state.row
        sets = [one for one in self._sets if one[0] == k]
        self._score(finished, "post_train", "personal", row, sets)

    def _evaluate_aggregated(self, finished: int) -> None:
        if self.state.kept.size and self.state.shared.size:
            for k in range(len(self.clients)):
                self._score(
                    finished,
                    "post_agg",
                    "personal",
                    self._own_row(k),
                    [one for one in self._sets if one[0] == k],
                )
        target = [(TARGET, "target", self._target)]
        rows = (
            self.method.unseen(self.server)
            if len(self._target) or not self.state.kept.size
            else self.state.row[None][:0]
        )
        for m, row in enumerate(rows):
            sets = target if self.state.kept.size else [*self._sets, *target]
            self._score(finished, "post_agg", "global" if len(rows) == 1 else "personal", row, sets, m)

    def _score(
        self,
        finished: int,
        stage: str,
        model: str,
        row: Tensor,
        sets: list[tuple[int, str, Tensor]],
        m: int = 0,
    ) -> None:
        for one in evaluate(self.turn.networks[0], row, self.samples, sets, self.turn.precision):
            if (model, stage, one.split) == (*self.shown, "val"):
                self.selection.validation[one.client] = one.accuracy
            values = {"accuracy": one.accuracy, "loss": one.loss}
            self.records.add(finished, stage, model, one.client, one.split, values, row=m, n=one.n)

    # ---- kept weights

    def _select(self, finished: int) -> None:
        sizes = {k: len(client.train) for k, client in enumerate(self.held)}
        self.selection.consider(finished, sizes, self.weights())

    def weights(self) -> dict[str, Tensor]:
        """What `evaluation.keep` asks for: the shared row once, each client's own entries or slot; `post_train`: every client's trained row too."""
        if self.spec.evaluation.keep == "none":
            return {}
        kept = {"row": self.state.row}
        if self.state.kept.size:
            kept["own"] = self.state.own
        if self.method.evaluates != "model":
            kept[self.method.evaluates] = self.state.slots[self.method.evaluates]
        if self.state.trained is not None:
            kept["trained"] = self.state.trained
        return kept
