"""FedProx: a round against the reference, its limit."""

import pytest

from fedshift.testing.toys import method, quadratics, spec, trained
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for mu, expected in ref.given("fedprox").items():
        turns = trained(quadratics(method("fedprox", mu=float(mu)), *place, rounds=1), monkeypatch)
        assert [row.item() for _, row in turns] == pytest.approx(expected, rel=0, abs=1e-9)


# Three rounds of FedProx, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@plain.doubles()
def test_three_rounds() -> None:
    """The term's gradient is clipped with the rest."""
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedprox", mu=2.0))
    G = plain.averaged(
        f, lambda G, k, t: plain.trained(f, G, k, t, before=lambda name, w, g: g + 2.0 * (w - G[name]))
    )
    assert plain.differs(f, G) < 1e-9
