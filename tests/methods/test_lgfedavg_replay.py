"""Three rounds of LG-FedAvg, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

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

LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@doubles()
def test_three_rounds() -> None:
    f = federation(spec(local=LOCAL, federation=PARTIAL), method("lgfedavg"))
    G = named(f, f.state.row)
    own = [G for _ in SIZES]
    shared = ("head.weight", "head.bias")
    for t in range(PARTIAL["rounds"]):
        chosen = active(f, t)
        for k in chosen:
            own[k] = trained(f, own[k] | {name: G[name] for name in shared}, k, t)
        G = average([own[k] for k in chosen], by_size(chosen))
    finish(f)
    expected = [mine | {name: G[name] for name in shared} for mine in own]
    for row, model in zip(f.method.unseen(f.server), expected, strict=True):
        assert far(named(f, row), model) < 1e-9
