"""A whole run written out without the engine: what the replays of several methods share. Models are dictionaries of tensors by name."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.registry import get
from fedshift.federation.batches import participants, schedule
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.spec import RunSpec
from fedshift.testing.toys import SIZES as SPLITS
from fedshift.testing.toys import Floats, finish, images

Tensors = dict[str, Tensor]
SIZES = tuple(train for train, _, _ in SPLITS)  # training samples of the three clients
PARTIAL = {"rounds": 3, "participation": 0.67}  # clients 0 and 2, then 1 and 2, then 0 and 2 again


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
    def __call__(self, images: Tensor, draws: Tensor, size: int | None = None) -> Tensor:
        return pixels(images)


def federation(run: RunSpec, chosen: Method, classes: int = 2) -> Federation:
    """digits_cnn on random images of `classes` classes, in the default precision."""
    samples, held, target = images(len(SIZES))
    samples.augment, samples.evaluate = Doubles(), pixels
    if classes > 2:
        samples.labels = samples.host_labels = torch.arange(len(samples.labels)) * 7 // 3 % classes
    network = get("models", "digits_cnn")
    build = lambda: network(classes, 32)  # noqa: E731
    return Federation(run, chosen, build, samples, held, target, criterion=F.cross_entropy)


def named(f: Federation, row: Tensor) -> Tensors:
    return {name: value.clone() for name, value in f.layout.named(row).items()}


def trainable(P: Tensors) -> list[str]:
    return [name for name in P if "running_" not in name and "variance_" not in name]


def active(f: Federation, t: int) -> list[int]:
    """Who takes part in round t: the engine's to say."""
    return participants(len(f.clients), f.spec.federation.participation, f.spec.seed, t)


def by_size(chosen: Sequence[int]) -> list[float]:
    """The weights of the clients of a round by their training samples."""
    return [SIZES[k] / sum(SIZES[one] for one in chosen) for k in chosen]


def equal(chosen: Sequence[int]) -> list[float]:
    return [1 / len(chosen)] * len(chosen)


def average(models: Sequence[Tensors], weights: Sequence[float]) -> Tensors:
    pairs = list(zip(weights, models, strict=True))
    return {name: torch.stack([w * P[name].detach() for w, P in pairs]).sum(0) for name in models[0]}


def copied(P: Tensors) -> Tensors:
    return {name: value.detach().clone() for name, value in P.items()}


def batches(f: Federation, k: int, t: int) -> Iterator[tuple[bool, Tensor, Tensor]]:
    """(first of its epoch, x, y) of client k's round t: who sees which image is the engine's to say."""
    train, previous = f.clients[k].train, -1
    for epoch, positions in schedule(len(train), f.worker.spec.local, f.worker.spec.seed, t, k, True):
        x, y = f.worker.samples.take(train[positions])
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


def feature(
    P: Tensors, x: Tensor, train: bool, after: Callable[[int, Tensor], Tensor] = lambda s, x: x
) -> Tensor:
    """The input of the head; after: what follows each stage."""
    for s in range(1, 5):
        x = after(s, stage(P, s, x, train))
    return x.mean((2, 3))


def head(P: Tensors, z: Tensor) -> Tensor:
    return z @ P["head.weight"].T + P["head.bias"]


def logits(
    P: Tensors, x: Tensor, train: bool, after: Callable[[int, Tensor], Tensor] = lambda s, x: x
) -> Tensor:
    return head(P, feature(P, x, train, after))


def cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    """Mean over the batch."""
    return -torch.log_softmax(out, 1)[torch.arange(len(y)), y].mean()


def leaves(P: Tensors) -> None:
    for name in trainable(P):
        P[name] = P[name].detach().requires_grad_()


Change = Callable[[str, Tensor, Tensor], Tensor]  # name, weight, gradient -> gradient


def descend(
    P: Tensors, loss: Tensor, lr: float, momentum: Tensors, local: Any,
    before: Change = lambda name, w, g: g, after: Change = lambda name, w, g: g,
) -> None:  # fmt: skip
    """SGD with weight decay, momentum and clipping as torch defines them; the gradient may change before it is clipped, or after."""
    names = trainable(P)
    found = torch.autograd.grad(loss, [P[name] for name in names], materialize_grads=True)
    g = {name: before(name, P[name].detach(), one) for name, one in zip(names, found, strict=True)}
    length = torch.cat([one.flatten() for one in g.values()]).norm()
    scale = 1.0 if local.clip is None else (local.clip / (length + 1e-6)).clamp(max=1)
    for name, one in g.items():
        w = P[name].detach()
        step = after(name, w, scale * one) + local.weight_decay * w
        momentum[name] = local.momentum * momentum[name] + step if name in momentum else step
        P[name] = w - lr * momentum[name]


def trained(
    f: Federation, received: Tensors, k: int, t: int,
    loss: Callable[[Tensors, Tensor, Tensor], Tensor] = lambda P, x, y: cross_entropy(logits(P, x, True), y),
    **change: Change,
) -> Tensors:  # fmt: skip
    """Client k's model after round t, with a new optimiser at the rate that `local` starts with."""
    P, momentum, local = copied(received), Tensors(), f.spec.local
    for _, x, y in batches(f, k, t):
        leaves(P)
        descend(P, loss(P, x, y), local.lr, momentum, local, **change)
    return copied(P)


def averaged(
    f: Federation, turn: Callable[[Tensors, int, int], Tensors],
    weights: Callable[[Sequence[int]], list[float]] = by_size,
) -> Tensors:  # fmt: skip
    """The model after all rounds of a federation whose server averages; turn(received, k, t): client k's model after round t."""
    G = named(f, f.state.row)
    for t in range(f.spec.federation.rounds):
        chosen = active(f, t)
        G = average([turn(G, k, t) for k in chosen], weights(chosen))
    return G


def differs(f: Federation, G: Tensors) -> float:
    """How far the engine's global model, after its whole run, is from G."""
    return far(named(finish(f), f.state.row), G)


def kept(f: Federation, k: int) -> Tensors:
    """The engine's global model with client k's private tensors in it."""
    return named(f, f.state.private_row(k))


def far(computed: Tensors, expected: Tensors) -> float:
    """The largest difference of any tensor, relative to its largest entry."""
    return max(
        float((computed[name] - value).abs().max() / value.abs().max().clamp(min=1e-9))
        for name, value in expected.items()
    )
