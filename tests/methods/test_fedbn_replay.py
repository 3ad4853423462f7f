"""Three rounds of FedBN, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import torch

from fedshift.testing.toys import finish, method, spec
from tests.methods.plain import (
    PARTIAL,
    SIZES,
    active,
    average,
    by_size,
    doubles,
    far,
    federation,
    named,
    trained,
)

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}


@doubles()
def test_three_rounds() -> None:
    f = federation(spec(local=LOCAL, federation=PARTIAL), method("fedbn"))
    G = named(f, f.state.row)
    kept = [name for name in G if ".bn." in name]
    own = [{name: G[name] for name in kept} for _ in SIZES]
    for t in range(PARTIAL["rounds"]):
        chosen = active(f, t)
        up = [trained(f, G | own[k], k, t) for k in chosen]
        G = average(up, by_size(chosen))
        for k, P in zip(chosen, up, strict=True):
            own[k] = {name: P[name] for name in kept}
    finish(f)
    for k, mine in enumerate(own):
        row = f.state.row.clone()
        row[f.state.private.at] = f.state.own[k]
        assert far(named(f, row), G | mine) < 1e-9
    unseen = {name: torch.stack([mine[name] for mine in own]).mean(0) for name in kept}
    assert far(named(f, f.method.unseen(f.server)[0]), G | unseen) < 1e-9
