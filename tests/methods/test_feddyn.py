"""FedDyn: two rounds on quadratics against the reference, its refusal. Its rounds: test_feddyn_replay.py."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.testing.toys import method, quadratics, trained
from tests.reference import Reference


@pytest.mark.parity
def test_two_rounds_follow_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    h, c = ref.given("h").tolist(), ref.given("c").tolist()
    place = {"start": ref.given("w0"), "lr": ref.given("eta"), "steps": ref.given("K")}
    for t in range(2):
        chosen = method("feddyn", alpha=ref.given("feddyn_alpha"))
        federation = quadratics(chosen, h, c, **place, rounds=t + 1)
        turns = trained(federation, monkeypatch)
        ref.equals(f"feddyn.{t}.theta_k", torch.cat([row for _, row in turns[-2:]]))
        ref.equals(f"feddyn.{t}.grad_k", federation.state.slots["gk"].flatten())
        ref.equals(f"feddyn.{t}.h", federation.server.slot.h[0])
        ref.equals(f"feddyn.{t}.theta", federation.server.row[0])


@pytest.mark.parametrize("alpha", [0.0, -1.0])
def test_alpha_must_be_above_0(alpha: float) -> None:
    with pytest.raises(FedshiftError, match="alpha must be above 0"):
        method("feddyn", alpha=alpha)
