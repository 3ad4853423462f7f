"""What a run records of its models: which are tested when and on what, and which weights are kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from fedshift.federation.evaluate import evaluate
from fedshift.federation.method import Method
from fedshift.federation.records import Records
from fedshift.federation.samples import ClientData
from fedshift.federation.selection import Selection
from fedshift.federation.server import Server
from fedshift.federation.shown import COMMON, OWN, RECEIVED, Tested, shown
from fedshift.federation.state import State
from fedshift.federation.worker import Worker

TARGET = -1
Set = tuple[int, str, Tensor]


class Scores:
    """Tests the models of a run as its evaluation asks for.

    held: who holds which samples; targets: the samples of each held-out domain, recorded as clients -1, -2, ..; rounds are counted as
    finished ones, 0 is untrained.
    """

    def __init__(
        self, method: Method, state: State, server: Server, worker: Worker, records: Records,
        held: list[ClientData], targets: list[Tensor],
    ) -> None:  # fmt: skip
        self._state, self._server, self._worker, self._records = state, server, worker, records
        self._method, self._evaluation, self._last = method, worker.spec.evaluation, server.T
        home = worker.samples.home
        self._sets: list[Set] = [
            (k, split, client.split(split).to(home))
            for k, client in enumerate(held)
            for split in ("val", "test")
        ]
        self._target: list[Set] = [
            (TARGET - place, "target", target.to(home)) for place, target in enumerate(targets) if len(target)
        ]
        self._sizes = {k: len(client.train) for k, client in enumerate(held)}
        self.selection = Selection(worker.samples.device)

    @property
    def keeps_own(self) -> bool:
        """Whether clients hold a model of their own: kept entries that are part of it, or a slot."""
        evaluates = self._method.evaluates
        return evaluates != "shared" and (self._state.private.size > 0 or evaluates != "model")

    @property
    def shown(self) -> Tested:
        """(model, stage) that selection and tables look at (C8)."""
        return shown({self._after_aggregation} | ({OWN} if self.keeps_own else set()))

    def start(self) -> None:
        """Test everything before the first round."""
        self.resting((), 0)
        self.aggregated(0)

    def trained(self, k: int, row: Tensor, finished: int) -> None:
        """Test client k's own model, where it has one, right after its training has left `row` [P + Q]."""
        if not self._due_own(finished):
            return
        slot = self._method.evaluates
        if slot != "model":
            row = self._state.slots[slot][k] if self._state.visits[k] else self._state.row
        self._score(finished, OWN, row, self._sets_of(k))

    def resting(self, active: Collection[int], finished: int) -> None:
        """Test the own models of clients that are not `active` in the round, as they stand: what each keeps, in what was broadcast."""
        if self._due_own(finished):
            for k in sorted({*range(self._server.N)}.difference(active)):
                self.trained(k, self._state.private_row(k), finished)

    def aggregated(self, finished: int) -> None:
        """Test what the server holds, and keep its weights if this round is the best."""
        if not self._due(finished):
            return
        for k, row in enumerate(self._each_receives()):
            self._score(finished, RECEIVED, row, self._sets_of(k))
        sets = self._target if self._after_aggregation == RECEIVED else [*self._sets, *self._target]
        rows = self._method.unseen(self._server) if sets else ()
        for m, row in enumerate(rows):
            self._score(finished, COMMON if len(rows) == 1 else RECEIVED, row, sets, m)
        self.selection.consider(finished, self._sizes, self.weights())

    def weights(self) -> dict[str, Tensor]:
        """What `evaluation.keep` asks for, by name.

        row: the shared entries; own: each client's kept entries; generated: each client's model as the server makes it; <slot>: the
        slot that is evaluated.
        """
        if self._evaluation.keep == "none":
            return {}
        kept = {"generated": self._generated()} if self._method.generates else {"row": self._state.row}
        if self._state.private.size:
            kept["own"] = self._state.own
        if self._method.evaluates not in ("model", "shared"):
            kept[self._method.evaluates] = self._state.slots[self._method.evaluates]
        return kept

    @property
    def _differ(self) -> bool:
        """Whether clients receive models that differ."""
        return self._state.private.size > 0 and self._method.evaluates != "shared"

    @property
    def _after_aggregation(self) -> Tested:
        """(model, stage) of what is tested on clients after the aggregation."""
        return RECEIVED if self._differ or self._method.generates else COMMON

    def _due(self, finished: int) -> bool:
        return finished % self._evaluation.every == 0 or finished == self._last

    def _due_own(self, finished: int) -> bool:
        return self.keeps_own and self._due(finished)

    def _sets_of(self, k: int) -> list[Set]:
        return [one for one in self._sets if one[0] == k]

    @torch.no_grad()
    def _generated(self) -> Tensor:
        return self._method.broadcast(self._server, list(range(self._server.N)))

    def _each_receives(self) -> Iterator[Tensor]:
        """The model of every client after aggregation, where these differ and something is shared."""
        if self._method.generates:
            yield from self._generated()
        elif self._differ and self._state.shared.size:
            yield from (self._state.private_row(k) for k in range(self._server.N))

    def _score(self, finished: int, tested: Tested, row: Tensor, sets: list[Set], m: int = 0) -> None:
        worker, (model, stage) = self._worker, tested
        for one in evaluate(worker.network("model"), row, worker.samples, sets, worker.precision):
            if tested == self.shown and one.split == "val":
                self.selection.validation[one.client] = one.accuracy
            values = {"accuracy": one.accuracy, "loss": one.loss}
            self._records.add(finished, stage, model, one.client, one.split, values, row=m, n=one.n)
