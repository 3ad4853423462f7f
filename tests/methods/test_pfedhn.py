"""pFedHN: hFedF as its limit. Its rounds: test_pfedhn_replay.py."""

from __future__ import annotations

from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, small, spec


def h_of(federation: Federation) -> Tensor:
    return finish(federation).server.slot.h


def test_with_one_client_and_adam_it_is_hfedf() -> None:
    run = spec(local={"lr": 0.05}, federation={"rounds": 3})
    shared = {"lr": 0.01, "weight_decay": 0.001}
    one = small(run, method("pfedhn", optimizer="adam", clip=None, **shared), clients=1)
    other = small(run, method("hfedf", gradalign=False, ema=1.0, **shared), clients=1)
    assert h_of(one).equal(h_of(other))
    assert one.server.row.equal(other.server.row)
