"""The client as a method's hooks see it, and the device that all clients train on in turn."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.batches import generator
from fedshift.federation.cost import Passes
from fedshift.federation.evaluate import at_once
from fedshift.federation.layout import Network
from fedshift.federation.log import Log
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.samples import ClientData, Samples, batches
from fedshift.federation.state import State
from fedshift.models.base import Model
from fedshift.spec import RunSpec

Criterion = Callable[[Tensor, Tensor], Tensor]
Role = Literal["model", "personal", "frozen"]


class Worker:
    """One device's networks and data, which the clients of a run use in turn.

    - spec: the run's resolved settings
    - state: tensors that outlive the round
    - samples: all images
    - clients: samples of each client
    - criterion: mean loss of logits [B, C] and labels [B]
    - log: tensors that clients log
    - param_groups: other optimiser settings for the trainable entries of a role, the model's last ones
    - persist: whether optimisers' memory persists between rounds
    - batch_norm: whether a batch of one sample cannot pass in training
    - passes: images through the networks in training
    - graph: makes what records a step, torch.cuda.CUDAGraph (federation/graph.py); None: every step is eager
    - graph_kept: the last graph made
    """

    def __init__(
        self, spec: RunSpec, state: State, samples: Samples, clients: list[ClientData], model: Model,
        build: Callable[[], Model], criterion: Criterion, *, log: Log,
        param_groups: Mapping[str, Mapping[str, Any]] | None = None, persist: bool = False,
    ) -> None:  # fmt: skip
        self.spec, self.state, self.samples = spec, state, samples
        self.clients, self.criterion, self.log = clients, criterion, log
        self.batch_norm = state.layout.kind("bn_statistic").size > 0
        self.passes = Passes()
        self.graph: Callable[[], Any] | None = None
        self.graph_kept: Any = None
        self._networks: dict[Role, Network] = {}
        self._build = build
        self._add("model", model)
        self._persist = persist
        groups = param_groups or {}
        self._groups = [(role, state.layout.tail(role), changed) for role, changed in groups.items()]

    def network(self, role: Role) -> Network:
        """The network of a role: "model" trains; "personal" and "frozen" are built at their first use."""
        if role not in self._networks:
            with torch.random.fork_rng(devices=[]):  # building one must not advance the client's generator
                self._add(role, self._build())
        return self._networks[role]

    def _add(self, role: Role, model: Model) -> None:
        self._networks[role] = Network(self.passes.watch(model), self.state.layout, self.samples.device)

    def precision(self) -> torch.autocast:
        """Autocast to bfloat16 if the run requests it (other precisions: federation/precision.py)."""
        on = self.spec.local.precision == "bf16"
        return torch.autocast(self.samples.device.type, torch.bfloat16, enabled=on)

    def optimizer(self, role: Role, k: int, network: Network) -> Optimizer:
        """Client k's optimiser of a network: a new one, or one with its memory if optimisers persist."""
        rule, w, g, cut, tail = Rule.of(self.spec.local), network.w, network.g, None, None
        graphs = self.graph is not None
        for group, cut, changed in self._groups:
            memory = self._memory(f"{role}-{group}", k)
            tail = Optimizer(replace(rule, **changed), w[cut:], g[cut:], memory, on_device=graphs)
        return Optimizer(rule, w[:cut], g[:cut], self._memory(role, k), tail, graphs)

    def _memory(self, role: str, k: int) -> dict[str, Tensor]:
        return self.state.optimizers[role, k] if self._persist else {}


