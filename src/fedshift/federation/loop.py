"""The federated round: broadcast, local training, upload, aggregation, evaluation."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.batches import key, participants
from fedshift.federation.client import Client, Criterion, Worker
from fedshift.federation.cost import peak_memory_mb
from fedshift.federation.evaluator import TARGET, Evaluator
from fedshift.federation.graph import side_stream
from fedshift.federation.layout import Layout, initial
from fedshift.federation.local import train
from fedshift.federation.log import Log
from fedshift.federation.method import Method
from fedshift.federation.precision import arithmetic
from fedshift.federation.records import Records, StatisticsTable
from fedshift.federation.samples import ClientData, Samples, pooled
from fedshift.federation.server import Server, accumulate
from fedshift.federation.state import TRAINED, State
from fedshift.models.base import Model
from fedshift.spec import RunSpec

Hook = Callable[[Client], Mapping[str, Tensor] | None]
Uploads = dict[str, list[Tensor]]


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy in fp32; logits [B, C], y [B]."""
    return F.cross_entropy(logits.float(), y)


class Transfer:
    """Moves rows, slots and messages between server and clients; counts `bytes_down` and `bytes_up`."""

    def __init__(self, method: Method, state: State) -> None:
        self._method, self._state = method, state
        self.bytes_down = self.bytes_up = 0

    def down(self, row: Tensor, client: int, source: Tensor, again: bool = False) -> None:
        """Write to `row` what `client` has after receiving `source` [P + Q]; again: uncounted."""
        state = self._state
        row[state.shared.at] = source[state.shared.at]
        row[state.private.at] = state.own[client]
        if not again:
            self.bytes_down += state.travelling * row.element_size()

    def messages_down(self, client: int, messages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The server's travelling slots and the messages for one client, as `client` receives them."""
        slots = [slot for slot in self._method.slots if slot.travels]
        has = {slot.name for slot in slots if slot.travels == "once" and self._state.visits[client]}
        got = {slot.name: self._state.slots[slot.name] for slot in slots} | _detached(messages)
        self.bytes_down += sum(value.nbytes for name, value in got.items() if name not in has)
        return got

    def up(self, row: Tensor, client: int) -> None:
        """Save the client's private entries; local ones become NaN in the `row` that the server reads."""
        state = self._state
        state.own[client] = row[state.private.at]
        row[state.local.at] = torch.nan
        self.bytes_up += state.travelling * row.element_size()

    def messages_up(self, messages: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """The messages of a client, in addition to its model."""
        sent = _detached(messages or {})
        self.bytes_up += sum(value.nbytes for value in sent.values())
        return sent


def _detached(messages: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in messages.items()}


class Federation:
    """A run in memory. `run()` yields after each round, when the state may be saved.

    - evaluated_clients: samples of each client
    - clients: those that train: the same, or one that holds all samples
    - layout: entries of a row
    - state: tensors that outlive the round
    - worker: networks and data that clients train with
    - transfer: the only connection between them and the server
    - evaluator: tests the models and saves the best weights
    - records, statistics, log: measurements since they were last written
    - on_client: called whenever a client has trained
    - round: number of finished rounds
    """

    def __init__(
        self, spec: RunSpec, method: Method, build: Callable[[], Model], samples: Samples,
        clients: list[ClientData], target: Tensor | list[Tensor], criterion: Criterion = cross_entropy,
        transfer: type[Transfer] = Transfer,
        start: Callable[[Layout, Tensor], Tensor] = lambda layout, row: row,
    ) -> None:  # fmt: skip
        """target: positions of the held-out domains' samples; start: changes the initial row [P + Q]."""
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
        self.log = Log(method.name, method.logs, len(self.clients))
        self.server = Server(self.state, self._weights(row), spec.federation.rounds, self.log)
        self.transfer = transfer(method, self.state)
        self.worker = Worker(
            spec, self.state, samples, self.clients, model, self.build, criterion,
            log=self.log, param_groups=method.param_groups,
            persist=(method.optimizer_state or spec.local.optimizer_state) == "persist",
        )  # fmt: skip
        self.records, self.statistics = Records(), StatisticsTable()
        targets = [target] if isinstance(target, Tensor) else target
        self.evaluator = Evaluator(
            method, self.state, self.server, self.worker, self.records, self.statistics, clients, targets
        )
        self.round = 0
        self.on_client: Callable[[], object] = lambda: None
        self._visited: set[int] = set()
        self._downloads: dict[int, dict[str, Tensor]] = {}

    def build(self) -> Model:
        """The network, as changed by the method."""
        return self.method.model(self._build())

    def _weights(self, like: Tensor) -> Tensor:
        sizes = torch.tensor([len(client.train) for client in self.clients]).to(like)
        uniform = (self.method.weights or self.spec.federation.weights) == "uniform"
        return torch.ones_like(sizes) if uniform else sizes

    def run(self) -> Iterator[int]:
        """Train from the round after `round` to the last; yields the number of finished rounds after each."""
        aside = side_stream(self.device, self.worker.graph is not None)
        with arithmetic(self.spec.local.precision, self.device), aside:
            if self.round == 0:
                self.evaluator.inactive(range(len(self.clients)), 0)
                self.evaluator.aggregated(0)
            while self.round < self.spec.federation.rounds:
                self._round()
                yield self.round

    def state_dict(self) -> dict[str, Any]:
        """Everything that the rest of the run needs between two rounds, nested by owner."""
        owned = {"state": self.state.state_dict(), "selection": self.evaluator.selection.state_dict()}
        return {"round": self.round, "server": {"peeked": self.server.peeked}, **owned}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore a `state_dict` into a new Federation of the same run."""
        self.round, self.server.peeked = saved["round"], saved["server"]["peeked"]
        self.state.load_state_dict(saved["state"])
        self.evaluator.selection.load_state_dict(saved.get("selection", {}))

    def _round(self) -> None:
        """One round: setup, local training and aggregation, evaluation, costs."""
        began, t = time.perf_counter(), self.round
        active = participants(len(self.clients), self.spec.federation.participation, self.spec.seed, t)
        self.server.start_round(t, active)
        self._visited.clear()
        self._downloads.clear()
        for name, values in self.method.setup(self.server, self._visit).items():
            for k, value in zip(active, values, strict=True):
                self._downloads.setdefault(k, {})[name] = value
        self._losses = torch.zeros(len(self.clients), 2, dtype=torch.float64, device=self.device)
        self._absent = [k for k in range(len(self.clients)) if k not in active]
        self.method.round(self.server, self._train)
        self._close(active)
        machine = {"seconds": time.perf_counter() - began, "peak_memory_mb": peak_memory_mb(self.device)}
        self.records.add(self.round, "machine", "", TARGET, "", machine)

    def _train(self, clients: Sequence[int]) -> None:
        """Train these clients from the server's current state, test the models they own, and aggregate."""
        if list(clients) != self.server.active:
            self.server.start_round(self.round, list(clients))
        held = 1 if self.method.averages else len(clients)
        rows = torch.empty(held, self.layout.size, dtype=self.layout.dtype, device=self.device)
        average: Tensor | None = None
        uploads: Uploads = {}
        for position, k in enumerate(clients):
            row = rows[position % held]
            _gather(uploads, self._train_client(row, k))
            if self.method.averages:
                average = accumulate(average, row, self.server.p[position])
            self.on_client()
        self.evaluator.inactive(self._absent, self.round + 1)
        self._absent = []
        up = {name: torch.stack(values) for name, values in uploads.items()}
        if average is not None:  # a mean of one row of weight 1 is that row
            self.method.aggregate(self.server, average[None], rows.new_ones(1), up)
            return
        self.method.aggregate(self.server, rows, self.server.p, up)
        if self.state.personal.size:
            for row, k in zip(rows, clients, strict=True):
                self.state.receive(k, row)

    def _train_client(self, row: Tensor, k: int) -> dict[str, Tensor]:
        """Send client k its model, train it in `row` [P + Q], test it, send it back; returns its messages."""
        client = self._received(row, k, self.transfer.messages_down(k, self._downloads.get(k, {})))
        messages = self._ask(client, self.method.begin)
        with self.worker.passes.counted():
            self._losses[k] = train(client, self.method)
            messages |= self.transfer.messages_up(self.method.end(client))
        self.state.visits[k] += 1
        if TRAINED.name in self.state.slots:
            self.state.slots[TRAINED.name][k] = row
        self.evaluator.trained(k, row, self.round + 1)
        self.transfer.up(row, k)
        return messages

    def _visit(self, clients: Iterable[int], ask: Hook) -> Uploads:
        """Send each client the model and `ask` it for messages; its changes to the row are lost."""
        uploads: Uploads = {}
        row = torch.empty_like(self.state.row)
        for k in clients:
            client = self._received(row, k, {})
            self._visited.add(k)
            _gather(uploads, self._ask(client, ask))
        return uploads

    def _received(self, row: Tensor, k: int, messages: Mapping[str, Tensor]) -> Client:
        """Client k with its model received into `row`, and these messages."""
        source = self.method.broadcast(self.server, [k])[0] if self.method.generates else self.state.row
        self.transfer.down(row, k, source, again=k in self._visited)
        return Client(self.worker, k, self.round, row, messages)

    def _ask(self, client: Client, ask: Hook) -> dict[str, Tensor]:
        """The messages of a client before its first step, with a separate generator."""
        torch.manual_seed(key(self.spec.seed, "begin", self.round, client.k))
        client.model.train()
        with self.worker.passes.counted(), self.worker.precision():
            return self.transfer.messages_up(ask(client))

    def _close(self, active: list[int]) -> None:
        """Record the losses, logs and costs of the round's clients, and test the server's models."""
        self.round += 1
        losses, logged = self.log.close(self.round, self._losses)
        for k in active:
            loss, seen = losses[k]
            if seen:
                self.records.add(self.round, "train", "", k, "train", {"loss": loss / seen}, n=int(seen))
            self.records.add(self.round, "diagnostic", "", k, "", logged.get(k, {}))
        travelled = {"bytes_down": self.transfer.bytes_down, "bytes_up": self.transfer.bytes_up}
        cost = {**travelled, "images": sum(losses[k][1] for k in active), **self.worker.passes.take()}
        self.records.add(self.round, "cost", "", TARGET, "", cost)
        self.transfer.bytes_down = self.transfer.bytes_up = 0
        self.evaluator.aggregated(self.round)


def _gather(messages: Uploads, sent: Mapping[str, Tensor]) -> None:
    """Append one client's messages to those of the clients before it."""
    for name, value in sent.items():
        messages.setdefault(name, []).append(value)
