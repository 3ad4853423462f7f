"""What all clients train with, one after the other: networks, samples, settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift.federation.cost import Passes
from fedshift.federation.diagnostics import Diagnostics
from fedshift.federation.network import Network
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.samples import ClientData, Samples
from fedshift.federation.state import State
from fedshift.models.base import Model
from fedshift.spec import RunSpec

Criterion = Callable[[Tensor, Tensor], Tensor]
Role = Literal["model", "personal", "frozen"]


class Worker:
    """One device's networks and data, which the clients of a run use in turn.

    spec: the run's resolved settings.
    state: what outlives the round.
    samples: all images, on or beside the device.
    clients: who holds which of them.
    criterion: mean loss of logits [B, C] and labels [B].
    diagnostics: what clients may record.
    own: another optimiser rule for the trainable entries of role "own", the model's last ones.
    persist: clients keep their optimisers' memory between rounds.
    batch_norm: the network has batch normalisations, which no batch of one sample can pass in training.
    passes: images through the networks in training.
    """

    def __init__(
        self, spec: RunSpec, state: State, samples: Samples, clients: list[ClientData], model: Model,
        build: Callable[[], Model], criterion: Criterion, *, diagnostics: Diagnostics,
        own: Mapping[str, Any] | None = None, persist: bool = False,
    ) -> None:  # fmt: skip
        self.spec, self.state, self.samples = spec, state, samples
        self.clients, self.criterion, self.diagnostics = clients, criterion, diagnostics
        self.batch_norm = state.layout.kind("bn_statistic").size > 0
        self.passes = Passes()
        self._networks: dict[Role, Network] = {"model": self._network(model)}
        self._build = build
        self._by_class: dict[int, list[Tensor]] = {}
        self._persist, self._own = persist, own
        self._tail = state.layout.tail("own") if own is not None else None

    def _network(self, model: Model) -> Network:
        return Network(self.passes.watch(model), self.state.layout, self.samples.device)

    def network(self, role: Role) -> Network:
        """The network of a role: "model" trains; "personal" and "frozen" are built at their first use."""
        if role not in self._networks:
            with torch.random.fork_rng(devices=[]):  # building one must not move the client's draws
                model = self._build()
            self._networks[role] = self._network(model)
        return self._networks[role]

    def precision(self) -> torch.autocast:
        """Autocast to bfloat16 where the run asks for it (what else `local.precision` sets:
        fedshift.federation.precision).
        """
        on = self.spec.local.precision == "bf16"
        return torch.autocast(self.samples.device.type, torch.bfloat16, enabled=on)

    def optimizer(self, role: Role, k: int, network: Network) -> Optimizer:
        """Client k's optimiser of a network; its memory is the client's where it persists, else new."""
        rule, w, g, cut = Rule.of(self.spec.local), network.w, network.g, self._tail
        tail = None
        if cut is not None:
            own = replace(rule, **(self._own or {}))
            tail = Optimizer(own, w[cut:], g[cut:], self._memory(f"{role}-own", k))
        return Optimizer(rule, w[:cut], g[:cut], self._memory(role, k), tail)

    def _memory(self, role: str, k: int) -> dict[str, Tensor]:
        return self.state.optimizers[role, k] if self._persist else {}

    def by_class(self, k: int) -> list[Tensor]:
        """Positions of client k's training samples, on the host, one tensor for each class that it holds."""
        if k not in self._by_class:
            train = self.clients[k].train
            labels = self.samples.host_labels[train]
            self._by_class[k] = [train[labels == label] for label in labels.unique()]
        return self._by_class[k]
