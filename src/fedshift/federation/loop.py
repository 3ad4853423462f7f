"""The federated round: broadcast, local training, upload, aggregation, evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.batches import key, participants, shuffled
from fedshift.federation.client import Client, Criterion, Worker
from fedshift.federation.cost import peak_memory_mb
from fedshift.federation.diagnostics import Diagnostics
from fedshift.federation.evaluator import TARGET, Evaluator
from fedshift.federation.layout import Layout, initial
from fedshift.federation.local import train
from fedshift.federation.method import Method
from fedshift.federation.precision import arithmetic
from fedshift.federation.records import Records, StatisticsTable
from fedshift.federation.samples import ClientData, Samples, pooled
from fedshift.federation.server import Server, accumulate
from fedshift.federation.state import TRAINED, State
from fedshift.federation.transfer import Transfer
from fedshift.models.base import Model
from fedshift.spec import RunSpec

Messages = dict[str, list[Tensor]]


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy in fp32; logits [B, C], y [B]."""
    return F.cross_entropy(logits.float(), y)


class Federation:
    """A run in memory. `run()` yields after each client and each round; between rounds the state may be
    saved.

    spec, method: what is run.
    device: where it is computed.
    evaluated_clients: who holds which samples; the models are tested on theirs.
    clients: who trains: these, or one that holds all their samples.
    layout: what a row holds.
    state: what outlives the round.
    server, worker, transfer: the server, what clients train with, and the only way between them.
    evaluator: tests the models and keeps the best weights.
    records, statistics: what was measured since it was last written.
    diagnostics: what the method may record, and has recorded.
    round: rounds finished.
    """

    def __init__(
        self,
        spec: RunSpec,
        method: Method,
        build: Callable[[], Model],
        samples: Samples,
        clients: list[ClientData],
        target: Tensor | list[Tensor],
        criterion: Criterion = cross_entropy,
        transfer: type[Transfer] = Transfer,
        start: Callable[[Layout, Tensor], Tensor] = lambda layout, row: row,
    ) -> None:
        """target: positions of the held-out domain's samples, or of each of several; start: the first row [P
        + Q], from the drawn one.
        """
        self.spec, self.method = spec, method
        self._build, self.device, self.evaluated_clients = build, samples.device, clients
        self.clients = pooled(clients) if method.clients == "pooled" else clients
        model, self.layout, row = initial(self.build, spec.seed, self.device)
        row = start(self.layout, row).to(self.device)
        slots = (*method.slots, *([TRAINED] if spec.evaluation.keep == "clients" else []))
        self.state = State(
            self.layout, row, len(self.clients), spec.seed, slots, method.personal(self.layout),
            method.local(self.layout),
        )  # fmt: skip
        indicator = self.layout.under(model.indicator).to(self.device)
        self.diagnostics = Diagnostics(method.name, method.diagnostics, self.layout, len(self.clients))
        self.server = Server(
            self.state, self._weights(row), spec.federation.rounds, indicator, self.diagnostics
        )
        self.transfer = transfer(method, self.state)
        self.worker = Worker(
            spec, self.state, samples, self.clients, model, self.build, criterion,
            diagnostics=self.diagnostics, own=method.own,
            persist=(method.optimizer_state or spec.local.optimizer_state) == "persist",
        )  # fmt: skip
        self.records, self.statistics = Records(), StatisticsTable()
        targets = [target] if isinstance(target, Tensor) else target
        self.evaluator = Evaluator(
            method, self.state, self.server, self.worker, self.records, self.statistics, clients, targets
        )
        self.round = 0

    def build(self) -> Model:
        """The network as the method wants it."""
        return self.method.model(self._build())

    def _weights(self, like: Tensor) -> Tensor:
        sizes = torch.tensor([len(client.train) for client in self.clients]).to(like)
        uniform = (self.method.weights or self.spec.federation.weights) == "uniform"
        return torch.ones_like(sizes) if uniform else sizes

    def run(self) -> Iterator[Literal["client", "round"]]:
        """Train to the last round, from the one after `round`."""
        with arithmetic(self.spec.local.precision, self.device):
            if self.round == 0:
                self.evaluator.start()
            while self.round < self.spec.federation.rounds:
                yield from self._round()
                yield "round"

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run needs between two rounds, nested by owner."""
        return {"round": self.round, **{name: owner.state_dict() for name, owner in self._owners.items()}}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave, into a new Federation of the same run."""
        self.round = saved["round"]
        for name, owner in self._owners.items():
            owner.load_state_dict(saved.get(name, {}))

    @property
    def _owners(self) -> dict[str, Any]:
        return {"state": self.state, "server": self.server, "selection": self.evaluator.selection}

    def _round(self) -> Iterator[Literal["client"]]:
        """One round."""
        began, t, seed = time.perf_counter(), self.round, self.spec.seed
        active = participants(len(self.clients), self.spec.federation.participation, seed, t)
        if self.method.sequential:
            active = shuffled(active, seed, t)
        self.server.start_round(t, active)
        held = 1 if self.method.averages or self.method.sequential else len(active)
        rows = torch.empty(held, self.layout.size, dtype=self.layout.dtype, device=self.device)
        measured = rows.new_zeros(len(active), 2 + self.diagnostics.width, dtype=torch.float64)
        recorded = dict(zip(active, measured[:, 2:].fill_(torch.nan), strict=True))
        exchanged = self._exchange(rows[0], recorded) if self.method.exchanges(t) else {}
        messages: Messages = {}
        average: Tensor | None = None
        for position, k in enumerate(active):
            row = rows[position % held]
            if self.method.sequential:
                self.server.start_round(t, [k])
            _gather(messages, self._train(row, k, measured[position], exchanged.get(k)))
            if self.method.sequential:
                self._aggregate(rows, self.server.p, messages)
            elif self.method.averages:
                average = accumulate(average, row, self.server.p[position])
            if position + 1 < len(active):
                yield "client"
        self.evaluator.inactive(active, self.round + 1)
        if average is not None:  # a mean of one row of weight 1 is that row
            self._aggregate(average[None], rows.new_ones(1), messages)
        elif not self.method.sequential:
            self._aggregate(rows, self.server.p, messages)
        self._close(active, measured)
        seconds = time.perf_counter() - began
        memory = peak_memory_mb(self.device)
        machine = {"seconds": seconds, "peak_memory_mb": memory}
        self.records.add(self.round, "machine", "", TARGET, "", machine)

    def _source(self, k: int) -> Tensor:
        """What client k receives [P + Q]."""
        return self.method.broadcast(self.server, [k])[0] if self.method.generates else self.state.row

    def _exchange(self, row: Tensor, recorded: Mapping[int, Tensor]) -> dict[int, dict[str, Tensor]]:
        """Let clients begin before the first of them trains, and make of their messages what each gets.

        row [P + Q]: for one after the other; each receives again before it trains. recorded: client of the
        round -> where it writes its diagnostics.
        """
        clients = range(len(self.clients)) if self.method.begins == "all" else [*recorded]
        nowhere = row.new_empty(self.diagnostics.width, dtype=torch.float64)
        first: Messages = {}
        for k in clients:
            self.transfer.down(row, k, self._source(k))
            client = Client(self.worker, k, self.round, row, {}, recorded.get(k, nowhere))
            _gather(first, self._first_messages(client))
        exchanged = dict(self.method.exchange(self.server, self._together(first)))
        return {k: {name: value[i] for name, value in exchanged.items()} for i, k in enumerate(clients)}

    def _together(self, messages: Messages) -> dict[str, Tensor]:
        joined = {message.name for message in self.method.messages if message.joined}
        return {
            name: torch.cat(values) if name in joined else torch.stack(values)
            for name, values in messages.items()
        }

    def _first_messages(self, client: Client) -> dict[str, Tensor]:
        """What the client sends before its first step, drawn by a generator of its own."""
        torch.manual_seed(key(self.spec.seed, "begin", self.round, client.k))
        client.model.train()
        with self.worker.passes, self.worker.precision():
            return self.transfer.up_messages(self.method.begin(client))

    def _train(
        self, row: Tensor, k: int, measured: Tensor, exchanged: Mapping[str, Tensor] | None
    ) -> dict[str, Tensor]:
        """Send client k its model, train it in `row` [P + Q], test and receive it; return its messages.

        measured [2 + D]: for the sum of its losses, the samples seen and its diagnostics. exchanged: what the
        round's exchange gave it; None without one.
        """
        self.transfer.down(row, k, self._source(k), again=exchanged is not None)
        down = self.transfer.down_slots(k, exchanged or {})
        client = Client(self.worker, k, self.round, row, down, measured[2:])
        messages = self._first_messages(client) if exchanged is None else {}
        with self.worker.passes:
            measured[:2] = train(client, self.method)
            messages |= self.transfer.up_messages(self.method.end(client))
        self.state.visits[k] += 1
        if TRAINED.name in self.state.slots:
            self.state.slots[TRAINED.name][k] = row
        self.evaluator.trained(k, row, self.round + 1)
        self.transfer.up(row, k)
        return messages

    def _aggregate(self, rows: Tensor, p: Tensor, messages: Messages) -> None:
        self.method.aggregate(self.server, rows, p, self._together(messages))
        messages.clear()
        if self.state.personal.size and not self.method.averages:
            for row, k in zip(rows, self.server.active, strict=True):
                self.state.receive(k, row)

    def _close(self, active: list[int], measured: Tensor) -> None:
        """Record what the round's clients measured [K, 2 + D] and what it cost, and test what the server
        holds.
        """
        self.round += 1
        numbers = self.diagnostics.close(self.round, active, measured)
        for k, (loss, seen, *recorded) in zip(sorted(active), numbers, strict=True):
            if seen:
                self.records.add(self.round, "train", "", k, "train", {"loss": loss / seen}, n=int(seen))
            self.records.add(self.round, "diagnostic", "", k, "", self.diagnostics.scalars(recorded))
        transfer = self.transfer
        cost = {
            "bytes_down": transfer.bytes_down,
            "bytes_up": transfer.bytes_up,
            "images": sum(seen for _, seen, *_ in numbers),
            **self.worker.passes.take(),
        }
        self.records.add(self.round, "cost", "", TARGET, "", cost)
        transfer.bytes_down = transfer.bytes_up = 0
        self.evaluator.aggregated(self.round)


def _gather(messages: Messages, sent: Mapping[str, Tensor]) -> None:
    """Put one client's messages behind those of the clients before it."""
    for name, value in sent.items():
        messages.setdefault(name, []).append(value)
