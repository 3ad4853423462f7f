"""Three rounds of FedBN, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import torch

from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedbn"))
    G = plain.named(f, f.state.row)
    kept = [name for name in G if ".bn." in name]
    own = [{name: G[name] for name in kept} for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        up = [plain.trained(f, G | own[k], k, t) for k in chosen]
        G = plain.average(up, plain.by_size(chosen))
        for k, P in zip(chosen, up, strict=True):
            own[k] = {name: P[name] for name in kept}
    finish(f)
    for k, mine in enumerate(own):
        row = f.state.row.clone()
        row[f.state.private.at] = f.state.own[k]
        assert plain.far(plain.named(f, row), G | mine) < 1e-9
    unseen = {name: torch.stack([mine[name] for mine in own]).mean(0) for name in kept}
    assert plain.far(plain.named(f, f.method.unseen(f.server)[0]), G | unseen) < 1e-9
