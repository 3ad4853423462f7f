"""Three rounds of Ditto, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import pytest

from fedshift.testing.toys import method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}
LAM = 0.7


@pytest.mark.parametrize("state", ["reset", "persist"])
@plain.doubles()
def test_three_rounds(state: str) -> None:
    """A personal model starts from the first that its client receives; its optimiser is its own."""
    run = spec(local={**LOCAL, "optimizer_state": state}, federation=plain.PARTIAL)
    f = plain.federation(run, method("ditto", lam=LAM))
    v: list[plain.Tensors | None] = [None for _ in plain.SIZES]
    momenta: list[plain.Tensors] = [{} for _ in plain.SIZES]
    common: list[plain.Tensors] = [{} for _ in plain.SIZES]

    def turn(G: plain.Tensors, k: int, t: int) -> plain.Tensors:
        if state == "reset":
            momenta[k], common[k] = {}, {}
        mine, P = plain.copied(v[k] or G), plain.copied(G)
        for _, x, y in plain.batches(f, k, t):
            plain.leaves(P)
            plain.descend(
                P, plain.cross_entropy(plain.logits(P, x, True), y), LOCAL["lr"], common[k], run.local
            )
            plain.leaves(mine)
            plain.descend(
                mine,
                plain.cross_entropy(plain.logits(mine, x, True), y),
                LOCAL["lr"],
                momenta[k],
                run.local,
                before=lambda name, w, g: g + LAM * (w - G[name]),
            )
        v[k] = plain.copied(mine)
        return plain.copied(P)

    assert plain.differs(f, plain.averaged(f, turn)) < 1e-9
    for k, mine in enumerate(v):
        assert mine is not None
        assert plain.far(plain.named(f, f.state.slots["v"][k]), mine) < 1e-9
