"""The federated round: broadcast, local training, upload, aggregation, evaluation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.aggregate import accumulate
from fedshift.federation.batches import participants, shuffled
from fedshift.federation.client import Client
from fedshift.federation.cost import peak_memory_mb
from fedshift.federation.diagnostics import Diagnostics
from fedshift.federation.evaluator import TARGET, Evaluator
from fedshift.federation.layout import Layout
from fedshift.federation.local import train
from fedshift.federation.method import Method
from fedshift.federation.network import initial
from fedshift.federation.precision import arithmetic
from fedshift.federation.progress import Messages, RoundProgress, gather
from fedshift.federation.records import Records, StatisticsTable
from fedshift.federation.rng import key
from fedshift.federation.samples import ClientData, Samples, pooled
from fedshift.federation.server import Server
from fedshift.federation.slots import TRAINED
from fedshift.federation.state import State
from fedshift.federation.transfer import Transfer
from fedshift.federation.worker import Criterion, Worker
from fedshift.models.base import Model
from fedshift.spec import RunSpec


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy in fp32; logits [B, C], y [B]."""
    return F.cross_entropy(logits.float(), y)


class Federation:
    """A run in memory. `run()` yields after each client and each round: the places where the state is whole
    and may be saved.

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
    progress: how far the round under way is; None between rounds.
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
        self.progress: RoundProgress | None = None

    def build(self) -> Model:
        """The network as the method wants it."""
        return self.method.model(self._build())

    def _weights(self, like: Tensor) -> Tensor:
        sizes = torch.tensor([len(client.train) for client in self.clients]).to(like)
        uniform = (self.method.weights or self.spec.federation.weights) == "uniform"
        return torch.ones_like(sizes) if uniform else sizes

    def run(self) -> Iterator[Literal["client", "round"]]:
        """Train to the last round, from wherever the state stands."""
        with arithmetic(self.spec.local.precision, self.device):
            if self.round == 0 and self.progress is None:
                self.evaluator.start()
            while self.round < self.spec.federation.rounds:
                yield from self._round()
                yield "round"

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run needs, nested by owner."""
        return {
            "round": self.round,
            **{name: owner.state_dict() for name, owner in self._owners.items()},
            **({} if self.progress is None else {"progress": self.progress.state_dict()}),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave, into a new Federation of the same run."""
        self.round = saved["round"]
        for name, owner in self._owners.items():
            owner.load_state_dict(saved.get(name, {}))
        if "progress" in saved:
            self.progress = self.new_round(saved["progress"]["clients"])
            self.progress.load_state_dict(saved["progress"])

    @property
    def _owners(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "server": self.server,
            "transfer": self.transfer,
            "passes": self.worker.passes,
            "selection": self.evaluator.selection,
            "diagnostics": self.diagnostics,
        }

    def new_round(self, clients: int) -> RoundProgress:
        """The progress of a round of `clients` clients of which none has trained yet."""
        held = 1 if self.method.averages or self.method.sequential else clients
        rows = torch.empty(held, self.layout.size, dtype=self.layout.dtype, device=self.device)
        return RoundProgress(rows, clients, self.diagnostics.width)

    def _round(self) -> Iterator[Literal["client"]]:
        """One round, from its first client or from where its progress stands."""
        began, t, seed = time.perf_counter(), self.round, self.spec.seed
        active = participants(len(self.clients), self.spec.federation.participation, seed, t)
        if self.method.sequential:
            active = shuffled(active, seed, t)
        self.server.start_round(t, active)
        self.progress = self.progress or self.new_round(len(active))
        if self.method.exchanges(t) and self.progress.exchanged is None:
            everybody = list(range(len(self.clients)))
            yield from self._exchange(self.progress, everybody if self.method.begins == "all" else active)
        for position in range(self.progress.done, len(active)):
            if self.method.sequential:
                self.server.start_round(t, active[position : position + 1])
            self._train(self.progress, position, active[position])
            if self.method.sequential:
                self._aggregate(self.progress.rows, self.server.p, self.progress)
            elif self.method.averages:
                row, weight = self.progress.row(position), self.server.p[position]
                self.progress.average = accumulate(self.progress.average, row, weight)
            self.progress.done += 1
            if self.progress.done < len(active):
                yield "client"
        self.evaluator.inactive(active, self.round + 1)
        if not self.method.sequential:
            average = self.progress.average  # a mean of one row of weight 1 is that row
            rows = self.progress.rows if average is None else average[None]
            self._aggregate(rows, self.server.p if average is None else rows.new_ones(1), self.progress)
        self._close(self.progress, active)
        self.progress = None
        seconds = time.perf_counter() - began
        memory = peak_memory_mb(self.device)
        measured = {"seconds": seconds, "peak_memory_mb": memory}
        self.records.add(self.round, "machine", "", TARGET, "", measured)

    def _source(self, k: int) -> Tensor:
        """What client k receives [P + Q]."""
        return self.method.broadcast(self.server, [k])[0] if self.method.generates else self.state.row

    def _exchange(self, progress: RoundProgress, clients: list[int]) -> Iterator[Literal["client"]]:
        """Let all `clients` begin before the first of them trains, and make of their messages what they
        get.
        """
        row, active = progress.rows[0], self.server.active  # every client receives anew before it trains
        for k in clients[progress.begun :]:
            self.transfer.down(row, k, self._source(k))
            recorded = progress.recorded[active.index(k)] if k in active else progress.recorded[0].clone()
            client = Client(self.worker, k, self.round, row, {}, recorded)
            gather(progress.first, self._first_messages(client))
            progress.begun += 1
            yield "client"
        up = self._together(progress.first)
        progress.exchanged = dict(self.method.exchange(self.server, up))

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

    def _train(self, progress: RoundProgress, position: int, k: int) -> None:
        """Send, train, test and receive client k, the round's `position`-th."""
        row, exchanged = progress.row(position), progress.exchanged
        self.transfer.down(row, k, self._source(k), again=exchanged is not None)
        place = k if self.method.begins == "all" else position
        own = {name: value[place] for name, value in (exchanged or {}).items()}
        down, recorded = self.transfer.down_slots(k, own), progress.recorded[position]
        client = Client(self.worker, k, self.round, row, down, recorded)
        messages = {} if exchanged is not None else self._first_messages(client)
        with self.worker.passes:
            progress.measured[position, :2] = train(client, self.method)
            messages |= self.transfer.up_messages(self.method.end(client))
        self.state.visits[k] += 1
        if TRAINED.name in self.state.slots:
            self.state.slots[TRAINED.name][k] = row
        self.evaluator.trained(k, row, self.round + 1)
        self.transfer.up(row, k)
        gather(progress.messages, messages)

    def _aggregate(self, rows: Tensor, p: Tensor, progress: RoundProgress) -> None:
        self.method.aggregate(self.server, rows, p, self._together(progress.messages))
        progress.messages.clear()
        if self.state.personal.size and not self.method.averages:
            for row, k in zip(rows, self.server.active, strict=True):
                self.state.receive(k, row)

    def _close(self, progress: RoundProgress, active: list[int]) -> None:
        """Record what the round's clients measured and what it cost, and test what the server holds."""
        self.round += 1
        measured = self.diagnostics.close(self.round, active, progress.measured)
        for k, (loss, seen, *recorded) in zip(sorted(active), measured, strict=True):
            if seen:
                self.records.add(self.round, "train", "", k, "train", {"loss": loss / seen}, n=int(seen))
            self.records.add(self.round, "diagnostic", "", k, "", self.diagnostics.scalars(recorded))
        transfer = self.transfer
        cost = {
            "bytes_down": transfer.bytes_down,
            "bytes_up": transfer.bytes_up,
            "images": sum(seen for _, seen, *_ in measured),
            **self.worker.passes.take(),
        }
        self.records.add(self.round, "cost", "", TARGET, "", cost)
        transfer.bytes_down = transfer.bytes_up = 0
        self.evaluator.aggregated(self.round)
