"""MOON: the contrastive term against the reference, its two frozen models, its limits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.methods import moon
from fedshift.methods.moon import contrast
from fedshift.models.base import Model
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


def test_the_term_by_hand() -> None:
    """ln 2 where both models agree; at cosines 1 and -1 and temperature 1 it is ln(1 + e^-2), turned about ln(1 + e^2)."""
    z, away = torch.tensor([[1.0, 0.0]]), torch.tensor([[-2.0, 0.0]])
    assert contrast(z, away, away, 0.5).item() == pytest.approx(0.693147, abs=1e-6)
    assert contrast(z, z, away, 1.0).item() == pytest.approx(0.126928, abs=1e-6)
    assert contrast(z, away, z, 1.0).item() == pytest.approx(2.126928, abs=1e-6)
    assert contrast(torch.zeros(1, 2), z, away, 0.5).isfinite()


def test_the_gradient_pulls_towards_the_global_feature() -> None:
    z = torch.tensor([[1.0, 1.0]], requires_grad=True)
    contrast(z, torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), 0.5).backward()
    assert z.grad is not None
    assert z.grad[0, 0] < 0 < z.grad[0, 1]


def test_frozen_models_are_the_received_and_the_last_trained_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int, Tensor]] = []
    turns: list[Tensor] = []
    terms: list[tuple[Any, ...]] = []
    frozen, train = Client.frozen, loop.train

    def spy(self: Client, row: Tensor) -> Model:
        asked.append((self.t, self.k, row.clone()))
        model = frozen(self, row)
        assert not model.training
        return model

    def trained(self: Client, hooks: Method) -> Tensor:
        before = self.received.clone()
        result = train(self, hooks)
        assert self.received.equal(before)
        turns.extend((before, self.row.clone()))
        return result

    def term(*args: Any) -> Tensor:
        terms.append(args)
        return contrast(*args)

    monkeypatch.setattr(Client, "frozen", spy)
    monkeypatch.setattr(loop, "train", trained)
    monkeypatch.setattr(moon, "contrast", term)
    finish(small(RUN, method("moon", tau=0.25)))
    assert len(turns) == 12 and len(asked) == 2 * 5 and len(terms) == 5  # batches of the second round
    for i, (t, k, row) in enumerate(asked):
        received, last = turns[2 * (3 + k)], turns[2 * k + 1]
        assert t == 1
        assert row.equal(last if i % 2 else received)
    for z, z_global, z_last, tau in terms:
        assert z.requires_grad and z.shape == z_global.shape == z_last.shape and z.shape[1] == 64
        assert not z_global.requires_grad and not z_last.requires_grad
        assert tau == 0.25 and not z_global.equal(z_last)


def test_mu_0_and_the_first_round_are_fedavg_bit_for_bit() -> None:
    def row(name: str, rounds: int, **hp: float) -> Tensor:
        return finish(small(spec(federation={"rounds": rounds}), method(name, **hp))).server.row

    assert row("moon", 1, mu=5.0).equal(row("fedavg", 1))
    assert row("moon", 2, mu=0.0).equal(row("fedavg", 2))
    assert not row("moon", 2, mu=5.0).equal(row("fedavg", 2))
    assert not row("moon", 2, mu=5.0).equal(row("moon", 2, mu=1.0))


def test_the_term_is_part_of_the_loss() -> None:
    first, second = (losses(finish(small(RUN, method("moon", mu=mu))))[3:] for mu in (0.0, 10.0))
    assert all(other - one > 10 * 0.05 for one, other in zip(first, second, strict=True))
