"""One client's turn in a round: local training, and what a method's client hooks see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace

import torch
from torch import Tensor

from fedshift.errors import FedshiftError, nearest
from fedshift.federation.batches import schedule
from fedshift.federation.evaluate import BATCH
from fedshift.federation.network import Network
from fedshift.federation.optimizer import Optimizer, learning_rate
from fedshift.federation.rng import generator, key
from fedshift.federation.samples import Samples
from fedshift.federation.turn import Turn
from fedshift.models.base import Model


class Client:
    """One client in one round.

    k, n, t: its number, its training samples, the round from 0; held: all its samples; domains: theirs; few_shot: the labels that the
    partition made rare in its training part; visits: rounds it has trained
    before; lr, lr_sum, steps: the current rate, the sum of the rates of the steps taken, their number; new_epoch: this batch is the
    first of its epoch; labels: the batch's labels on the host; model: its network; layout: what its rows hold; row, w: what it trains;
    received, w0: what it got; slot.<name>: its own slots; down.<name>: what the server sent; tmp: scratch that dies with the turn;
    rng: this turn's generator, on the CPU.
    """

    def __init__(self, turn: Turn, k: int, t: int, row: Tensor, down: Mapping[str, Tensor]) -> None:
        state, data = turn.state, turn.clients[k]
        self.k, self.t, self.n = k, t, len(data.train)
        self.visits, self.domains, self.few_shot = state.visits[k], data.domains, data.few_shot
        self.held, self.layout = len(data.train) + len(data.val) + len(data.test), state.layout
        self.row, self.received, self._turn = row, row.clone(), turn
        self.lr, self.lr_sum, self.steps, self.new_epoch = 0.0, 0.0, 0, True
        self.labels = torch.empty(0, dtype=torch.int64)
        self.criterion = turn.criterion
        self.down, self.tmp = SimpleNamespace(**down), SimpleNamespace()
        self.slot = SimpleNamespace(**turn.slots(k, row))
        self.rng = generator(turn.spec.seed, "method", t, k)
        self._network = turn.networks["first"].bind(row)
        self.model = self._network.model
        self._optimizers: dict[str, Optimizer] = {}
        self._recorded: dict[str, Tensor] = {}

    @property
    def w(self) -> Tensor:
        """The trainable part of what is being trained, [P]."""
        return self.row[self.layout.W]

    @property
    def w0(self) -> Tensor:
        """The trainable part of what was received, [P]."""
        return self.received[self.layout.W]

    def named(self, row: Tensor) -> dict[str, Tensor]:
        """The entries of a row [P + Q] by name, sharing memory."""
        return self.layout.named(row)

    # ---- further weights

    def net(self, row: Tensor) -> Network:
        """A second network that trains `row` [P + Q] in place, with a gradient of its own; train mode."""
        network = self._turn.network("second").bind(row)
        network.model.train()
        return network

    def frozen(self, row: Tensor) -> Model:
        """A further network with the weights of `row` [P + Q], in eval mode and without gradients, until the next call."""
        network = self._turn.network("frozen").bind(row)
        network.model.requires_grad_(False).eval()
        return network.model

    def descend(self, network: Network, loss: Tensor, add: Tensor | None = None) -> None:
        """One step of the round's optimiser on `network`: the gradient of `loss`, plus `add` [P], clipped."""
        optimizer = self._optimizer("second", network)
        network.g.zero_()
        loss.backward()
        if add is not None:
            network.g.add_(add)
        optimizer.clip()
        optimizer.step(self.lr)

    def _optimizer(self, name: str, network: Network) -> Optimizer:
        if name not in self._optimizers:
            self._optimizers[name] = self._turn.optimizer(name, self.k, network)
        return self._optimizers[name]

    def precision(self) -> torch.autocast:
        """The run's autocast, which `begin`, `loss`, `step` and `mean` are called under, `grad` and `end` not."""
        return self._turn.precision()

    # ---- its samples

    @property
    def samples(self) -> Samples:
        """All images of the run: for `unit` and `normalised`."""
        return self._turn.samples

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """All training samples once, shuffled, augmented, in batches (x [B, 3, h, w], y [B]); the last may be smaller, not a single one."""
        samples, seed, batch = self._turn.samples, self._turn.spec.seed, self._turn.spec.local.batch
        rng = generator(seed, "begin", self.t, self.k)
        order = self._turn.clients[self.k].train[torch.randperm(self.n, generator=rng)]
        order = order.to(samples.home, non_blocking=True)
        draws = samples.augment.draw(self.n, rng).to(samples.device, non_blocking=True)
        for start in range(0, self.n, batch):
            pixels, y = samples.take(order[start : start + batch])
            if len(y) > 1:
                yield samples.augment(pixels, draws[start : start + batch]), y

    @torch.no_grad()
    def mean(self, split: str, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The mean of measure(x, y), itself a mean over a batch, over a split; eval mode, no augmentation, no gradient.

        Raises FedshiftError for a client without a sample in it.
        """
        samples = self._turn.samples
        index = self._turn.clients[self.k].split(split).to(samples.home)
        if not len(index):
            cure = f"Give the partition's fractions a larger '{split}' part."
            raise FedshiftError(f"client {self.k}", f"it holds no {split} sample to measure on", cure)
        training = self.model.training
        self.model.eval()
        total = torch.zeros((), device=samples.device)
        for start in range(0, len(index), BATCH):
            pixels, y = samples.take(index[start : start + BATCH])
            with self._turn.precision():
                total = total + measure(samples.evaluate(pixels), y) * (len(y) / len(index))
        self.model.train(training)
        return total

    def each(self, split: str, measure: Callable[[Tensor], Tensor]) -> Tensor:
        """measure(x) [B, ..] of all samples of a split, in their order, joined; eval's transform, no gradient."""
        samples = self._turn.samples
        index = self._turn.clients[self.k].split(split).to(samples.home)
        with torch.no_grad():
            return torch.cat(
                [measure(samples.evaluate(samples.take(part)[0])) for part in index.split(BATCH)]
            )

    def one_per_class(self) -> tuple[Tensor, Tensor]:
        """One random training sample of each class that the client holds, augmented: x [C', 3, h, w], y [C'] ascending."""
        samples = self._turn.samples
        held = self._turn.by_class(self.k)
        chosen = torch.stack([one[torch.randint(len(one), (), generator=self.rng)] for one in held])
        pixels, y = samples.take(chosen.to(samples.home, non_blocking=True))
        draws = samples.augment.draw(len(chosen), self.rng).to(samples.device, non_blocking=True)
        return samples.augment(pixels, draws), y

    # ---- diagnostics

    def record(self, name: str, value: Tensor) -> None:
        """Keep a scalar of this round in the run's metrics; it stays on the device until the round ends, and the last one counts.

        Raises FedshiftError for a name that is none of the method's `diagnostics`.
        """
        method = self._turn.method
        if name not in method.diagnostics:
            cure = nearest(name, method.diagnostics)
            raise FedshiftError(f"method {method.name}", f"records '{name}', which it does not declare", cure)
        self._recorded[name] = value.detach()

    def gradient(self, value: Tensor) -> Tensor:
        """The gradient of a scalar by all trainable entries of the client's model [P], for a diagnostic; the graph of `value` stays."""
        entries = dict(self.model.named_parameters())
        with self._turn.passes.paused():
            parts = torch.autograd.grad(value, list(entries.values()), retain_graph=True, allow_unused=True)
        row = torch.zeros_like(self.row)
        views = self.named(row)
        for name, part in zip(entries, parts, strict=True):
            if part is not None:
                views[name].copy_(part)
        return row[self.layout.W]

    def diagnostics(self) -> Tensor:
        """What was recorded, in the order of the method's `diagnostics` [D], NaN for what was not; fp64."""
        none = torch.full((), torch.nan, device=self.row.device)
        values = [self._recorded.get(name, none).double() for name in self._turn.method.diagnostics]
        return torch.stack(values) if values else none.new_empty(0, dtype=torch.float64)

    # ---- the round's training

    def train(self) -> Tensor:
        """All batches of the round; returns (sum of losses, samples seen) [2], still on the device."""
        turn, samples = self._turn, self._turn.samples
        local, seed, method = turn.spec.local, turn.spec.seed, turn.method
        plan = schedule(self.n, local, seed, self.t, self.k, turn.batch_norm)
        on_host = turn.clients[self.k].train[plan.order]
        order = on_host.to(samples.home, non_blocking=True)
        draws = samples.augment.draw(len(order), generator(seed, "augment", self.t, self.k))
        draws = draws.to(samples.device, non_blocking=True)
        torch.manual_seed(key(seed, "dropout", self.t, self.k))
        self.model.train()
        optimizer = self._optimizer("first", self._network)
        total = torch.zeros(2, dtype=torch.float64, device=samples.device)
        previous = -1
        for epoch, start, stop in plan.cuts:
            self.lr = learning_rate(local, turn.spec.federation.rounds, self.t, epoch)
            self.new_epoch, previous = epoch != previous, epoch
            self.labels = samples.host_labels[on_host[start:stop]]
            pixels, y = samples.take(order[start:stop])
            x = samples.augment(pixels, draws[start:stop])
            with turn.precision():
                loss = method.loss(self, x, y)
            self._descend(optimizer, loss)
            self.lr_sum += self.lr
            self.steps += 1
            with turn.precision():
                method.step(self, x, y)
            total[0] += loss.detach() * len(y)
            total[1] += len(y)
        return total

    def _descend(self, optimizer: Optimizer, loss: Tensor) -> None:
        method, g = self._turn.method, self._network.g
        g.zero_()
        loss.backward()
        if method.clip_first:
            optimizer.clip()
        method.grad(self, g)
        if not method.clip_first:
            optimizer.clip()
        optimizer.step(self.lr)
