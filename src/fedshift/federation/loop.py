"""The federated round: broadcast, local training, upload, aggregation, evaluation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.batches import participants, shuffled
from fedshift.federation.evaluator import TARGET, Evaluator
from fedshift.federation.layout import Layout
from fedshift.federation.ledger import peak_memory_mb
from fedshift.federation.local import Client
from fedshift.federation.method import Method
from fedshift.federation.network import begin
from fedshift.federation.precision import arithmetic
from fedshift.federation.records import Records, StatisticsTable
from fedshift.federation.rng import key
from fedshift.federation.samples import ClientData, Samples, pooled
from fedshift.federation.state import Server, State
from fedshift.federation.transfer import Transfer
from fedshift.federation.turn import Criterion, Turn
from fedshift.models.base import Model
from fedshift.spec import RunSpec


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy in fp32; logits [B, C], y [B]."""
    return F.cross_entropy(logits.float(), y)


@dataclass
class OpenRound:
    """What clients have left behind in the round under way: everything a resume between two clients needs.

    done: clients that have trained; begun: clients that have begun, where all do before the first trains; first: their messages;
    exchanged: what `exchange` gave, None before it; measured: of each client the sum of its losses, the samples it has seen, and the
    method's diagnostics, NaN where it has recorded none.
    """

    rows: Tensor
    measured: Tensor
    done: int = 0
    messages: dict[str, list[Tensor]] = field(default_factory=dict)
    begun: int = 0
    first: dict[str, list[Tensor]] = field(default_factory=dict)
    exchanged: dict[str, Tensor] | None = None


