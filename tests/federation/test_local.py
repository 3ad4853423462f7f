"""A client's training: which samples it sees and how they are gathered, the optimiser and its schedules."""

import math
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.data.augment import Augment, Evaluate
from fedshift.data.load import load
from fedshift.data.partition import partition
from fedshift.federation import samples as module
from fedshift.federation.batches import participants, schedule
from fedshift.federation.optimizer import learning_rate
from fedshift.federation.samples import Samples
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.testing.toys import spec
from fedshift.training.assemble import assemble


def batches(
    n: int, rule: str, batch: int = 8, epochs: int = 2, batch_norm: bool = True, **place: int
) -> list[list[int]]:
    local = spec(local={"batch": batch, "batch_rule": rule, "epochs": epochs}).local
    plan = schedule(n, local, place.get("seed", 0), place.get("t", 0), place.get("client", 0), batch_norm)
    return [positions.tolist() for _, positions in plan]


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


@pytest.mark.parametrize(
    ("schedule", "t", "epoch", "factor"),
    [
        ({}, 7, 1, 1.0),
        ({"kind": "exponential", "gamma": 0.998}, 0, 1, 1.0),
        ({"kind": "exponential", "gamma": 0.998}, 500, 0, 0.998**500),
        ({"kind": "exponential", "gamma": 0.5, "unit": "epoch"}, 1, 1, 0.5**6),
        ({"kind": "step", "gamma": 0.1, "step": 20}, 39, 0, 0.1),
        ({"kind": "step", "gamma": 0.1, "step": 400, "unit": "epoch"}, 80, 0, 0.1),
        ({"kind": "cosine"}, 25, 0, (1 + math.cos(math.pi / 4)) / 2),
        ({"kind": "cosine", "unit": "epoch"}, 25, 3, (1 + math.cos(math.pi * 128 / 500)) / 2),
        ({"kind": "cosine"}, 0, 0, 1.0),
    ],
)
def test_schedules(schedule: dict[str, Any], t: int, epoch: int, factor: float) -> None:
    local = spec(local={"lr": 0.2, "epochs": 5, "schedule": schedule}).local
    assert learning_rate(local, 100, t, epoch) == pytest.approx(0.2 * factor, rel=1e-12)


PARTS = torch.arange(40).flip(0).split(4)


def samples(resident_bytes: int = 0) -> Samples:
    pixels = torch.randint(256, (40, 4, 4, 3), dtype=torch.uint8)
    transforms = Augment("none", 4, 4, "unit"), Evaluate(4, 4, "unit")
    return Samples(pixels, torch.arange(40), *transforms, resident_bytes=resident_bytes)


def test_batches_come_in_order_and_are_those_that_take_gives() -> None:
    given = samples()
    gathered = list(given.stream(PARTS))
    assert len(gathered) == len(PARTS)
    for index, (pixels, labels) in zip(PARTS, gathered, strict=True):
        taken = given.take(index)
        assert pixels.equal(taken[0])
        assert labels.equal(taken[1]) and labels.equal(index)


def test_an_error_of_the_thread_arrives_and_the_next_stream_works() -> None:
    given = samples()
    with pytest.raises(IndexError):
        list(given.stream([PARTS[0], torch.tensor([40])]))
    next(given.stream(PARTS))  # left half-way
    assert len(list(given.stream(PARTS))) == len(PARTS)


def test_a_run_is_bit_identical(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"target": "texture", "augment": "flip"}
    run = resolve(toys.spec(data=data, local={"batch": 48}, method={"name": "fdse"}))
    workspace = Workspace(project)
    partition(workspace, run)
    rows = []
    for room in (module._room, lambda device: 0):
        monkeypatch.setattr(module, "_room", room)
        federation, _ = assemble(run, load(workspace, run), torch.device("cpu"))
        assert (federation.worker.samples._reader is None) == (not rows)
        for _ in federation.run():
            pass
        rows.append(federation.state.state_dict())
    torch.testing.assert_close(rows[0], rows[1], rtol=0, atol=0)
