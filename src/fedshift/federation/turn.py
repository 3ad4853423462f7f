"""What the turns of all clients share: the networks, the samples, the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from fedshift.federation.ledger import Passes
from fedshift.federation.method import Method
from fedshift.federation.network import Network
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.samples import ClientData, Samples
from fedshift.federation.state import State
from fedshift.models.base import Model
from fedshift.spec import RunSpec

Criterion = Callable[[Tensor, Tensor], Tensor]


class Turn:
    """networks: by role, "first" trains; the others are built at their first use; passes: what goes through them in training."""

    def __init__(
        self, spec: RunSpec, method: Method, state: State, samples: Samples, clients: list[ClientData],
        model: Model, build: Callable[[], Model], criterion: Criterion,
    ) -> None:  # fmt: skip
        self.spec, self.method, self.state, self.samples = spec, method, state, samples
        self.clients, self.criterion = clients, criterion
        self.batch_norm = state.layout.where("bn_statistic").size > 0
        self.passes = Passes()
        self.networks = {"first": Network(self.passes.watch(model), state.layout, samples.device)}
        self._build = build
        self._by_class: dict[int, list[Tensor]] = {}
        self._persist = (method.optimizer_state or spec.local.optimizer_state) == "persist"
        self._tail = state.layout.tail("own") if method.own is not None else None

    def network(self, role: str) -> Network:
        """The network of a role."""
        if role not in self.networks:
            with torch.random.fork_rng(devices=[]):  # building one must not move the turn's draws
                model = self._build()
            self.networks[role] = Network(self.passes.watch(model), self.state.layout, self.samples.device)
        return self.networks[role]

    def precision(self) -> torch.autocast:
        """Autocast to bfloat16 where the run asks for it (what else `local.precision` sets: fedshift.federation.precision)."""
        on = self.spec.local.precision == "bf16"
        return torch.autocast(self.samples.device.type, torch.bfloat16, enabled=on)

    def optimizer(self, role: str, k: int, network: Network) -> Optimizer:
        """Client k's optimiser of a network; its memory is the client's where it persists, else new."""
        rule, w, g, cut = Rule.of(self.spec.local), network.w, network.g, self._tail
        tail = None
        if cut is not None:
            own = replace(rule, **(self.method.own or {}))
            tail = Optimizer(own, w[cut:], g[cut:], self._memory(f"{role}-own", k))
        return Optimizer(rule, w[:cut], g[:cut], self._memory(role, k), tail)

    def _memory(self, role: str, k: int) -> dict[str, Tensor]:
        return self.state.optimizers[role, k] if self._persist else {}

    def slots(self, k: int, row: Tensor) -> dict[str, Tensor]:
        """Client k's own slots; on its first visit those that start from the received `row` are filled."""
        owned = {slot.name: slot for slot in self.method.slots if slot.owner == "client"}
        tensors = {name: self.state.slots[name][k] for name in owned}
        if not self.state.visits[k]:
            for name, slot in owned.items():
                if slot.init == "received":
                    tensors[name].copy_(row[: tensors[name].numel()])
        return tensors

    def by_class(self, k: int) -> list[Tensor]:
        """Positions of client k's training samples, on the host, one tensor for each class that it holds."""
        if k not in self._by_class:
            train = self.clients[k].train
            labels = self.samples.host_labels[train]
            self._by_class[k] = [train[labels == label] for label in labels.unique()]
        return self._by_class[k]
