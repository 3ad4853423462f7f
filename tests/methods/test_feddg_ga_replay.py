"""Four rounds of FedDG-GA, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2}
ROUNDS = 4


def measured(f: Federation, P: plain.Tensors, k: int, fair: str) -> float:
    x, y = f.worker.samples.take(f.clients[k].val)
    out = plain.logits(P, plain.pixels(x), False)
    return float(plain.cross_entropy(out, y) if fair == "loss" else (out.argmax(1) != y).double().mean())


@pytest.mark.parametrize(
    "hp", [{}, {"fair": "acc", "step": 0.3}, {"ga_center": True}], ids=["loss", "acc", "centred"]
)
@plain.doubles()
def test_four_rounds(hp: dict[str, Any]) -> None:
    """Who takes part shares what those clients' weights were together; a gap is against the client's last own model."""
    f = plain.federation(
        spec(local=LOCAL, federation={"rounds": ROUNDS, "participation": 0.67}), method("feddg_ga", **hp)
    )
    G, fair, first = plain.named(f, f.state.row), hp.get("fair", "loss"), hp.get("step", 0.2)
    p, before = [1 / 3] * 3, dict[int, float]()
    for t in range(ROUNDS):
        chosen = plain.active(f, t)
        gap = [measured(f, G, k, fair) - before[k] if k in before else 0.0 for k in chosen]
        if hp.get("ga_center"):
            gap = [one - sum(gap) / len(gap) for one in gap]
        up = [plain.trained(f, G, k, t) for k in chosen]
        before |= {k: measured(f, P, k, fair) for k, P in zip(chosen, up, strict=True)}
        widest, share = max(map(abs, gap)), sum(p[k] for k in chosen)
        step = first - (t - 2) * first / ROUNDS  # of the gaps of the round before
        moved = [
            min(1, max(0, p[k] / share + step / len(chosen) * (one / widest if widest else 0.0)))
            for k, one in zip(chosen, gap, strict=True)
        ]
        weights = [one / sum(moved) for one in moved]
        for k, one in zip(chosen, weights, strict=True):
            p[k] = one * share
        G = plain.average(up, weights)
    finish(f)
    assert len(p) == len(plain.SIZES)
    assert f.state.slots["p"].tolist() == pytest.approx(p, abs=1e-9)
    assert plain.far(plain.named(f, f.state.row), G) < 1e-9
