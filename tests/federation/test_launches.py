"""What a step asks of a device does not grow unseen: benchmarks/launches.csv is what `python benchmarks/launches.py` counts."""

from __future__ import annotations

import csv

import pytest
import torch

from fedshift.data.augment import Augment, Evaluate
from fedshift.federation import chunks
from fedshift.federation.launches import Count, Tally
from fedshift.federation.samples import Samples
from fedshift.testing.launches import WORK, bare, demand
from tests.conftest import ROOT

ROWS = {
    (row["work"], row["method"]): row
    for row in csv.DictReader((ROOT / "benchmarks" / "launches.csv").read_text().splitlines())
}
CURE = "Run `python benchmarks/launches.py` if this is meant"


@pytest.mark.parametrize("name", ["fedavg", "fedbn", "scaffold", "ditto"])
def test_the_file_says_what_a_step_asks_for(name: str) -> None:
    row, counted = ROWS["digits", name], demand(name, WORK["digits"])
    for part, count in (("step", counted.step), ("rest", counted.rest)):
        told = (f"{count.launches:.1f}", f"{count.bytes / 1e6:.2f}", f"{count.flops / 1e9:.4f}")
        assert tuple(row[f"{part}_{field}"] for field in ("launches", "mb", "gflop")) == told, CURE


def test_the_file_says_what_a_bare_step_asks_for() -> None:
    assert float(ROWS["digits", "bare"]["step_launches"]) == bare(WORK["digits"]).launches


def test_fedavg_adds_little_to_a_bare_step() -> None:
    """The targets: at most 80 launches with hFedF's network, 95 with DomainBed's augmentation."""
    assert float(ROWS["w32", "fedavg"]["step_launches"]) <= 80
    assert float(ROWS["w32_augmented", "fedavg"]["step_launches"]) <= 95


def test_operations_are_counted_by_hand() -> None:
    a, b = torch.empty(2, 3, device="meta"), torch.empty(3, 5, device="meta")
    with Tally() as tally:
        c = a @ b  # 6 + 15 floats read, 10 written; 2 x 3 x 5 multiply-adds
        c.view(5, 2)  # a view
        torch.ones(4).add(1)  # on the host
        c.add_(1.0)  # read and written
        c.zero_()  # written
    assert tally.count == Count(3, 4 * (6 + 15 + 10 + 20 + 10), 60)
    with Tally() as tally:
        torch.empty(1000, 3, device="meta").index_select(0, torch.empty(2, dtype=torch.int64, device="meta"))
    assert tally.count == Count(3, 4 * 12, 0)  # allocations move nothing; a gather reads what it takes


@pytest.mark.parametrize("at_once", [0, 3, 1 << 30])
def test_batches_are_the_same_however_many_are_made_at_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    augment, evaluate = Augment("domainbed", 16, 12, "imagenet"), Evaluate(16, 12, "imagenet")
    rng = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (60, 16, 16, 3), generator=rng, dtype=torch.uint8)
    samples = Samples(pixels, torch.arange(60), augment, evaluate)
    order, draws = torch.randperm(60, generator=rng), augment.draw(60, rng)
    sizes = [10, 10, 10, 5, 10, 10, 5]  # no multiples of 4: the place in the batch decides when hue turns
    monkeypatch.setitem(chunks.AT_ONCE, "cpu", at_once * 10 * 4 * 16 * 16 * 3)
    taken: list[int] = []
    take = samples.take
    monkeypatch.setattr(samples, "take", lambda index: (taken.append(len(index)), take(index))[1])
    made = [*chunks.batches(samples, order, draws, sizes)]
    assert taken == {0: sizes, 3: [30, 5, 20, 5]}.get(at_once, [30, 5, 20, 5])
    for (x, y), part, own in zip(made, order.split(sizes), draws.split(sizes), strict=True):
        # A CPU's matrix products may round otherwise in a batch of thirty than of ten (seen on a Xeon with AMX).
        torch.testing.assert_close(x, augment(pixels[part], own), rtol=1e-6, atol=1e-6)
        assert torch.equal(y, part)
