"""Three rounds of FedProx, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

from fedshift.testing.toys import method, spec
from tests.methods.plain import PARTIAL, averaged, differs, doubles, federation, trained

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@doubles()
def test_three_rounds() -> None:
    """The term's gradient is clipped with the rest."""
    f = federation(spec(local=LOCAL, federation=PARTIAL), method("fedprox", mu=2.0))
    G = averaged(f, lambda G, k, t: trained(f, G, k, t, before=lambda name, w, g: g + 2.0 * (w - G[name])))
    assert differs(f, G) < 1e-9
