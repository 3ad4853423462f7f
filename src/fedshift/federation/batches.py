"""The samples that a client sees, and their order: the same for every method."""

import hashlib
from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from fedshift.spec.settings import Local


def schedule(
    n: int, local: Local, seed: int, t: int, client: int, batch_norm: bool
) -> list[tuple[int, Tensor]]:
    """Batches of round `t` for a client with `n` samples, by `local.batch_rule` (docs/protocols.md, C7).

    Each is (epoch, positions in the client's data [B]).

    - wrap: epochs * ceil(n / B) batches of B from shuffled passes, each without its remainder
    - drop_last: `epochs` passes without the remainder
    - keep_last: `epochs` passes with the remainder; with batch normalisation, not if it is a single image

    A client with fewer than B samples takes one batch of all it has.
    """
    rng = generator(seed, "batches", t, client)
    full = min(local.batch, n)
    per_epoch = n // full if local.batch_rule == "drop_last" else -(-n // local.batch)
    if local.batch_rule == "wrap":
        stream = _passes(n, full, rng)
        batches = [next(stream) for _ in range(local.epochs * per_epoch)]
    else:
        passes = [torch.randperm(n, generator=rng) for _ in range(local.epochs)]
        batches = [part for order in passes for part in order.split(full)[:per_epoch]]
    return [(i // per_epoch, part) for i, part in enumerate(batches) if len(part) > 1 or not batch_norm]


def _passes(n: int, size: int, rng: torch.Generator) -> Iterator[Tensor]:
    while True:
        yield from torch.randperm(n, generator=rng).split(size)[: n // size]


def participants(clients: int, fraction: float, seed: int, t: int) -> list[int]:
    """The clients of round `t`, ascending: max(1, round(fraction * clients)), uniform without replacement."""
    count = max(1, round(fraction * clients))
    if count == clients:
        return list(range(clients))
    return sorted(torch.randperm(clients, generator=generator(seed, "participants", t))[:count].tolist())


def visits(clients: int, fraction: float, seed: int, rounds: int) -> list[int]:
    """The number of rounds that each client takes part in, of the first `rounds`."""
    counts = Counter(k for t in range(rounds) for k in participants(clients, fraction, seed, t))
    return [counts[k] for k in range(clients)]


def key(seed: int, purpose: str, *where: int | str) -> int:
    """A 63-bit seed for one purpose ("split", "start", "batches", "augment", "method", ..) at one place."""
    text = "/".join(map(str, (seed, purpose, *where)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, purpose: str, *where: int | str) -> torch.Generator:
    """A CPU generator for one purpose at one place; its numbers are the same on every device."""
    return torch.Generator().manual_seed(key(seed, purpose, *where))
