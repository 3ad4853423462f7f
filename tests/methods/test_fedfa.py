"""FedFA: the server's variances against stored ones, the layer's numbers, and who keeps what."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.method import Method
from fedshift.methods import fedfa as module
from fedshift.methods.fedfa import FFA, augmented, over_clients, running_mean, share
from fedshift.models.layers.style import Style, style
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


def test_variance_over_clients_by_channel() -> None:
    running = torch.tensor([[0.0, 5.0], [2.0, 5.0]])
    assert over_clients(running, "per_channel").tolist() == [2.0, 0.0]
    assert over_clients(running, "official_scalar").tolist() == [6.0, 6.0]  # squares 9 + 4 + 1 + 4 over 3


def test_share_is_one_where_channels_are_equal_and_sums_to_their_number() -> None:
    assert share(torch.full((5,), 0.7)).tolist() == pytest.approx([1.0] * 5)
    assert share(torch.zeros(5)).tolist() == pytest.approx([1.0] * 5)
    got = share(torch.tensor([0.0, 1.0, 3.0]))
    u = [1e-6 / (1 + 1e-6), 0.5, 0.75]
    assert got.tolist() == pytest.approx([3 * one / sum(u) for one in u], rel=1e-4)


def test_augmentation_moves_by_the_spread_of_batch_and_clients() -> None:
    x = maps(1, 1, 3, 3).repeat(3, 2, 1, 1) + torch.tensor([0.0, 1.0, 2.0])[:, None, None, None]
    clients = Style(torch.tensor([1.0, 3.0]), torch.ones(2))
    moved = style(augmented(x, style(x), clients, torch.ones(2, 3, 2))).mu - style(x).mu
    gamma = [2 * 0.5 / 1.25, 2 * 0.75 / 1.25]
    assert moved[0].tolist() == pytest.approx([(1 + one) ** 0.5 for one in gamma], rel=1e-5)
    assert (augmented(x, style(x), clients, torch.zeros(2, 3, 2)) - x).abs().max() < 1e-12


def test_running_mean_by_hand() -> None:
    """0.75 of (1, 2) and a quarter of the batch's means (4, 6)."""
    running = torch.tensor([1.0, 2.0])
    assert running_mean(running, torch.tensor([[3.0, 5.0], [5.0, 7.0]]), 0.75) is running
    assert running.tolist() == [1.75, 3.0]


def test_layer_keeps_running_means_where_it_acts() -> None:
    layer, x = FFA(2, 1.0, 0.99), maps(3, 2, 4, 4).float()
    layer(x)
    own = style(x)
    torch.testing.assert_close(layer.running_mu, 0.01 * own.mu.mean(0))
    torch.testing.assert_close(layer.running_sigma, 0.99 + 0.01 * own.sigma.mean(0))
    assert layer.variance_mu.tolist() == layer.variance_sigma.tolist() == [1.0, 1.0]
    before = layer.running_mu.clone()
    never = FFA(2, 0.0, 0.99)
    assert never(x) is x
    assert never.running_mu.tolist() == [0.0, 0.0]
    assert layer.eval()(x) is x
    assert layer.running_mu.equal(before)


def test_the_gradient_passes_through_the_statistics() -> None:
    x, noise, one = maps(2, 3, 4, 4).requires_grad_(), maps(2, 2, 3), Style(torch.ones(3), torch.ones(3))
    assert torch.autograd.gradcheck(lambda z: augmented(z, style(z), one, noise), x)


def test_a_layer_follows_every_stage_and_no_name_changes() -> None:
    base = get("models", "alexnet_bn")(7, 64)
    made = method("fedfa").model(get("models", "alexnet_bn")(7, 64))
    assert [name for name, _ in made.named_parameters()] == [name for name, _ in base.named_parameters()]
    layers = {name: m.running_mu.numel() for name, m in made.stages.items() if isinstance(m, FFA)}
    assert layers == {f"stage{i + 1}_ffa": c for i, c in enumerate((64, 192, 384, 256, 256))}


def test_round_averages_buffers_and_then_takes_the_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded: list[Tensor] = []
    received: list[dict[str, Tensor]] = []
    train = loop.train

    def spy(self: Client, hooks: Method) -> Tensor:
        received.append({name: value.clone() for name, value in self.named(self.row).items()})
        result = train(self, hooks)
        uploaded.append(self.row.clone())
        return result

    monkeypatch.setattr(loop, "train", spy)
    federation = finish(small(spec(federation={"rounds": 2}), method("fedfa", p=1.0)))
    named = federation.layout.named
    rows = [named(row) for row in uploaded[:3]]
    assert received[0]["stages.stage2_ffa.variance_mu"].eq(1).all()
    for statistic in ("mu", "sigma"):
        for stage in (1, 2, 3, 4):
            name = f"stages.stage{stage}_ffa.%s_{statistic}"
            running = torch.stack([row[name % "running"] for row in rows])
            got = received[3]
            torch.testing.assert_close(got[name % "running"], torch.tensor([16.0, 6, 14]) / 36 @ running)
            torch.testing.assert_close(got[name % "variance"], running.var(0))
            assert got[name % "variance"].gt(0).any()
    assert received[3]["stages.stage1_ffa.running_mu"].equal(received[5]["stages.stage1_ffa.running_mu"])


def test_one_client_leaves_the_variances_as_they_are() -> None:
    federation = finish(small(spec(), method("fedfa", p=1.0), clients=1))
    row = federation.layout.named(federation.state.row)
    assert all(
        row[f"stages.stage{i}_ffa.variance_{s}"].eq(1).all() for i in (1, 2, 3, 4) for s in ("mu", "sigma")
    )
    assert row["stages.stage1_ffa.running_mu"].ne(0).any()


def test_partial_participation_counts_the_participants_alone() -> None:
    run = spec(federation={"rounds": 2, "participation": 0.34})
    row = finish(small(run, method("fedfa", p=1.0))).layout.named
    federation = finish(small(run, method("fedfa", p=1.0)))
    assert row(federation.state.row)["stages.stage1_ffa.variance_mu"].eq(1).all()  # one a round: no variance


def test_probability_zero_is_fedavg_bit_for_bit_on_its_entries() -> None:
    run = spec(local={"momentum": 0.9})
    ours, fedavg = finish(small(run, method("fedfa", p=0.0))), finish(small(run, method("fedavg")))
    mine, theirs = ours.layout.named(ours.state.row), fedavg.layout.named(fedavg.state.row)
    assert all(mine[name].equal(value) for name, value in theirs.items())


def test_it_acts_at_half_of_the_places_in_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(x: Tensor, own: Style, variances: Style, noise: Tensor) -> Tensor:
        assert noise.shape == (2, *x.shape[:2])
        seen.append(len(x))
        return x

    monkeypatch.setattr(module, "augmented", spy)
    finish(small(spec(local={"epochs": 5}, federation={"rounds": 4}), method("fedfa")))
    places = 4 * 4 * 5 * (2 + 1 + 2)  # stages, rounds, epochs, the clients' batches
    assert abs(len(seen) - places / 2) < 4 * (places / 4) ** 0.5
    assert set(seen) == {8, 6}
