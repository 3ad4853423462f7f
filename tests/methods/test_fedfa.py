"""FedFA: the server's variances against stored ones, the layer and the server at their limits."""

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation.batches import key
from fedshift.methods.fedfa import FFA, over_clients, share
from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain
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
    assert all(value.eq(1).all() for name, value in row.items() if "_ffa.variance_" in name)
    assert row["stages.stage1_ffa.running_mu"].ne(0).any()


# Three rounds of FedFA, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2}
KINDS = ("mu", "sigma")


def spread(P: plain.Tensors, s: int, kind: str) -> Tensor:
    """1 + gamma [C]: a channel's part of the clients' variance, as a factor."""
    u = 1 / (1 + 1 / (P[f"stages.stage{s}_ffa.variance_{kind}"] + 1e-6))
    return 1 + len(u) * u / u.sum()


def layer(P: plain.Tensors, s: int, x: Tensor) -> Tensor:
    """Nothing by the coin; else the running means move, and both statistics get noise."""
    if float(torch.rand(())) >= 0.5:
        return x
    n = x.shape[2] * x.shape[3]
    mu = x.mean((2, 3))
    sigma = ((x - mu[:, :, None, None]).square().sum((2, 3)) / (n - 1) + 1e-6).sqrt()
    noise = torch.randn(2, *mu.shape)
    new = []
    for kind, own, draw in zip(KINDS, (mu, sigma), noise, strict=True):
        running = P[f"stages.stage{s}_ffa.running_{kind}"]
        running.copy_(0.9 * running + 0.1 * own.detach().mean(0))
        new.append(own + draw * (spread(P, s, kind) * (own.var(0) + 1e-6)).sqrt())
    mu, sigma, new_mu, new_sigma = (one[:, :, None, None] for one in (mu, sigma, *new))
    return (x - mu) / sigma * new_sigma + new_mu


@pytest.mark.parametrize("variance", ["per_channel", "official_scalar"])
@plain.doubles()
def test_three_rounds(variance: str) -> None:
    hp = {"momentum": 0.9, "variance": variance}
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedfa", **hp))
    G = plain.named(f, f.state.row)
    assert all(value.eq(kind == "sigma").all() for kind in KINDS for name, value in G.items() if name.endswith(f"running_{kind}"))  # fmt: skip
    for t in range(plain.PARTIAL["rounds"]):
        chosen, up = plain.active(f, t), []
        for k in chosen:
            torch.manual_seed(key(0, "dropout", t, k))
            up.append(plain.trained(f, G, k, t, objective))
        G = plain.average(up, plain.by_size(chosen))
        for name in [name for name in G if "_ffa.variance_" in name]:
            running = torch.stack([P[name.replace("variance", "running")] for P in up])
            G[name] = running.var(0) if variance == "per_channel" else running.var().expand(running.shape[1])
    assert plain.differs(f, G) < 1e-8


def objective(P: plain.Tensors, x: Tensor, y: Tensor) -> Tensor:
    return plain.cross_entropy(plain.logits(P, x, True, lambda s, z: layer(P, s, z)), y)
