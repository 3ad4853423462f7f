"""DSU against stored noise, its limits, and where it acts. Its rounds: test_dsu_replay.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.methods.dsu import Uncertainty, dsu
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


@pytest.mark.parity
def test_stored_noise() -> None:
    ref = Reference("mixstyle_dsu.npz")
    got = dsu(ref.given("x"), torch.stack([ref.given("noise_mu"), ref.given("noise_sigma")]))
    ref.equals("dsu_eq", got)
    ref.equals("dsu_official", got)


def test_identity_in_evaluation() -> None:
    x, layer = maps(2, 3, 4, 4), Uncertainty(1.0)
    assert not torch.equal(layer(x), x)
    assert layer.eval()(x) is x


def test_positions_and_names() -> None:
    base = get("models", "resnet18")(7, 32)
    names = [name for name, _ in base.named_parameters()]
    made = method("dsu").model(get("models", "resnet18")(7, 32))
    assert [name for name, _ in made.named_parameters()] == names
    assert list(made.stages["stem"]._modules) == ["0", "dsu", "1", "2", "3"]
    assert sum(isinstance(m, Uncertainty) for m in made.modules()) == 6
    three = method("dsu", stages=["stage1", "stage2", "stage3"]).model(get("models", "resnet18")(7, 32))
    assert [name for name in three.stages if "dsu" in name] == ["stage1_dsu", "stage2_dsu", "stage3_dsu"]


def test_centralized_is_one_client_with_all_data() -> None:
    federation = finish(small(spec(), method("dsu", centralized=True)))
    assert len(federation.clients[0].train) == 36
    assert federation.method.optimizer_state == "persist"
