"""Which samples a client sees: counts, order, and independence of everything else."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from fedshift.federation.batches import participants, schedule
from fedshift.testing.toys import spec


def batches(
    n: int, rule: str, batch: int = 8, epochs: int = 2, batch_norm: bool = True, **place: int
) -> list[list[int]]:
    local = spec(local={"batch": batch, "batch_rule": rule, "epochs": epochs}).local
    plan = schedule(n, local, place.get("seed", 0), place.get("t", 0), place.get("client", 0), batch_norm)
    return [plan.order[start:stop].tolist() for _, start, stop in plan.cuts]


@pytest.mark.parametrize(
    ("n", "rule", "sizes"),
    [
        (20, "keep_last", [8, 8, 4] * 2),
        (20, "drop_last", [8, 8] * 2),
        (20, "wrap", [8] * 6),  # epochs * ceil(20 / 8), as FLGo counts
        (16, "wrap", [8] * 4),
        (5, "wrap", [5] * 2),  # smaller than a batch: one of all it has
        (5, "drop_last", [5] * 2),
        (5, "keep_last", [5] * 2),
        (17, "keep_last", [8, 8] * 2),  # a single image cannot pass batch normalisation
        (1, "keep_last", []),
    ],
)
def test_sizes(n: int, rule: str, sizes: list[int]) -> None:
    assert [len(batch) for batch in batches(n, rule)] == sizes


def test_a_single_image_is_kept_without_batch_normalisation() -> None:
    assert [len(batch) for batch in batches(17, "keep_last", batch_norm=False)] == [8, 8, 1] * 2


def test_every_epoch_is_a_permutation() -> None:
    seen = batches(20, "keep_last")
    for epoch in (seen[:3], seen[3:]):
        assert sorted(chain(*epoch)) == list(range(20))
    assert seen[:3] != seen[3:]


def test_wrap_shows_no_sample_twice_within_a_pass() -> None:
    seen = batches(20, "wrap", epochs=1)
    assert len(set(chain(*seen[:2]))) == 16


def test_epochs_are_marked() -> None:
    local = spec(local={"batch": 8, "batch_rule": "wrap", "epochs": 2}).local
    assert [epoch for epoch, _, _ in schedule(20, local, 0, 0, 0, True).cuts] == [0, 0, 0, 1, 1, 1]


def test_order_is_keyed_by_seed_round_and_client() -> None:
    first = batches(20, "keep_last")
    torch.rand(5)  # the default generator plays no part
    assert batches(20, "keep_last") == first
    for place in ({"seed": 1}, {"t": 1}, {"client": 1}):
        assert batches(20, "keep_last", **place) != first


def test_participants() -> None:
    assert participants(4, 1.0, 0, 0) == [0, 1, 2, 3]
    assert participants(30, 1e-9, 0, 0) == participants(30, 1 / 30, 0, 0)
    rounds = [participants(30, 1 / 3, 0, t) for t in range(200)]
    assert all(len(set(chosen)) == 10 and chosen == sorted(chosen) for chosen in rounds)
    counts = torch.bincount(torch.tensor(rounds).flatten(), minlength=30)
    assert counts.sum() == 2000
    assert counts.min() > 40  # 66.7 expected, standard deviation 6.7
    assert counts.max() < 95
