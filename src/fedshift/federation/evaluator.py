"""Tests a run's models, records the results, and selects the weights to save."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fedshift.federation.client import Worker
from fedshift.federation.evaluate import Set, evaluate
from fedshift.federation.method import Method
from fedshift.federation.records import (
    GLOBAL,
    LOCAL,
    PERSONALISED,
    Records,
    StatisticsTable,
    Tested,
    reported,
)
from fedshift.federation.samples import ClientData
from fedshift.federation.server import Server
from fedshift.federation.state import TRAINED, State

TARGET = -1


class Evaluator:
    """Tests the models of a run as its evaluation settings specify, and selects its best round.

    - evaluated_clients: samples of each client, also if one pooled client trains
    - targets: the samples of each held-out domain, recorded as clients -1, -2, ...

    A round's number is that of finished rounds, 0: untrained.
    """

    def __init__(
        self, method: Method, state: State, server: Server, worker: Worker, records: Records,
        statistics: StatisticsTable, evaluated_clients: list[ClientData], targets: list[Tensor],
    ) -> None:  # fmt: skip
        self._statistics = statistics
        self._state, self._server, self._worker, self._records = state, server, worker, records
        self._method, self._evaluation, self._last = method, worker.spec.evaluation, server.T
        home = worker.samples.home
        held = list(enumerate(evaluated_clients))
        self._sets: list[Set] = [
            (k, split, client.split(split).to(home)) for k, client in held for split in ("val", "test")
        ]
        held_out = [(TARGET - place, "target", target.to(home)) for place, target in enumerate(targets)]
        self._target: list[Set] = [named for named in held_out if len(named[2])]
        self._sizes = {k: len(client.train) for k, client in enumerate(evaluated_clients)}
        self.selection = Selection(worker.samples.device)

    @property
    def keeps_own(self) -> bool:
        """Whether clients have their own models: private entries that are part of it, or a slot."""
        evaluates = self._method.evaluates
        return evaluates != "shared" and (self._state.private.size > 0 or evaluates != "model")

    @property
    def reported(self) -> Tested:
        """(model, stage) that selection and tables use."""
        return reported({self._after_aggregation} | ({LOCAL} if self.keeps_own else set()))

    def trained(self, k: int, row: Tensor, finished: int) -> None:
        """Test client k's own model, if it has one, right after its training; `row` [P + Q] is the result."""
        if not (self.keeps_own and self._due(finished)):
            return
        slot = self._method.evaluates
        if slot != "model":
            row = self._state.slots[slot][k] if self._state.visits[k] else self._state.row
        self._score(finished, LOCAL, row, self._sets_of(k))

    def inactive(self, clients: Iterable[int], finished: int) -> None:
        """Test the own models of clients outside the round: their private entries in the model broadcast."""
        if self.keeps_own and self._due(finished):
            for k in clients:
                self.trained(k, self._state.private_row(k), finished)

    def aggregated(self, finished: int) -> None:
        """Test the server's models after a round, and save their weights if this round is the best."""
        if not self._due(finished):
            return
        for tested, member, row, sets in self.models():
            self._score(finished, tested, row, sets, member)
        self.selection.consider(finished, self._sizes, self.weights())

    @torch.no_grad()
    def models(
        self, own: Callable[[int], Tensor | None] = lambda k: None, generated: Tensor | None = None,
        targets: list[Set] | None = None,
    ) -> Iterator[tuple[Tested, int, Tensor, list[Set]]]:  # fmt: skip
        """All models that are tested after a round: (model, stage), member, row [P + Q], sets to test it on.

        - own: returns client k's own model right after its training, or None if it is not available
        - generated: the models of all clients [N, P + Q], if the server made them before
        - targets: the held-out sets, by default the run's
        """
        state, differ = self._state, self._after_aggregation == PERSONALISED
        targets = self._target if targets is None else targets
        made = self._generated() if self._method.generates and generated is None else generated
        for k in range(state.clients):
            if (row := own(k)) is not None:
                yield LOCAL, 0, row, self._sets_of(k)
            if made is not None:
                yield PERSONALISED, 0, made[k], self._sets_of(k)
            elif differ and state.shared.size:
                yield PERSONALISED, 0, state.private_row(k), self._sets_of(k)
        sets = targets if differ else [*self._sets, *targets]
        if any(len(index) for *_, index in sets):
            rows = self._method.unseen(self._server) if generated is None else generated
            for member, row in enumerate(rows):
                yield GLOBAL if len(rows) == 1 else PERSONALISED, member, row, sets

    def weights(self) -> dict[str, Tensor]:
        """The tensors that `evaluation.keep` requests, by name.

        - row: the shared entries
        - own: each client's private entries
        - generated: each client's model as the server makes it
        - <slot>: the evaluated slot, a saved one, or `trained`, clients' models after training
        """
        if self._evaluation.keep == "none":
            return {}
        tensors = {"generated": self._generated()} if self._method.generates else {"row": self._state.row}
        if self._state.private.size:
            tensors["own"] = self._state.own
        if self._method.evaluates not in ("model", "shared"):
            tensors[self._method.evaluates] = self._state.slots[self._method.evaluates]
        if self._evaluation.keep == "slots":
            tensors |= {slot.name: self._state.slots[slot.name] for slot in self._method.slots if slot.saved}
        if self._evaluation.keep == "clients":
            tensors[TRAINED.name] = self._state.slots[TRAINED.name]
        return tensors

    @property
    def _after_aggregation(self) -> Tested:
        """(model, stage) of the models that clients test after the aggregation."""
        private = self._state.private.size > 0 and self._method.evaluates != "shared"
        return PERSONALISED if private or self._method.generates else GLOBAL

    def _due(self, finished: int) -> bool:
        return finished % self._evaluation.every == 0 or finished == self._last

    def _sets_of(self, k: int) -> list[Set]:
        return [named for named in self._sets if named[0] == k]

    @torch.no_grad()
    def _generated(self) -> Tensor:
        return self._method.broadcast(self._server, list(range(self._server.N)))

    def _score(self, finished: int, tested: Tested, row: Tensor, sets: list[Set], member: int = 0) -> None:
        """Test a row [P + Q] on sets and record the results; note validation accuracies for the selection."""
        worker, (model, stage) = self._worker, tested
        for scored in evaluate(worker.network("model"), row, worker.samples, sets, worker.precision):
            if tested == self.reported and scored.split == "val":
                self.selection.validation[scored.client] = scored.accuracy
            place = finished, stage, model, scored.client, scored.split
            values = {"accuracy": scored.accuracy, "loss": scored.loss}
            self._records.add(*place, values, member=member, n=scored.n)
            self._statistics.add(*place, scored.statistics, member=member)


