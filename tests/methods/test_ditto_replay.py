"""Three rounds of Ditto, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import pytest

from fedshift.testing.toys import method, spec
from tests.methods.plain import (
    PARTIAL,
    SIZES,
    Tensors,
    averaged,
    batches,
    copied,
    cross_entropy,
    descend,
    differs,
    doubles,
    far,
    federation,
    leaves,
    logits,
    named,
)

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}
LAM = 0.7


@pytest.mark.parametrize("state", ["reset", "persist"])
@doubles()
def test_three_rounds(state: str) -> None:
    """A personal model starts from the first that its client receives; its optimiser is its own."""
    run = spec(local={**LOCAL, "optimizer_state": state}, federation=PARTIAL)
    f = federation(run, method("ditto", lam=LAM))
    v: list[Tensors | None] = [None for _ in SIZES]
    momenta: list[Tensors] = [{} for _ in SIZES]
    common: list[Tensors] = [{} for _ in SIZES]

    def turn(G: Tensors, k: int, t: int) -> Tensors:
        if state == "reset":
            momenta[k], common[k] = {}, {}
        mine, P = copied(v[k] or G), copied(G)
        for _, x, y in batches(f, k, t):
            leaves(P)
            descend(P, cross_entropy(logits(P, x, True), y), LOCAL["lr"], common[k], run.local)
            leaves(mine)
            descend(
                mine,
                cross_entropy(logits(mine, x, True), y),
                LOCAL["lr"],
                momenta[k],
                run.local,
                before=lambda name, w, g: g + LAM * (w - G[name]),
            )
        v[k] = copied(mine)
        return copied(P)

    assert differs(f, averaged(f, turn)) < 1e-9
    for k, mine in enumerate(v):
        assert mine is not None
        assert far(named(f, f.state.slots["v"][k]), mine) < 1e-9
