"""FedDyn: two rounds on quadratics against the reference, its refusal."""

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.testing.toys import method, quadratics, spec, trained
from tests.methods import plain
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


# Three rounds of FedDyn, one of three unequal clients at rest, against Algorithm 1 written out.
LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}
ALPHA = 0.3


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("feddyn", alpha=ALPHA))
    G = plain.named(f, f.state.row)
    W = plain.trainable(G)
    h = {name: torch.zeros_like(G[name]) for name in W}
    own = [dict(h) for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen, up = plain.active(f, t), []
        for k in chosen:
            mine: plain.Tensors = own[k]

            def change(
                name: str, w: Tensor, g: Tensor, G: plain.Tensors = G, mine: plain.Tensors = mine
            ) -> Tensor:
                return g - mine[name] + ALPHA * (w - G[name])

            P = plain.trained(f, G, k, t, before=change)
            own[k] = {name: mine[name] - ALPHA * (P[name] - G[name]) for name in W}
            up.append(P)
        h = {name: h[name] - ALPHA / len(plain.SIZES) * sum(P[name] - G[name] for P in up) for name in W}
        mean = plain.average(up, plain.equal(chosen))
        G = mean | {name: mean[name] - h[name] / ALPHA for name in W}
    assert plain.differs(f, G) < 1e-8
