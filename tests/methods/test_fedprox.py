"""FedProx: a round against the reference, its limit. Its rounds: test_fedprox_replay.py."""

from __future__ import annotations

import pytest

from fedshift.testing.toys import finish, method, quadratics, small, spec, trained
from tests.reference import Reference


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for mu, expected in ref.given("fedprox").items():
        turns = trained(quadratics(method("fedprox", mu=float(mu)), *place, rounds=1), monkeypatch)
        assert [row.item() for _, row in turns] == pytest.approx(expected, rel=0, abs=1e-9)


def test_without_the_term_it_is_fedavg_bit_for_bit() -> None:
    run = spec(local={"clip": 1.0, "momentum": 0.9}, federation={"rounds": 1})
    row, fedavg = (
        finish(small(run, chosen, clients=2)).server.row
        for chosen in (method("fedprox", mu=0.0), method("fedavg"))
    )
    assert row.equal(fedavg)
