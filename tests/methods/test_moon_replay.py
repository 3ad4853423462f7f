"""Three rounds of MOON, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import torch
from torch import Tensor

from fedshift.testing.toys import method, spec
from tests.methods.plain import (
    PARTIAL,
    SIZES,
    Tensors,
    averaged,
    cross_entropy,
    differs,
    doubles,
    feature,
    federation,
    head,
    trained,
)

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
MU, TAU = 3.0, 0.3


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1)).sqrt()


@doubles()
def test_three_rounds() -> None:
    """The last model is that of the client's last turn, however long ago; features are compared in fp32."""
    f = federation(spec(local=LOCAL, federation=PARTIAL), method("moon", mu=MU, tau=TAU))
    last: list[Tensors | None] = [None for _ in SIZES]

    def turn(G: Tensors, k: int, t: int) -> Tensors:
        before = last[k]

        def loss(P: Tensors, x: Tensor, y: Tensor) -> Tensor:
            z = feature(P, x, True)
            task = cross_entropy(head(P, z), y)
            if before is None:
                return task
            with torch.no_grad():
                both = feature(G, x, False), feature(before, x, False)
            near, far = (torch.exp(cosine(z.float(), one.float()) / TAU) for one in both)
            return task - MU * torch.log(near / (near + far)).mean()

        last[k] = trained(f, G, k, t, loss)
        return last[k]

    assert differs(f, averaged(f, turn)) < 1e-5
