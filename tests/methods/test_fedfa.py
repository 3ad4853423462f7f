"""FedFA: the server's variances against stored ones, the layer and the server at their limits. Its rounds: test_fedfa_replay.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.methods.fedfa import FFA, over_clients, share
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference

EXCEPTIONS = {
    "fedfa_server.json": {
        r"per_channel_biased\.\d+": "neither the paper's variance nor the code's: both divide by n - 1"
    }
}


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@pytest.mark.parity
def test_server_variance() -> None:
    ref = Reference("fedfa_server.json")
    running = ref.given("client_running_mean")
    ref.equals("paper_per_channel_var_over_clients_unbiased", over_clients(running, "per_channel"))
    scalar = over_clients(running, "official_scalar")
    assert scalar.shape == (4,)
    assert scalar.equal(scalar[:1].expand(4))
    ref.equals("official_scalar_var_all", scalar[0])


def test_share_is_one_where_channels_are_equal_and_sums_to_their_number() -> None:
    assert share(torch.full((5,), 0.7)).tolist() == pytest.approx([1.0] * 5)
    assert share(torch.zeros(5)).tolist() == pytest.approx([1.0] * 5)
    got = share(torch.tensor([0.0, 1.0, 3.0]))
    u = [1e-6 / (1 + 1e-6), 0.5, 0.75]
    assert got.tolist() == pytest.approx([3 * one / sum(u) for one in u], rel=1e-4)


def test_a_layer_that_does_not_act_changes_nothing() -> None:
    layer, x = FFA(2, 1.0, 0.99), maps(3, 2, 4, 4).float()
    layer(x)
    before = layer.running_mu.clone()
    assert before.ne(0).all()
    assert layer.eval()(x) is x
    assert layer.running_mu.equal(before)
    never = FFA(2, 0.0, 0.99)
    assert never(x) is x
    assert never.running_mu.tolist() == [0.0, 0.0]


def test_a_layer_follows_every_stage_and_no_name_changes() -> None:
    base = get("models", "alexnet_bn")(7, 64)
    made = method("fedfa").model(get("models", "alexnet_bn")(7, 64))
    assert [name for name, _ in made.named_parameters()] == [name for name, _ in base.named_parameters()]
    layers = {name: m.running_mu.numel() for name, m in made.stages.items() if isinstance(m, FFA)}
    assert layers == {f"stage{i + 1}_ffa": c for i, c in enumerate((64, 192, 384, 256, 256))}


def test_one_client_leaves_the_variances_as_they_are() -> None:
    federation = finish(small(spec(), method("fedfa", p=1.0), clients=1))
    row = federation.layout.named(federation.state.row)
    assert all(
        row[f"stages.stage{i}_ffa.variance_{s}"].eq(1).all() for i in (1, 2, 3, 4) for s in ("mu", "sigma")
    )
    assert row["stages.stage1_ffa.running_mu"].ne(0).any()
