"""FedDG: amplitudes mixed as in its paper, the episodic step, what is sent once, its limits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.yaml_file import read
from fedshift.federation.client import Client
from fedshift.methods import feddg
from fedshift.methods.feddg import draw_amplitudes, half_width, inner_step, low_amplitudes, mix_amplitudes
from fedshift.testing.toys import finish, method, recorded, small, spec
from tests.conftest import ROOT


def images(n: int = 3, px: int = 16) -> Tensor:
    return torch.rand(n, 3, px, px, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("size", "half"), [(224, 2), (32, 1), (64, 1), (512, 5)])
def test_half_width(size: int, half: int) -> None:
    assert half_width(size, 0.01) == half
    assert half_width(size, 0.01, released=True) == 0


def test_own_amplitudes_and_r_one_give_the_image() -> None:
    u = images()
    for half in (0, 1, 5):
        assert mix_amplitudes(u, low_amplitudes(u, half), torch.rand(3), half).allclose(u, atol=1e-5)
        assert mix_amplitudes(
            u, 9 * torch.rand(3, 3, 2 * half + 1, 2 * half + 1), torch.ones(3), half
        ).allclose(u, atol=1e-5)


def test_r_zero_with_the_whole_spectrum_swaps_all_amplitudes() -> None:
    u, other = images(2), images(2).flip(0)
    half = int(0.5 * 16)
    swapped = mix_amplitudes(u, low_amplitudes(other, half), torch.zeros(2), half)
    phase = torch.fft.fft2(u).angle()
    expected = torch.fft.ifft2(torch.polar(torch.fft.fft2(other).abs(), phase)).real.clamp(0, 1)
    assert swapped.allclose(expected, atol=1e-4)


def test_swapping_the_mean_alone_moves_the_mean_alone() -> None:
    u = 0.25 + 0.25 * images(1)
    other = low_amplitudes(u, 0) * 1.2
    mixed = mix_amplitudes(u, other, torch.zeros(1), 0)
    assert (mixed - u).flatten(2).std(2).max() < 1e-5
    assert mixed.mean((2, 3)).tolist() == [pytest.approx((1.2 * u.mean((2, 3)))[0].tolist(), rel=1e-4)]
    half_way = mix_amplitudes(u, other, torch.full((1,), 0.5), 0)
    assert half_way.mean((2, 3)).tolist() == [pytest.approx((1.1 * u.mean((2, 3)))[0].tolist(), rel=1e-4)]


def test_high_frequencies_stay() -> None:
    u = images()
    mixed = torch.fft.fft2(
        mix_amplitudes(0.4 + 0.2 * u, low_amplitudes(0.4 + 0.2 * u.flip(0), 1), torch.zeros(3), 1)
    )
    own = torch.fft.fft2(0.4 + 0.2 * u)
    assert mixed[:, :, 2:-1, 2:-1].allclose(own[:, :, 2:-1, 2:-1], atol=1e-3)
    assert not mixed[:, :, 1, 1].allclose(own[:, :, 1, 1], atol=1e-3)


def test_inner_step() -> None:
    w, g = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([2.0, -500.0, 300.0])
    assert inner_step(w, g, 1e-3, 100.0).tolist() == pytest.approx([0.998, 1.1, 0.9])


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


@pytest.mark.parametrize(
    ("hp", "clients"), [({}, 3), ({"amplitudes": "all"}, 3), ({"released": True}, 3), ({}, 1)]
)
def test_every_image_is_mixed_with_an_amplitude_of_its_own(
    hp: dict[str, Any], clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many amplitudes and many r in a batch, other clients' alone where there are any; released: r = 0 on the mean."""
    turns: list[int] = []
    mixed = feddg.FedDG._mixed

    def spy(self: feddg.FedDG, C: Client, x: Tensor) -> Tensor:
        turns.append(C.k)
        return mixed(self, C, x)

    monkeypatch.setattr(feddg.FedDG, "_mixed", spy)
    calls = recorded(feddg, "mix_amplitudes", monkeypatch)
    run = spec(local={"epochs": 4}, federation={"rounds": 1})
    federation = finish(small(run, method("feddg", **hp), clients))
    bank = federation.server.slot.bank.flatten(1)
    owner = torch.cat([torch.full((len(one.train),), k) for k, one in enumerate(federation.clients)])
    assert len(bank) == len(owner) == federation.server.slot.sizes.sum()
    drawn_by: dict[int, set[int]] = {k: set() for k in range(clients)}
    for k, (u, other, r, half, result) in zip(turns, calls, strict=True):
        match = (other.flatten(1)[:, None] == bank).all(2)
        assert match.sum(1).eq(1).all()
        drawn_by[k] |= set(owner[match.nonzero()[:, 1]].tolist())
        assert len(set(match.nonzero()[:, 1].tolist())) > 1
        if "released" in hp:
            assert half == 0 and r.eq(0).all()
            assert (result.mean((2, 3)) - u.mean((2, 3))).abs().max() > 1e-2
        else:
            assert len(set(r.tolist())) == len(u) and 0 < r.min() < r.max() < 1
    everybody = set(range(clients))
    alone = clients == 1 or hp.get("amplitudes") == "all"
    assert drawn_by == {k: everybody if alone else everybody - {k} for k in everybody}


