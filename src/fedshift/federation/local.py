"""One client's turn in a round: local training, and what a method's client hooks see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import torch
from torch import Tensor

from fedshift.federation.batches import schedule
from fedshift.federation.method import Method
from fedshift.federation.network import Network
from fedshift.federation.optimizer import Optimizer, learning_rate
from fedshift.federation.rng import generator, key
from fedshift.federation.samples import Samples
from fedshift.federation.state import State
from fedshift.spec import RunSpec

Criterion = Callable[[Tensor, Tensor], Tensor]


class Client:
    """One client in one round.

    k, n, t: its number, its training samples, the round from 0; visits: rounds it has trained before; lr, lr_sum, steps: the current rate,
    the sum of the rates of the steps taken, their number; model: its network; row, w: what it trains; received, w0: what it got;
    slot.<name>: its own slots; down.<name>: slots that the server sent.
    """

    def __init__(
        self,
        k: int,
        t: int,
        n: int,
        state: State,
        method: Method,
        row: Tensor,
        down: Mapping[str, Tensor],
        turn: Turn,
    ) -> None:
        self.k, self.t, self.n, self.visits = k, t, n, state.visits[k]
        self.row, self.received, self._turn, self._state = row, row.clone(), turn, state
        self.lr, self.lr_sum, self.steps = 0.0, 0.0, 0
        self.criterion = turn.criterion
        self.down = SimpleNamespace(**down)
        owned = {slot.name: state.slots[slot.name][k] for slot in method.slots if slot.owner == "client"}
        for slot in method.slots:
            if slot.init == "received" and not self.visits:
                owned[slot.name].copy_(
                    self.received if slot.like == "model" else self.received[state.layout.W]
                )
        self.slot = SimpleNamespace(**owned)
        self._network = turn.networks[0].bind(row)
        self.model = self._network.model
        self._optimizers: dict[int, Optimizer] = {}

    @property
    def w(self) -> Tensor:
        """The trainable part of what is being trained, [P]."""
        return self.row[self._state.layout.W]

    @property
    def w0(self) -> Tensor:
        """The trainable part of what was received, [P]."""
        return self.received[self._state.layout.W]

    def net(self, row: Tensor) -> Network:
        """A second network that trains `row` [P + Q] in place, with a gradient of its own; train mode."""
        network = self._turn.second()
        if network.row.data_ptr() != row.data_ptr():
            network.bind(row)
        return network

    def descend(self, network: Network, loss: Tensor, add: Tensor | None = None) -> None:
        """One step of the round's optimiser on `network`: the gradient of `loss`, plus `add` [P], clipped."""
        optimizer = self.optimizer(network, "second")
        network.g.zero_()
        loss.backward()
        if add is not None:
            network.g.add_(add)
        optimizer.clip()
        optimizer.step(self.lr)

    def optimizer(self, network: Network, name: str) -> Optimizer:
        """This turn's optimiser of a network; its memory is the client's where it persists, else new."""
        if id(network) not in self._optimizers:
            memory = self._state.optimizers[name, self.k] if self._turn.persist else {}
            self._optimizers[id(network)] = Optimizer(self._turn.spec.local, network.w, network.g, memory)
        return self._optimizers[id(network)]

    def train(self, method: Method, samples: Samples, index: Tensor) -> Tensor:
        """All batches of the round on the samples at `index` [n]; returns (sum of losses, samples seen) [2], still on the device."""
        local, seed = self._turn.spec.local, self._turn.spec.seed
        plan = schedule(self.n, local, seed, self.t, self.k, self._turn.batch_norm)
        order = index[plan.order.to(index.device)]
        draws = samples.augment.draw(len(order), generator(seed, "augment", self.t, self.k)).to(
            index.device, non_blocking=True
        )
        torch.manual_seed(key(seed, "dropout", self.t, self.k))
        self.model.train()
        optimizer, total = (
            self.optimizer(self._network, "first"),
            torch.zeros(2, dtype=torch.float64, device=index.device),
        )
        for epoch, start, stop in plan.cuts:
            self.lr = learning_rate(local, self._turn.spec.federation.rounds, self.t, epoch)
            pixels, y = samples.take(order[start:stop])
            x = samples.augment(pixels, draws[start:stop])
            with self._turn.precision():
                loss = method.loss(self, x, y)
            self._descend(method, optimizer, loss)
            self.lr_sum += self.lr
            self.steps += 1
            with self._turn.precision():
                method.step(self, x, y)
            total[0] += loss.detach() * len(y)
            total[1] += len(y)
        return total

    def _descend(self, method: Method, optimizer: Optimizer, loss: Tensor) -> None:
        optimizer.g.zero_()
        loss.backward()
        if method.clip_first:
            optimizer.clip()
        method.grad(self, optimizer.g)
        if not method.clip_first:
            optimizer.clip()
        optimizer.step(self.lr)


class Turn:
    """What every client's turn shares: the networks, the precision, the criterion, the settings."""

    def __init__(
        self,
        spec: RunSpec,
        build: Callable[[], Network],
        criterion: Criterion,
        persist: bool,
        batch_norm: bool,
    ) -> None:
        self.spec, self.criterion, self.persist, self.batch_norm = spec, criterion, persist, batch_norm
        self._build = build
        self.networks = [build()]
        self._device = self.networks[0].row.device

    def second(self) -> Network:
        """The second network, built at its first use."""
        if len(self.networks) == 1:
            self.networks.append(self._build())
            self.networks[1].model.train()
        return self.networks[1]

    def precision(self) -> torch.autocast:
        """Autocast to bfloat16 where the run asks for it."""
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self.spec.local.precision == "bf16")
