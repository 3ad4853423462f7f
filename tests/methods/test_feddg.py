"""FedDG: whose amplitudes are drawn, what is sent once, its limit."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedshift.federation.batches import key
from fedshift.federation.loop import Federation
from fedshift.methods import feddg
from fedshift.methods.feddg import draw_amplitudes, half_width
from fedshift.testing.toys import finish, method, recorded, small, spec
from tests.methods import plain


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
    visited = [row["client"] for row in federation.records.rows if row["stage"] == "train"]
    first = [client not in visited[:place] for place, client in enumerate(visited)]
    assert sum(first) > 1
    # to begin, all three receive the model; the one that trains has it then
    assert [cost[r] for r in range(1, 7)] == [3 * model + bank] + [model + bank * new for new in first[1:]]


def test_without_its_outer_loss_it_is_fedavg_bit_for_bit() -> None:
    run = spec(federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("feddg", outer=False))).server.row.equal(fedavg)


# Three rounds of FedDG, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order.
LOCAL: dict[str, Any] = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 2.0}  # fmt: skip
INNER, CLAMP = 0.05, 0.02


def square(images: NDArray[Any], half: int) -> NDArray[Any]:
    """The middle of the shifted spectra, [n, 3, 2 half + 1, 2 half + 1]."""
    middle = images.shape[-1] // 2
    at = slice(middle - half, middle + half + 1)
    spectrum: NDArray[Any] = np.fft.fftshift(np.fft.fft2(images), axes=(2, 3))[:, :, at, at]
    return spectrum


def mixed(u: NDArray[Any], other: NDArray[Any], r: NDArray[Any], half: int) -> NDArray[Any]:
    """Eq. 2-3: amplitudes (1 - r) a' + r a in the middle, phases as they are."""
    spectrum, middle = np.fft.fftshift(np.fft.fft2(u), axes=(2, 3)), u.shape[-1] // 2
    at = slice(middle - half, middle + half + 1)
    own, share = spectrum[:, :, at, at], r[:, None, None, None]
    spectrum[:, :, at, at] = ((1 - share) * other + share * np.abs(own)) * np.exp(1j * np.angle(own))
    back = np.fft.ifft2(np.fft.ifftshift(spectrum, axes=(2, 3)))
    clipped: NDArray[Any] = back.real.clip(0, 1)
    return clipped


def bank(f: Federation, half: int) -> list[NDArray[Any]]:
    """The amplitudes of every client's training images in [0, 1]."""
    stored = [f.worker.samples.take(client.train)[0].double() / 255 for client in f.clients]
    return [np.abs(square(one.permute(0, 3, 1, 2).numpy(), half)) for one in stored]


def drawn(amplitudes: list[NDArray[Any]], k: int, count: int) -> NDArray[Any]:
    """For every image another client, all alike, then one of its images."""
    site, image = torch.randint(2**62, (2, count)).tolist()
    others = [one for i, one in enumerate(amplitudes) if i != k]
    chosen = [others[s % 2] for s in site]
    return np.stack([one[i % len(one)] for one, i in zip(chosen, image, strict=True)])


@pytest.mark.parametrize(("released", "width", "half"), [(False, 0.01, 1), (True, 0.01, 0), (False, 0.1, 3)])
@plain.doubles()
def test_three_rounds(released: bool, width: float, half: int) -> None:
    hp = {"released": released, "width": width, "inner": INNER, "clamp": CLAMP}
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("feddg", **hp))
    f.worker.samples.unit = lambda x: (x + 1) / 2  # type: ignore[method-assign]  # the engine's own is in fp32
    amplitudes = bank(f, half)
    assert [len(one) for one in amplitudes] == list(plain.SIZES)
    G = plain.named(f, f.state.row)
    for t in range(plain.PARTIAL["rounds"]):
        chosen, up = plain.active(f, t), []
        for k in chosen:
            P, momentum = plain.copied(G), plain.Tensors()
            torch.manual_seed(key(0, "dropout", t, k))
            for _, x, y in plain.batches(f, k, t):
                u = (x + 1) / 2
                plain.leaves(P)
                names = plain.trainable(P)
                inner = plain.cross_entropy(plain.logits(P, 2 * u - 1, True), y)
                g = torch.autograd.grad(inner, [P[name] for name in names], retain_graph=True)
                other = drawn(amplitudes, k, len(y))
                r = np.zeros(len(y)) if released else torch.rand(len(y)).numpy()
                changed = torch.from_numpy(mixed(u.numpy(), other, r, half))
                Q = plain.copied(P)
                for name, one in zip(names, g, strict=True):
                    Q[name] = Q[name] - INNER * one.clamp(-CLAMP, CLAMP)
                plain.leaves(Q)
                outer = plain.cross_entropy(plain.logits(Q, 2 * changed - 1, True), y)
                added = dict(zip(names, torch.autograd.grad(outer, [Q[name] for name in names]), strict=True))

                def both(name: str, w: Tensor, g: Tensor, added: plain.Tensors = added) -> Tensor:
                    return g + added[name]

                plain.descend(P, inner, LOCAL["lr"], momentum, f.worker.spec.local, before=both)
            up.append(P)
        G = plain.average(up, plain.by_size(chosen))
    assert plain.differs(f, G) < 1e-8