class Client:
    """One client in one round.

    Identity:

    - k: its number
    - t: the round, from 0
    - n: number of its training samples
    - visits: number of rounds it has trained in before

    Weights:

    - layout: the entries of its rows
    - received: the row that it received [P + Q]; its trainable part is `w0`
    - row: the row that it trains [P + Q]; its trainable part is `w`
    - model: its network, whose tensors are views into `row`
    - network: `model` with its flat row and gradient

    Data:

    - data: positions of its samples by split, and the labels that the partition made rare in its training
      part
    - samples: all images of the run, for `unit` and `normalised`
    - labels: the batch's labels, on the host [B]

    Training:

    - criterion: mean loss of logits [B, C] and labels [B]
    - precision: the autocast that `begin`, `loss`, `step` and `mean` run under, but not `grad` and `end`
    - lr: the current learning rate
    - new_epoch: whether this batch is the first of its epoch
    - steps: number of steps taken; 0 in `begin`, and in `end` if every batch was left out
    - lr_sum: sum of the learning rates of these steps

    Storage and messages:

    - slot: `C.slot.<name>` are its own slots
    - down: `C.down.<name>` is what the server sent in addition to the model
    - tmp: values that only live in this round
    - rng: this round's generator, on the CPU
    """

    def __init__(self, worker: Worker, k: int, t: int, row: Tensor, down: Mapping[str, Tensor]) -> None:
        state, data = worker.state, worker.clients[k]
        self.k, self.t, self.n, self.visits = k, t, len(data.train), state.visits[k]
        self.data, self.layout = data, state.layout
        self.row, self.received, self.worker = row, row.clone(), worker
        self.lr, self.lr_sum, self.steps, self.new_epoch = 0.0, 0.0, 0, True
        self.labels = torch.empty(0, dtype=torch.int64)
        self.criterion, self.samples, self.precision = worker.criterion, worker.samples, worker.precision
        self.down, self.tmp = SimpleNamespace(**down), SimpleNamespace()
        self.slot = SimpleNamespace(**state.client_slots(k, row))
        self.rng = generator(worker.spec.seed, "method", t, k)
        self.network = worker.network("model").bind(row)
        self.model = self.network.model
        self._optimizers: dict[Role, Optimizer] = {}

    @property
    def w(self) -> Tensor:
        """The trainable part of `row`, [P]."""
        return self.row[self.layout.W]

    @property
    def w0(self) -> Tensor:
        """The trainable part of `received`, [P]."""
        return self.received[self.layout.W]

    # ---- other weights

    def net(self, row: Tensor) -> Network:
        """A second network, in train mode, that trains `row` [P + Q] in place with a separate gradient."""
        network = self.worker.network("personal").bind(row)
        network.model.train()
        return network

    def frozen(self, row: Tensor) -> Model:
        """A network with weights `row` [P + Q] in eval mode, without gradients; valid until the next call."""
        network = self.worker.network("frozen").bind(row)
        network.model.requires_grad_(False).eval()
        return network.model

    def descend(self, network: Network, loss: Tensor, add: Tensor | None = None) -> None:
        """One optimiser step on `network`, along the clipped sum of the gradient of `loss` and `add` [P]."""
        optimizer = self.optimizer("personal", network)
        network.backward(loss)
        if add is not None:
            network.g.add_(add)
        optimizer.clip()
        optimizer.step()

    def optimizer(self, role: Role, network: Network) -> Optimizer:
        """This round's optimiser of a network."""
        if role not in self._optimizers:
            self._optimizers[role] = self.worker.optimizer(role, self.k, network)
            self._optimizers[role].rate(self.lr)
        return self._optimizers[role]

    def rate(self, lr: float) -> None:
        """Set the learning rate of all optimisers."""
        self.lr = lr
        for optimizer in self._optimizers.values():
            optimizer.rate(lr)

    def stepped(self) -> None:
        """Count a step."""
        self.steps += 1
        self.lr_sum += self.lr

    # ---- its samples

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Shuffle and augment all training samples once: (x [B, 3, h, w], y [B]), no last batch of one."""
        samples, seed, batch = self.samples, self.worker.spec.seed, self.worker.spec.local.batch
        rng = generator(seed, "begin", self.t, self.k)
        order = self.data.train[torch.randperm(self.n, generator=rng)]
        order = order.to(samples.home, non_blocking=True)
        draws = samples.augment.draw(self.n, rng).to(samples.device, non_blocking=True)
        full, rest = divmod(self.n, batch)
        yield from batches(samples, order, draws, [batch] * full + [rest] * (rest > 1))

    @torch.no_grad()
    def plain(self, split: str) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples of a split ("train", "val", "test") in order, not augmented: (x [B, 3, h, w], y [B])."""
        index = self.data.split(split).to(self.samples.home)
        for pixels, y in self.samples.stream(index.split(at_once(self.samples))):
            yield self.samples.evaluate(pixels), y

    @torch.no_grad()
    def mean(self, split: str, measure: Callable[[Tensor, Tensor], Tensor] | None = None) -> Tensor:
        """The mean of measure(x, y), by default the loss, over a split; in eval mode, without gradient.

        `measure` returns the mean over its batch. Raises FedshiftError for a client without a sample in the
        split.
        """
        n = len(self.data.split(split))
        if not n:
            cure = f"Give the partition's fractions a larger '{split}' part."
            raise FedshiftError(f"client {self.k}", f"it holds no {split} sample to measure on", cure)
        measure = measure or (lambda x, y: self.criterion(self.model(x).logits, y))
        training = self.model.training
        self.model.eval()
        total = torch.zeros((), device=self.samples.device)
        for x, y in self.plain(split):
            with self.precision():
                total = total + measure(x, y) * (len(y) / n)
        self.model.train(training)
        return total

    def log(self, name: str, value: Tensor) -> None:
        """Save a small tensor of this round with the run.

        It stays on the device until the round ends; the last one of a name counts. Raises FedshiftError for a
        name that is not among the method's `logs`.
        """
        self.worker.log.of_client(name, value, self.k)
