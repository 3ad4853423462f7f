"""MOON: the contrastive term against the reference, its limits. Its rounds: test_moon_replay.py."""

from __future__ import annotations

import pytest
import torch

from fedshift.federation.loop import Federation
from fedshift.methods.moon import contrast
from fedshift.testing.toys import finish, method, small, spec
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
