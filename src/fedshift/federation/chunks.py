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
    most = budget // (4 * samples.pixels[0].numel())
    start = 0
    for size, alike in itertools.groupby(sizes):
        remaining = len(list(alike))
        while remaining:
            count = max(1, min(remaining, most // size))
            stop = start + count * size
            pixels, y = samples.take(order[start:stop])
            x = samples.augment(pixels, draws[start:stop], size)
            yield from zip(x.split(size), y.split(size), strict=True)
            start, remaining = stop, remaining - count
