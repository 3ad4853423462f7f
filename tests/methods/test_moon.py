"""MOON: the contrastive term against the reference, its limits."""

import pytest
import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.methods.moon import contrast
from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain
from tests.reference import Reference

RUN = spec(local={"momentum": 0.9}, federation={"rounds": 2})


def losses(federation: Federation) -> list[float]:
    return [row["value"] for row in federation.records.rows if row["split"] == "train"]


@pytest.mark.parity
def test_the_term_follows_the_reference() -> None:
    ref = Reference("fedavg_family_quadratic.json")
    z, z_glob, z_prev = (ref.given(f"moon.{name}") for name in ("z", "z_glob", "z_prev"))
    tau = ref.given("moon.tau")
    ref.equals("moon.con", contrast(z, z_glob, z_prev, tau))
    ref.equals("moon.con_prev_equals_glob", contrast(z, z_glob, z_glob, tau))
    with_term, without = (finish(small(RUN, method(name))) for name in ("moon", "fedavg"))
    ref.equals("moon.con_first_round_no_prev", losses(with_term)[0] - losses(without)[0])


def test_a_feature_of_zero_has_a_term() -> None:
    away = torch.tensor([[-2.0, 0.0]])
    assert contrast(torch.zeros(1, 2), away, -away, 0.5).isfinite()


# Three rounds of MOON, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
MU, TAU = 3.0, 0.3


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(1) / (a.square().sum(1) * b.square().sum(1)).sqrt()


@plain.doubles()
def test_three_rounds() -> None:
    """The last model is that of the client's last turn, however long ago; features are compared in fp32."""
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("moon", mu=MU, tau=TAU))
    last: list[plain.Tensors | None] = [None for _ in plain.SIZES]

    def turn(G: plain.Tensors, k: int, t: int) -> plain.Tensors:
        before = last[k]

        def loss(P: plain.Tensors, x: Tensor, y: Tensor) -> Tensor:
            z = plain.feature(P, x, True)
            task = plain.cross_entropy(plain.head(P, z), y)
            if before is None:
                return task
            with torch.no_grad():
                both = plain.feature(G, x, False), plain.feature(before, x, False)
            near, far = (torch.exp(cosine(z.float(), one.float()) / TAU) for one in both)
            return task - MU * torch.log(near / (near + far)).mean()

        last[k] = plain.trained(f, G, k, t, loss)
        return last[k]

    assert plain.differs(f, plain.averaged(f, turn)) < 1e-5
