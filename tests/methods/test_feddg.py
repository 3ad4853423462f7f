"""FedDG: whose amplitudes are drawn, what is sent once, its limit. Its rounds: test_feddg_replay.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedshift.methods import feddg
from fedshift.methods.feddg import draw_amplitudes, half_width
from fedshift.testing.toys import finish, method, recorded, small, spec


@pytest.mark.parametrize(("size", "half"), [(224, 2), (32, 1), (64, 1), (512, 5)])
def test_half_width(size: int, half: int) -> None:
    assert half_width(size, 0.01) == half
    assert half_width(size, 0.01, released=True) == 0


def test_another_client_is_drawn_then_one_of_its_images() -> None:
    """6, 3 and 1 images: client 1 draws its two others alike, though one of them holds six times as many, and never itself."""
    rng, sizes = torch.Generator().manual_seed(0), torch.tensor([6, 3, 1])
    drawn = torch.randint(2**62, (2, 6000), generator=rng)
    others = draw_amplitudes(sizes, 1, *drawn).bincount(minlength=10)
    assert others[6:9].eq(0).all()
    assert others[9].item() == pytest.approx(3000, abs=150)
    assert others[:6].tolist() == pytest.approx([500] * 6, abs=90)
    everybody = draw_amplitudes(sizes, None, *drawn).bincount(minlength=10)
    expected = [2000 / 6] * 6 + [2000 / 3] * 3 + [2000]
    assert everybody.tolist() == pytest.approx(expected, abs=150)


@pytest.mark.parametrize(("hp", "clients"), [({"amplitudes": "all"}, 3), ({}, 1)])
def test_amplitudes_may_be_ones_own(
    hp: dict[str, Any], clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that is asked for, or where nobody else is: whatever the bank holds is drawn in the end."""
    calls = recorded(feddg, "mix_amplitudes", monkeypatch)
    run = spec(local={"epochs": 8}, federation={"rounds": 1})
    bank = finish(small(run, method("feddg", **hp), clients)).server.slot.bank.flatten(1)
    drawn = [
        set((other.flatten(1)[:, None] == bank).all(2).nonzero()[:, 1].tolist()) for _, other, *_ in calls
    ]
    first = set().union(*drawn[: 2 * 8])  # of client 0, whose images are the first 16 of the bank
    assert first & set(range(16)) and max(first) > (16 if clients > 1 else 8)


def test_everybodys_amplitudes_are_there_from_the_first_round_whoever_takes_part() -> None:
    """One client of three a round: the bank holds all 36 images, and each client gets it when it first takes part."""
    federation = finish(small(spec(federation={"rounds": 6, "participation": 0.34}), method("feddg")))
    full = finish(small(spec(federation={"rounds": 1}), method("feddg")))
    assert federation.server.slot.bank.equal(full.server.slot.bank)
    cost = {row["round"]: row["value"] for row in federation.records.rows if row["metric"] == "bytes_down"}
    model, bank = 4 * federation.layout.size, 36 * 27 * 4 + 3 * 4
    visited = [
        row["client"]
        for row in federation.records.rows
        if row["stage"] == "train" and row["metric"] == "loss"
    ]
    first = [client not in visited[:place] for place, client in enumerate(visited)]
    assert sum(first) > 1
    # to begin, all three receive the model; the one that trains has it then
    assert [cost[r] for r in range(1, 7)] == [3 * model + bank] + [model + bank * new for new in first[1:]]


def test_without_its_outer_loss_it_is_fedavg_bit_for_bit() -> None:
    run = spec(federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("feddg", outer=False))).server.row.equal(fedavg)
