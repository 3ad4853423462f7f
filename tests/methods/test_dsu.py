"""DSU against stored noise, its limits, and where it acts."""

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation.batches import key
from fedshift.methods.dsu import Uncertainty, dsu
from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain
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


# Three rounds of DSU, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2}


def layer(s: int, x: Tensor) -> Tensor:
    if float(torch.rand(())) >= 0.5:
        return x
    mu, sigma = x.mean((2, 3)), (x.var((2, 3)) + 1e-6).sqrt()
    noise = torch.randn(2, *mu.shape)
    new_mu = mu + noise[0] * (mu.var(0) + 1e-6).sqrt()
    new_sigma = sigma + noise[1] * (sigma.var(0) + 1e-6).sqrt()
    mu, sigma, new_mu, new_sigma = (one[:, :, None, None] for one in (mu, sigma, new_mu, new_sigma))
    return (x - mu) / sigma * new_sigma + new_mu


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("dsu"))

    def turn(G: plain.Tensors, k: int, t: int) -> plain.Tensors:
        torch.manual_seed(key(0, "dropout", t, k))
        objective = lambda P, x, y: plain.cross_entropy(plain.logits(P, x, True, layer), y)  # noqa: E731
        return plain.trained(f, G, k, t, objective)

    assert plain.differs(f, plain.averaged(f, turn)) < 1e-8