DIGITS = 11  # accuracies that are equal must tie, whatever the order of the sum


class Selection:
    """The first and the last of the rounds with the highest validation accuracy, weighted by training
    samples.

    `validation` is client -> accuracy of the reported model in the current round. The others are by tie rule
    ("first", "later"):

    - value: the highest accuracy so far
    - round: its round
    - best_weights: name -> its weights
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.validation: dict[int, float] = {}
        self.value: dict[str, float] = {}
        self.round: dict[str, int] = {}
        self.best_weights: dict[str, dict[str, Tensor]] = {}

    def consider(self, finished: int, sizes: dict[int, int], weights: dict[str, Tensor]) -> None:
        """Compare the evaluated round with the best; copy its weights if it wins.

        sizes: client -> number of training samples.
        """
        accuracy, self.validation = self.validation, {}
        if not accuracy:
            return
        value = round(sum(sizes[k] * accuracy[k] for k in accuracy) / sum(sizes[k] for k in accuracy), DIGITS)
        for tie in ("first", "later"):
            best = self.value.get(tie)
            if best is None or value > best or (value == best and tie == "later"):
                self.value[tie], self.round[tie] = value, finished
                self.best_weights[tie] = {name: tensor.clone() for name, tensor in weights.items()}

    def state_dict(self) -> dict[str, Any]:
        """Nested by name, between two rounds."""
        return {"value": self.value, "round": self.round, "best_weights": self.best_weights}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore a `state_dict`."""
        self.value, self.round = dict(saved.get("value", {})), dict(saved.get("round", {}))
        self.best_weights = {
            tie: {name: tensor.to(self._device) for name, tensor in weights.items()}
            for tie, weights in saved.get("best_weights", {}).items()
        }