def test_the_preset_of_ccst_s_port_draws_from_all_and_does_not_use_it() -> None:
    known = read(ROOT / "reference" / "presets" / "feddg.yaml")["presets"]
    assert known["ccst_port"]["*"]["method"]["params"] == {"outer": False, "amplitudes": "all"}
    assert known["released"]["*"]["method"]["params"] == {"released": True}


def test_amplitudes_of_all_training_images_travel_once() -> None:
    federation = finish(small(spec(federation={"rounds": 2}), method("feddg")))
    bank = federation.server.slot.bank
    assert bank.shape == (36, 3, 3, 3)
    samples = federation.worker.samples
    first = samples.pixels[federation.clients[0].train[:1]].permute(0, 3, 1, 2).float() / 255
    assert bank[:1].allclose(low_amplitudes(first, 1), rtol=1e-4)
    cost = {
        (row["round"], row["metric"]): row["value"]
        for row in federation.records.rows
        if row["stage"] == "cost"
    }
    model, all_of_them = 3 * 4 * federation.layout.size, 36 * 27 * 4
    sizes = 3 * 4
    assert cost[1, "bytes_up"] == model + all_of_them + sizes
    assert cost[1, "bytes_down"] == model + 3 * (all_of_them + sizes)
    assert cost[2, "bytes_up"] == cost[2, "bytes_down"] == model


def test_everybodys_amplitudes_are_there_from_the_first_round_whoever_takes_part() -> None:
    """One client of three a round: the bank holds all 36 images, and each client gets it when it first takes part."""
    federation = finish(small(spec(federation={"rounds": 6, "participation": 0.34}), method("feddg")))
    assert federation.server.slot.bank.shape == (36, 3, 3, 3)
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
    assert not finish(small(run, method("feddg"))).server.row.equal(fedavg)


def gradients(monkeypatch: pytest.MonkeyPatch, **hp: object) -> tuple[list[Tensor], list[Tensor]]:
    """Before and after the hook, of every step."""
    before: list[Tensor] = []
    after: list[Tensor] = []
    grad = feddg.FedDG.grad

    def spy(self: feddg.FedDG, C: Client, g: Tensor) -> None:
        before.append(g.clone())
        grad(self, C, g)
        after.append(g.clone())

    with monkeypatch.context() as patch:
        patch.setattr(feddg.FedDG, "grad", spy)
        finish(small(spec(federation={"rounds": 1}), method("feddg", **hp)))
    return before, after


def test_the_outer_loss_doubles_the_gradient_when_images_and_weights_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Inner rate 0 and unchanged images: L_out = L_in, so the gradient is twice L_in's."""
    monkeypatch.setattr(feddg, "mix_amplitudes", lambda u, other, r, half: u)
    before, after = gradients(monkeypatch, inner=0.0)
    assert after[0].allclose(2 * before[0], rtol=1e-3, atol=1e-5)


def test_the_outer_loss_is_taken_at_the_inner_step_on_mixed_images(monkeypatch: pytest.MonkeyPatch) -> None:
    at: list[tuple[Tensor, Tensor]] = []
    plain = feddg.inner_step

    def spy(w: Tensor, g: Tensor, rate: float, clamp: float) -> Tensor:
        result = plain(w, g, rate, clamp)
        at.append((w.clone(), result))
        return result

    monkeypatch.setattr(feddg, "inner_step", spy)
    before, after = gradients(monkeypatch)
    w, inner = at[0]
    assert inner.allclose(w - 1e-3 * before[0].clamp(-100, 100))
    assert not inner.equal(w)
    outer = after[0] - before[0]
    assert outer.norm() > 0
    assert not outer.allclose(before[0], rtol=1e-2)


def test_the_trained_row_is_not_the_inner_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With learning rate 0 nothing moves but statistics, whatever the inner step does."""
    federation = small(spec(local={"lr": 0.0}, federation={"rounds": 1}), method("feddg", inner=1.0))
    start = federation.server.row.clone()
    finish(federation)
    W = federation.layout.W
    assert federation.server.row[W].allclose(start[W], atol=1e-7)
