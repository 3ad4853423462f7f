"""Three rounds of FedDG, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedshift.federation.batches import key
from fedshift.federation.loop import Federation
from fedshift.testing.toys import method, spec
from tests.methods import plain

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
