"""Accuracy, loss and statistics of a row on sets of samples, by one pass and one transfer to the host."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.tensors import on_host
from fedshift.federation.layout import Network
from fedshift.federation.records import BINS, Statistics
from fedshift.federation.samples import Samples

BATCH, LARGE_BATCH = 250, 2000
AT_ONCE = 20 << 20  # bytes of a batch's pixels, as floats: a CPU is slower with more
AT_ONCE_ELSEWHERE = 128 << 20
Set = tuple[int, str, Tensor]  # client, split, positions


@dataclass(frozen=True)
class Scored:
    """Mean accuracy, mean cross entropy and statistics of one row on a set of n samples."""

    client: int
    split: str
    n: int
    accuracy: float
    loss: float
    statistics: Statistics


def at_once(samples: Samples) -> int:
    """Number of samples per pass when a method requests values without training."""
    if samples.device.type != "cpu":
        return BATCH
    return max(1, min(BATCH, AT_ONCE // (4 * samples.pixels[0].numel())))


def evaluated_at_once(samples: Samples) -> int:
    """Number of samples that are tested together.

    On a GPU it is larger than `at_once` for small images, for fewer launches. Methods' training does not
    depend on it.
    """
    if samples.device.type == "cpu":
        return at_once(samples)
    return max(BATCH, min(LARGE_BATCH, AT_ONCE_ELSEWHERE // (4 * samples.pixels[0].numel())))


@torch.no_grad()
def evaluate(
    network: Network, row: Tensor, samples: Samples, sets: list[Set], precision: Callable[[], torch.autocast]
) -> list[Scored]:
    """Score `row` [P + Q] on sets (client, split, positions) in eval mode; empty sets are left out."""
    sets = [named for named in sets if len(named[2])]
    if not sets:
        return []
    model = network.bind(row).model.eval()
    index = torch.cat([positions for _, _, positions in sets])
    scores = torch.empty(3, len(index), dtype=torch.float64, device=row.device)
    labels = torch.empty(len(index), dtype=torch.int64, device=row.device)
    classes = 0
    size = evaluated_at_once(samples)
    starts = range(0, len(index), size)
    for start, (pixels, y) in zip(starts, samples.stream(index.split(size)), strict=True):
        batch = slice(start, start + size)
        with precision():
            logits = model(samples.evaluate(pixels)).logits.float()
        log_probability = logits.log_softmax(1)
        scores[0, batch] = logits.argmax(1) == y
        scores[1, batch] = F.nll_loss(log_probability, y, reduction="none")
        scores[2, batch] = log_probability.amax(1).exp()
        labels[batch], classes = y, logits.shape[1]
    sizes = [len(positions) for _, _, positions in sets]
    means = torch.stack([part.mean(1) for part in scores[:2].split(sizes, dim=1)])
    means, by_class, histogram = on_host([means, *_sums(scores, labels, sizes, classes)])
    columns = sets, sizes, means.tolist(), map(_statistics, by_class, histogram)
    return [
        Scored(client, split, n, accuracy, loss, statistics)
        for (client, split, _), n, (accuracy, loss), statistics in zip(*columns, strict=True)
    ]


def _sums(scores: Tensor, labels: Tensor, sizes: list[int], classes: int) -> tuple[Tensor, Tensor]:
    """Samples, correct, loss by set and class [S, C, 3]; samples, confidence by bin [S, 2, BINS, 2]."""
    correct, loss, confidence = scores
    ones, device = torch.ones_like(correct), scores.device
    owner = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)).to(device)
    bins = (confidence * BINS).nan_to_num(0.0).long().clamp(0, BINS - 1)
    by_class = torch.zeros(len(sizes) * classes, 3, dtype=scores.dtype, device=device)
    by_class.index_add_(0, owner * classes + labels, torch.stack([ones, correct, loss], 1))
    histogram = torch.zeros(len(sizes) * 2 * BINS, 2, dtype=scores.dtype, device=device)
    histogram.index_add_(0, (2 * owner + correct.long()) * BINS + bins, torch.stack([ones, confidence], 1))
    return by_class.view(len(sizes), classes, 3), histogram.view(len(sizes), 2, BINS, 2)


def _statistics(by_class: Tensor, histogram: Tensor) -> Statistics:
    """The statistics of one set, from its sums [C, 3] and [2, BINS, 2] on the host."""
    n, correct, loss = by_class.unbind(1)
    wrong, right = histogram[..., 0]
    arrays = (n, correct, loss / n.clamp(min=1), wrong, right, histogram[..., 1].sum(0))
    return Statistics(*(array.numpy() for array in arrays))
