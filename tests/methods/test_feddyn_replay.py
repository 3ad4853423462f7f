"""Three rounds of FedDyn, one of three unequal clients at rest, against Algorithm 1 written out."""

from __future__ import annotations

import torch
from torch import Tensor

from fedshift.testing.toys import method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}
ALPHA = 0.3


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("feddyn", alpha=ALPHA))
    G = plain.named(f, f.state.row)
    W = plain.trainable(G)
    h = {name: torch.zeros_like(G[name]) for name in W}
    own = [dict(h) for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen, up = plain.active(f, t), []
        for k in chosen:
            mine: plain.Tensors = own[k]

            def change(
                name: str, w: Tensor, g: Tensor, G: plain.Tensors = G, mine: plain.Tensors = mine
            ) -> Tensor:
                return g - mine[name] + ALPHA * (w - G[name])

            P = plain.trained(f, G, k, t, before=change)
            own[k] = {name: mine[name] - ALPHA * (P[name] - G[name]) for name in W}
            up.append(P)
        h = {name: h[name] - ALPHA / len(plain.SIZES) * sum(P[name] - G[name] for P in up) for name in W}
        mean = plain.average(up, plain.equal(chosen))
        G = mean | {name: mean[name] - h[name] / ALPHA for name in W}
    assert plain.differs(f, G) < 1e-8
