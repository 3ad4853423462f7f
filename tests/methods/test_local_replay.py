"""Three rounds of Local, one of three unequal clients at rest, against the same training written out."""

from __future__ import annotations

import math

from fedshift.testing.toys import finish, method, spec
from tests.methods.plain import (
    SIZES,
    Tensors,
    active,
    batches,
    cross_entropy,
    descend,
    doubles,
    far,
    federation,
    leaves,
    logits,
    named,
)

LOCAL = {
    "batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "optimizer_state": "persist",
    "schedule": {"kind": "cosine"},
}  # fmt: skip


@doubles()
def test_three_rounds() -> None:
    run = spec(local=LOCAL, federation={"rounds": 3, "participation": 0.67})
    f = federation(run, method("local"))
    own = [named(f, f.state.row) for _ in SIZES]
    momenta: list[Tensors] = [{} for _ in SIZES]
    for t in range(3):
        for k in active(f, t):
            for _, x, y in batches(f, k, t):
                leaves(own[k])
                loss = cross_entropy(logits(own[k], x, True), y)
                descend(own[k], loss, 0.05 * (1 + math.cos(math.pi * t / 3)) / 2, momenta[k], run.local)
    finish(f)
    for row, mine in zip(f.method.unseen(f.server), own, strict=True):
        assert far(named(f, row), mine) < 1e-9