class Federation:
    """A run in memory. `run()` yields after each client and each round: the places where the state is whole and may be saved.

    clients: who holds which samples; target: the samples of the held-out domain, or of each of several; start: the first row [P + Q], where it is not drawn.
    """

    def __init__(
        self, spec: RunSpec, method: Method, build: Callable[[], Model], samples: Samples, clients: list[ClientData],
        target: Tensor | list[Tensor], criterion: Criterion = cross_entropy, transfer: type[Transfer] = Transfer,
        start: Callable[[Layout, Tensor], Tensor] = lambda layout, row: row,
    ) -> None:  # fmt: skip
        self.spec, self.method = spec, method
        self._build, self.device, self.evaluated_clients = build, samples.device, clients
        self.clients = pooled(clients) if method.clients == "pooled" else clients
        model, self.layout, row = begin(self.build, spec.seed)
        row = start(self.layout, row).to(self.device)
        keep_trained = spec.evaluation.keep == "post_train"
        self.state = State(method, self.layout, row, len(self.clients), spec.seed, keep_trained)
        indicator = self.layout.under(model.indicator).to(self.device)
        self.server = Server(self.state, method, self._weights(row), spec.federation.rounds, indicator)
        self.transfer = transfer(method, self.state)
        self.turn = Turn(spec, method, self.state, samples, self.clients, model, self.build, criterion)
        self.records, self.statistics = Records(), StatisticsTable()
        targets = [target] if isinstance(target, Tensor) else target
        self.evaluator = Evaluator(
            self.state, self.server, self.turn, self.records, self.statistics, clients, targets
        )
        self.round = 0
        self.open: OpenRound | None = None

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
            if self.round == 0 and self.open is None:
                self.evaluator.start()
            while self.round < self.spec.federation.rounds:
                yield from self._play()
                yield "round"

    def new_round(self, clients: int) -> OpenRound:
        """A round of which no client is done yet."""
        rows = torch.empty(clients, self.layout.size, dtype=self.layout.dtype, device=self.device)
        measured = torch.zeros(
            clients, 2 + len(self.method.diagnostics), dtype=torch.float64, device=self.device
        )
        return OpenRound(rows, measured)

    def _play(self) -> Iterator[Literal["client"]]:
        began, t, seed = time.perf_counter(), self.round, self.spec.seed
        active = participants(len(self.clients), self.spec.federation.participation, seed, t)
        if self.method.sequential:
            active = shuffled(active, seed, t)
        self.server.start_round(t, active)
        self.open = self.open or self.new_round(len(active))
        if self.method.exchanges(t) and self.open.exchanged is None:
            everybody = list(range(len(self.clients)))
            yield from self._begin(self.open, everybody if self.method.begins == "all" else active)
        for position in range(self.open.done, len(active)):
            if self.method.sequential:
                self.server.start_round(t, active[position : position + 1])
            self._train(self.open, position, active[position])
            if self.method.sequential:
                self._aggregate(self.open, slice(position, position + 1))
            self.open.done += 1
            if self.open.done < len(active):
                yield "client"
        self.evaluator.inactive(active, self.round + 1)
        if not self.method.sequential:
            self._aggregate(self.open, slice(0, len(active)))
        self._close(self.open, active)
        self.open = None
        seconds = time.perf_counter() - began
        memory = peak_memory_mb(self.device)
        measured = {"seconds": seconds, "peak_memory_mb": memory}
        self.records.add(self.round, "machine", "", TARGET, "", measured)

    def _source(self, k: int) -> Tensor:
        """What client k receives [P + Q]."""
        return self.method.broadcast(self.server, [k])[0] if self.method.generates else self.state.row

    def _begin(self, open_round: OpenRound, beginning: list[int]) -> Iterator[Literal["client"]]:
        row = open_round.rows[0]  # every client receives anew before it trains
        for k in beginning[open_round.begun :]:
            self.transfer.down(row, k, self._source(k))
            client = Client(self.turn, k, self.round, row, {})
            _gather(open_round.first, self._begun(client))
            open_round.begun += 1
            yield "client"
        up = self._together(open_round.first)
        open_round.exchanged = dict(self.method.exchange(self.server, up))

    def _together(self, messages: dict[str, list[Tensor]]) -> dict[str, Tensor]:
        joined = {message.name for message in self.method.messages if message.joined}
        return {
            name: torch.cat(values) if name in joined else torch.stack(values)
            for name, values in messages.items()
        }

    def _begun(self, client: Client) -> dict[str, Tensor]:
        torch.manual_seed(key(self.spec.seed, "begin", self.round, client.k))
        client.model.train()
        with self.turn.passes, self.turn.precision():
            return self.transfer.up_messages(self.method.begin(client))

    def _train(self, open_round: OpenRound, position: int, k: int) -> None:
        row, exchanged = open_round.rows[position], open_round.exchanged
        self.transfer.down(row, k, self._source(k), again=exchanged is not None)
        place = k if self.method.begins == "all" else position
        own = {name: value[place] for name, value in (exchanged or {}).items()}
        client = Client(self.turn, k, self.round, row, self.transfer.down_slots(k, own))
        messages = {} if exchanged is not None else self._begun(client)
        with self.turn.passes:
            open_round.measured[position] = torch.cat([client.train(), client.diagnostics()])
            messages |= self.transfer.up_messages(self.method.end(client))
        self.state.visits[k] += 1
        self.evaluator.trained(k, row, self.round + 1)
        if self.state.trained is not None:
            self.state.trained[k] = row
        self.transfer.up(row, k)
        _gather(open_round.messages, messages)

    def _aggregate(self, open_round: OpenRound, chosen: slice) -> None:
        rows = open_round.rows[chosen]
        self.method.aggregate(self.server, rows, self.server.p, self._together(open_round.messages))
        open_round.messages.clear()
        if self.state.personal.size:
            for row, k in zip(rows, self.server.active, strict=True):
                self.state.receive(k, row)

    def _close(self, open_round: OpenRound, active: list[int]) -> None:
        self.round += 1
        measured = open_round.measured.tolist()
        for k, (loss, seen, *values) in sorted(zip(active, measured, strict=True)):
            if seen:
                self.records.add(self.round, "train", "", k, "train", {"loss": loss / seen}, n=int(seen))
            found = zip(self.method.diagnostics, values, strict=True)
            recorded = {name: value for name, value in found if not math.isnan(value)}
            self.records.add(self.round, "diagnostic", "", k, "", recorded)
        transfer = self.transfer
        cost = {
            "bytes_down": transfer.bytes_down,
            "bytes_up": transfer.bytes_up,
            "images": sum(seen for _, seen, *_ in measured),
            **self.turn.passes.take(),
        }
        self.records.add(self.round, "cost", "", TARGET, "", cost)
        transfer.bytes_down = transfer.bytes_up = 0
        self.evaluator.aggregated(self.round)


def _gather(messages: dict[str, list[Tensor]], sent: dict[str, Tensor]) -> None:
    for name, value in sent.items():
        messages.setdefault(name, []).append(value)
