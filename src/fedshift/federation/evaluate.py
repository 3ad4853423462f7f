"""Accuracy and loss of rows on sets of samples, one pass per row, one transfer to the host per evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.network import Network
from fedshift.federation.samples import Samples

BATCH = 250


@dataclass(frozen=True)
class Scored:
    """Mean accuracy and cross entropy of one row on one named set of n samples."""

    client: int
    split: str
    n: int
    accuracy: float
    loss: float


@torch.no_grad()
def evaluate(
    network: Network,
    row: Tensor,
    samples: Samples,
    sets: list[tuple[int, str, Tensor]],
    precision: Callable[[], torch.autocast],
) -> list[Scored]:
    """Score `row` [P + Q] on sets (client, split, positions); empty sets are left out. Dropout off, statistics as stored."""
    sets = [one for one in sets if len(one[2])]
    if not sets:
        return []
    model = network.bind(row).model.eval()
    index = torch.cat([positions for _, _, positions in sets])
    scores = torch.empty(2, len(index), dtype=torch.float64, device=row.device)
    for start in range(0, len(index), BATCH):
        pixels, y = samples.take(index[start : start + BATCH])
        with precision():
            logits = model(samples.evaluate(pixels)).logits.float()
        scores[0, start : start + BATCH] = logits.argmax(1) == y
        scores[1, start : start + BATCH] = F.cross_entropy(logits, y, reduction="none")
    means = torch.stack(
        [part.mean(1) for part in scores.split([len(positions) for _, _, positions in sets], dim=1)]
    ).tolist()
    return [
        Scored(client, split, len(positions), *values)
        for (client, split, positions), values in zip(sets, means, strict=True)
    ]
