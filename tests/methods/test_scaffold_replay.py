"""Three rounds of SCAFFOLD, one of three unequal clients at rest, against Algorithm 1 written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.testing.toys import method, spec
from tests.methods.plain import (
    PARTIAL,
    SIZES,
    Tensors,
    active,
    average,
    batches,
    by_size,
    copied,
    cross_entropy,
    descend,
    differs,
    doubles,
    equal,
    federation,
    leaves,
    logits,
    named,
    trainable,
)

LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "clip": 1.0}


@pytest.mark.parametrize("weights", ["uniform", "size"])
@pytest.mark.parametrize("control", ["rates", "steps"])
@doubles()
def test_three_rounds(control: str, weights: str) -> None:
    run = spec(local={**LOCAL, "schedule": {"kind": "exponential", "gamma": 0.8}}, federation=PARTIAL)
    f = federation(run, method("scaffold", eta_g=0.7, control=control, weights=weights))
    G = named(f, f.state.row)
    W = trainable(G)
    c = {name: torch.zeros_like(G[name]) for name in W}
    own = [dict(c) for _ in SIZES]
    for t in range(PARTIAL["rounds"]):
        chosen, lr, up, changes = active(f, t), LOCAL["lr"] * 0.8**t, [], []
        for k in chosen:
            P, steps = copied(G), 0
            mine: Tensors = own[k]

            def change(name: str, w: Tensor, g: Tensor, c: Tensors = c, mine: Tensors = mine) -> Tensor:
                return g - mine[name] + c[name]

            for _, x, y in batches(f, k, t):
                leaves(P)
                loss = cross_entropy(logits(P, x, True), y)
                descend(P, loss, lr, {}, run.local, after=change)
                steps += 1
            divisor = steps * (lr if control == "rates" else 1)
            change = {name: (G[name] - P[name]) / divisor - c[name] for name in W}
            own[k] = {name: mine[name] + change[name] for name in W}
            up.append(P)
            changes.append(change)
        mean = average(up, (by_size if weights == "size" else equal)(chosen))
        G = mean | {name: G[name] + 0.7 * (mean[name] - G[name]) for name in W}
        share = [SIZES[k] / sum(SIZES) if weights == "size" else 1 / len(SIZES) for k in chosen]
        c = {name: c[name] + average(changes, share)[name] for name in W}
    assert differs(f, G) < 1e-8
