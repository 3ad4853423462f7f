"""Four rounds of FedHEAL, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import torch

from fedshift.testing.toys import method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
TAU, BETA, ROUNDS = 0.4, 0.3, 4


@plain.doubles()
def test_four_rounds() -> None:
    """Signs of a client's own rounds; distances of trainable tensors alone, over the last ones of all clients seen so far."""
    run = spec(local=LOCAL, federation={"rounds": ROUNDS, "participation": 0.67})
    f = plain.federation(run, method("fedheal", tau=TAU, beta=BETA))
    G = plain.named(f, f.state.row)
    rises: list[list[plain.Tensors]] = [[] for _ in plain.SIZES]
    p, dp, far = ([0.0] * len(plain.SIZES) for _ in range(3))
    for t in range(ROUNDS):
        chosen, moved, masks = plain.active(f, t), dict[int, plain.Tensors](), dict[int, plain.Tensors]()
        for k in chosen:
            P = plain.trained(f, G, k, t)
            D = {name: P[name] - G[name] for name in G}
            masks[k] = {name: torch.ones_like(one) for name, one in D.items()}
            for name in D if rises[k] else []:
                up = torch.stack([before[name] for before in rises[k]]).mean(0)
                masks[k][name] = (torch.where(D[name] >= 0, up, 1 - up) > TAU).double()
            moved[k] = D
            far[k] = sum(float((masks[k][name] * D[name]).norm()) for name in plain.trainable(G))
        for k in chosen:
            p[k] = p[k] if rises[k] else 1 / len(chosen)
            dp[k] = (1 - BETA) * dp[k] + BETA * far[k] / sum(far)
            p[k] += dp[k]
            rises[k].append({name: (one >= 0).double() for name, one in moved[k].items()})
        for name in G:
            counted = sum(p[k] * masks[k][name] for k in chosen)
            step = sum(p[k] * masks[k][name] * moved[k][name] for k in chosen)
            G[name] = G[name] + torch.where(counted > 0, step / counted.clamp(min=1e-300), 0.0)
    assert plain.differs(f, G) < 1e-8
