"""FedDG-GA: the rule against the reference and at its boundaries. Its rounds: test_feddg_ga_replay.py."""

from __future__ import annotations

import pytest
import torch

from fedshift.methods.feddg_ga import adjusted
from fedshift.testing.toys import finish, method, quadratics, small, spec
from tests.reference import Reference


@pytest.mark.parity
@pytest.mark.parametrize("case", ["case_loss", "case_acc", "case_clip"])
def test_weights_follow_the_reference(case: str) -> None:
    ref = Reference("feddg_ga.json")
    before, after = ref.given(f"{case}.before"), ref.given(f"{case}.after")
    gap = (1 - after) - (1 - before) if case == "case_acc" else after - before
    weights = adjusted(ref.given(f"{case}.w"), gap, ref.given(f"{case}.step"))
    for domain, weight in zip("abc", weights, strict=True):
        ref.equals(f"{case}.out.{domain}", weight)


def test_weights_stay_where_gaps_are_equal_or_nobody_else_is() -> None:
    third = torch.full((3,), 1 / 3)
    assert adjusted(third, torch.full((3,), 0.7), 0.2).tolist() == pytest.approx([1 / 3] * 3)
    assert adjusted(third, torch.zeros(3), 0.2).equal(third)
    assert adjusted(torch.tensor([1.0]), torch.tensor([-3.0]), 2.0).tolist() == [1.0]


def test_weights_that_all_fall_to_zero_become_equal_parts() -> None:
    weights = adjusted(torch.tensor([0.01, 0.0]), torch.tensor([-1.0, -1.0]), 0.2)
    assert weights.tolist() == [0.5, 0.5]


def test_equal_gaps_centred_change_nothing() -> None:
    """Not even where their mean is rounded: what it is off by must not become the widest gap."""
    rng = torch.Generator().manual_seed(0)
    for clients in range(1, 12):
        p = torch.rand(clients, generator=rng)
        p /= p.sum()
        for gap in torch.rand(50, generator=rng):
            weights = adjusted(p, gap.expand(clients), 0.2, center=True)
            assert weights.tolist() == pytest.approx(p.tolist(), abs=1e-6)


def test_weights_have_the_precision_of_the_model() -> None:
    federation = quadratics(method("feddg_ga"), [1.0] * 3, [0.0] * 3, 1.0, 0.1, 1, 1)
    assert federation.server.slot.p.tolist() == [1 / 3] * 3


def test_step_0_is_uniform_fedavg_bit_for_bit() -> None:
    run = spec(federation={"rounds": 3, "weights": "uniform"})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("feddg_ga", step=0.0))).server.row.equal(fedavg)
