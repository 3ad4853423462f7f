"""A whole run written out without the engine: what the replays of several methods share. Models are dictionaries of tensors by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.batches import schedule
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.registry import get
from fedshift.spec import RunSpec
from tests.federation.toys import Floats, images

Tensors = dict[str, Tensor]
SIZES = (12, 9, 7)  # training samples of the three clients


@contextmanager
def doubles() -> Iterator[None]:
    """fp64 wherever torch is not told otherwise; also a decorator."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def pixels(stored: Tensor) -> Tensor:
    return (stored.to(torch.get_default_dtype()) / 127.5 - 1).permute(0, 3, 1, 2)


class Doubles(Floats):
    def __call__(self, images: Tensor, draws: Tensor) -> Tensor:
        return pixels(images)


def federation(run: RunSpec, chosen: Method, classes: int = 2) -> Federation:
    """digits_cnn on random images of `classes` classes, in the default precision."""
    samples, held, target = images(len(SIZES))
    samples.augment, samples.evaluate = Doubles(), pixels
    if classes > 2:
        samples.labels = samples.host_labels = torch.arange(len(samples.labels)) * 7 // 3 % classes
    clients = [replace(client, train=client.train[:n]) for client, n in zip(held, SIZES, strict=True)]
    network = get("models", "digits_cnn")
    build = lambda: network(classes, 32)  # noqa: E731
    return Federation(run, chosen, build, samples, clients, target, criterion=F.cross_entropy)


def named(f: Federation, row: Tensor) -> Tensors:
    return {name: value.clone() for name, value in f.layout.named(row).items()}


def trainable(P: Tensors) -> list[str]:
    return [name for name in P if "running" not in name]


def batches(f: Federation, k: int, t: int) -> Iterator[tuple[bool, Tensor, Tensor]]:
    """(first of its epoch, x, y) of client k's round t: who sees which image is the engine's to say."""
    train, previous = f.clients[k].train, -1
    plan = schedule(len(train), f.turn.spec.local, f.turn.spec.seed, t, k, True)
    for epoch, start, stop in plan.cuts:
        x, y = f.turn.samples.take(train[plan.order[start:stop]])
        yield epoch != previous, pixels(x), y
        previous = epoch


def norm(P: Tensors, at: str, x: Tensor, train: bool) -> Tensor:
    """Batch normalisation with the tensors below `at`; in training it moves the running statistics by 0.1."""
    axes, shape = (0, *range(2, x.dim())), (1, -1, *[1] * (x.dim() - 2))
    running = P[f"{at}running_mean"], P[f"{at}running_var"]
    mean, variance = (x.mean(axes), x.var(axes, correction=0)) if train else running
    if train:
        n = x.numel() // x.shape[1]
        for old, new in zip(running, (mean, variance * n / (n - 1)), strict=True):
            old.mul_(0.9).add_(0.1 * new.detach())
    x = (x - mean.view(shape)) / (variance.view(shape) + 1e-5).sqrt()
    return x * P[f"{at}weight"].view(shape) + P[f"{at}bias"].view(shape)


def stage(P: Tensors, s: int, x: Tensor, train: bool) -> Tensor:
    """One of the four stages of digits_cnn."""
    at = f"stages.stage{s}."
    x = F.conv2d(x, P[f"{at}conv.weight"], P[f"{at}conv.bias"], padding=1)
    x = norm(P, f"{at}bn.", x, train).clamp(min=0)
    return F.max_pool2d(x, 2) if s < 4 else x


def logits(P: Tensors, x: Tensor, train: bool) -> Tensor:
    for s in range(1, 5):
        x = stage(P, s, x, train)
    return x.mean((2, 3)) @ P["head.weight"].T + P["head.bias"]


def leaves(P: Tensors) -> None:
    for name in trainable(P):
        P[name] = P[name].detach().requires_grad_()


def descend(P: Tensors, loss: Tensor, lr: float, momentum: Tensors, local: Any) -> None:
    """SGD with weight decay, momentum and clipping as torch defines them."""
    names = trainable(P)
    g = torch.autograd.grad(loss, [P[name] for name in names], materialize_grads=True)
    length = torch.cat([one.flatten() for one in g]).norm()
    scale = 1.0 if local.clip is None else (local.clip / (length + 1e-6)).clamp(max=1)
    for name, one in zip(names, g, strict=True):
        w = P[name].detach()
        step = scale * one + local.weight_decay * w
        momentum[name] = local.momentum * momentum[name] + step if name in momentum else step
        P[name] = w - lr * momentum[name]


def far(computed: Tensors, expected: Tensors) -> float:
    """The largest difference of any tensor, relative to its largest entry."""
    return max(
        float((computed[name] - value).abs().max() / value.abs().max().clamp(min=1e-9))
        for name, value in expected.items()
    )
