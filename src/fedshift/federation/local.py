"""Local training, the only caller of a method's `loss`, `grad` and `step`."""

from functools import partial

import torch
from torch import Tensor

from fedshift.federation.batches import generator, key, schedule
from fedshift.federation.client import Client
from fedshift.federation.graph import Steps
from fedshift.federation.method import Method
from fedshift.federation.optimizer import Optimizer, learning_rate
from fedshift.federation.samples import batches


def train(client: Client, method: Method) -> Tensor:
    """Train on all batches of the round; returns (sum of losses, samples seen) [2], fp64, on the device."""
    worker, samples = client.worker, client.samples
    local, seed = worker.spec.local, worker.spec.seed
    plan = schedule(client.n, local, seed, client.t, client.k, worker.batch_norm)
    on_host = client.data.train[torch.cat([torch.empty(0, dtype=torch.int64), *(part for _, part in plan)])]
    order = on_host.to(samples.home, non_blocking=True)
    draws = samples.augment.draw(len(order), generator(seed, "augment", client.t, client.k))
    draws = draws.to(samples.device, non_blocking=True)
    torch.manual_seed(key(seed, "dropout", client.t, client.k))
    client.model.train()
    optimizer = client.optimizer("model", client.network)
    sizes = [len(part) for _, part in plan]
    steps = Steps(client, method, partial(_step, client, method, optimizer), worker.graph)
    losses: list[Tensor] = []
    previous = -1
    taken = batches(samples, order, draws, sizes)
    for (epoch, _), index, (x, y) in zip(plan, on_host.split(sizes), taken, strict=True):
        client.rate(learning_rate(local, worker.spec.federation.rounds, client.t, epoch))
        client.new_epoch, previous = epoch != previous, epoch
        client.labels = samples.host_labels[index]
        losses.append(steps.take(x, y))
    seen = torch.tensor(sizes, dtype=torch.float64).to(samples.device, non_blocking=True)
    means = torch.stack(losses).double() if losses else seen
    return torch.stack([means @ seen, seen.sum()])


def _step(client: Client, method: Method, optimizer: Optimizer, x: Tensor, y: Tensor) -> Tensor:
    """Take one step on a batch and return its loss."""
    with client.precision():
        loss = method.loss(client, x, y)
    _descend(client, method, optimizer, loss)
    client.stepped()
    with client.precision():
        method.step(client, x, y)
    return loss.detach()


def _descend(client: Client, method: Method, optimizer: Optimizer, loss: Tensor) -> None:
    """Take one step along the gradient, changed by the method and clipped in the order that it declares."""
    g = client.network.g
    client.network.backward(loss)
    if method.clip_first:
        optimizer.clip()
    method.grad(client, g)
    if not method.clip_first:
        optimizer.clip()
    optimizer.step()
