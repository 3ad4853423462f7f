"""Batches, gathered and augmented many at once: launches cost a small batch more than its arithmetic does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from torch import Tensor

from fedshift.federation.samples import Samples

# Bytes of stored pixels, as floats, that are worked on at once; the work takes some ten times as much. A CPU
# gains no more from large ones than its cache holds.
AT_ONCE = {"cpu": 4 << 20}
AT_ONCE_ELSEWHERE = 64 << 20


def batches(
    samples: Samples, order: Tensor, draws: Tensor, sizes: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor]]:
    """The samples at `order` [M] (at home), augmented by `draws` [M, ..] (on the device), in batches of these
    sizes, one after the other: x [B, 3, h, w], y [B].

    Numbers are those of each batch augmented by itself.
    """
    budget = AT_ONCE.get(samples.device.type, AT_ONCE_ELSEWHERE)
    chunks = list(_chunks(sizes, budget // (4 * samples.pixels[0].numel())))
    gathered = samples.stream(order[chunk] for chunk, _ in chunks)
    for (chunk, size), (pixels, y) in zip(chunks, gathered, strict=True):
        x = samples.augment(pixels, draws[chunk], size)
        yield from zip(x.split(size), y.split(size), strict=True)


def _chunks(sizes: Sequence[int], most: int) -> Iterator[tuple[slice, int]]:
    """Which samples are worked on at once, and the size of their batches: at most `most`, but a batch at
    least.
    """
    start = 0
    for size, alike in itertools.groupby(sizes):
        remaining = len(list(alike))
        while remaining:
            count = max(1, min(remaining, most // size))
            yield slice(start, start + count * size), size
            start, remaining = start + count * size, remaining - count
