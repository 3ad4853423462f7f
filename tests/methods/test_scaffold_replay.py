"""Three rounds of SCAFFOLD, one of three unequal clients at rest, against Algorithm 1 written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.testing.toys import method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "clip": 1.0}


@pytest.mark.parametrize("weights", ["uniform", "size"])
@pytest.mark.parametrize("control", ["rates", "steps"])
@plain.doubles()
def test_three_rounds(control: str, weights: str) -> None:
    run = spec(local={**LOCAL, "schedule": {"kind": "exponential", "gamma": 0.8}}, federation=plain.PARTIAL)
    f = plain.federation(run, method("scaffold", eta_g=0.7, control=control, weights=weights))
    G = plain.named(f, f.state.row)
    W = plain.trainable(G)
    c = {name: torch.zeros_like(G[name]) for name in W}
    own = [dict(c) for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen, lr, up, changes = plain.active(f, t), LOCAL["lr"] * 0.8**t, [], []
        for k in chosen:
            P, steps = plain.copied(G), 0
            mine: plain.Tensors = own[k]

            def change(
                name: str, w: Tensor, g: Tensor, c: plain.Tensors = c, mine: plain.Tensors = mine
            ) -> Tensor:
                return g - mine[name] + c[name]

            for _, x, y in plain.batches(f, k, t):
                plain.leaves(P)
                loss = plain.cross_entropy(plain.logits(P, x, True), y)
                plain.descend(P, loss, lr, {}, run.local, after=change)
                steps += 1
            divisor = steps * (lr if control == "rates" else 1)
            change = {name: (G[name] - P[name]) / divisor - c[name] for name in W}
            own[k] = {name: mine[name] + change[name] for name in W}
            up.append(P)
            changes.append(change)
        mean = plain.average(up, (plain.by_size if weights == "size" else plain.equal)(chosen))
        G = mean | {name: G[name] + 0.7 * (mean[name] - G[name]) for name in W}
        share = [
            plain.SIZES[k] / sum(plain.SIZES) if weights == "size" else 1 / len(plain.SIZES) for k in chosen
        ]
        c = {name: c[name] + plain.average(changes, share)[name] for name in W}
    assert plain.differs(f, G) < 1e-8
