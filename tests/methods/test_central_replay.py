"""Three rounds of Central against the same training written out: the union of unequal clients, one optimiser."""

from __future__ import annotations

from fedshift.testing.toys import finish, method, spec
from tests.methods.plain import (
    SIZES,
    Tensors,
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

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 1, "weight_decay": 1e-2}


@doubles()
def test_three_rounds() -> None:
    run = spec(local=LOCAL, federation={"rounds": 3, "participation": 0.67})
    f = federation(run, method("central"))
    P, momentum, seen = named(f, f.state.row), Tensors(), 0
    for t in range(3):
        for _, x, y in batches(f, 0, t):
            leaves(P)
            descend(P, cross_entropy(logits(P, x, True), y), 0.05, momentum, run.local)
            seen += len(y)
    assert 3 * (sum(SIZES) - 1) == seen  # a single image is left out: 36 are 7 batches of 5 and one
    assert far(named(finish(f), f.state.row), P) < 1e-9
