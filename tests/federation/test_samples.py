"""Images that are gathered ahead: the same numbers, while the caller computes."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedshift.data.augment import Augment, Evaluate
from fedshift.data.load import load
from fedshift.data.partition import partition
from fedshift.federation import samples as module
from fedshift.federation.samples import AHEAD, Batch, Samples
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.training.assemble import assemble

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


def test_while_the_caller_computes_on_one_batch_the_next_ones_are_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given, gather = samples(), Samples._gather
    gathered, threads = [threading.Event() for _ in PARTS], set()

    def gathering(self: Samples, index: Tensor) -> Batch:
        batch = gather(self, index)
        threads.add(threading.current_thread())
        gathered[(39 - int(index[0])) // 4].set()
        return batch

    monkeypatch.setattr(Samples, "_gather", gathering)
    stream = given.stream(PARTS)
    for number in range(len(PARTS)):
        next(stream)
        for following in gathered[number + 1 : number + 1 + AHEAD]:
            assert following.wait(60), f"nothing was gathered ahead of batch {number}"
        assert not any(event.is_set() for event in gathered[number + 1 + AHEAD :])  # no more than that
    assert len(threads) == 1 and threading.current_thread() not in threads


def test_resident_images_are_gathered_by_whoever_takes_them() -> None:
    before = threading.active_count()
    given = samples(40 * 4 * 4 * 3)
    assert len(list(given.stream(PARTS))) == len(PARTS)
    assert threading.active_count() == before


def test_an_error_of_the_thread_arrives_and_the_next_stream_works() -> None:
    given = samples()
    with pytest.raises(IndexError):
        list(given.stream([PARTS[0], torch.tensor([40])]))
    next(given.stream(PARTS))  # left half-way
    assert len(list(given.stream(PARTS))) == len(PARTS)


@pytest.mark.parametrize("name", ["fedavg", "fdse", "stablefdg"])
def test_a_run_is_bit_identical(name: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = resolve(
        toys.spec(data={"target": "texture", "augment": "flip"}, local={"batch": 48}, method={"name": name})
    )
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


def test_images_are_not_scaled_unless_asked_for() -> None:
    x = torch.rand(2, 3, 4, 4)
    assert samples().normalised(x).equal(x) and samples().unit(x).equal(x)
