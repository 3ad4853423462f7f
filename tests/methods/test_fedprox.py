"""FedProx: a round against the reference, its limit. Its rounds: test_fedprox_replay.py."""

from __future__ import annotations

import pytest

from fedshift.testing.toys import method, quadratics, trained
from tests.reference import Reference


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for mu, expected in ref.given("fedprox").items():
        turns = trained(quadratics(method("fedprox", mu=float(mu)), *place, rounds=1), monkeypatch)
        assert [row.item() for _, row in turns] == pytest.approx(expected, rel=0, abs=1e-9)
