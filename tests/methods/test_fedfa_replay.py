"""Three rounds of FedFA, one of three unequal clients at rest, against the same rounds written out; what is drawn, in the same order."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.federation.batches import key
from fedshift.testing.toys import method, spec
from tests.methods import plain

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
    return plain.cross_entropy(plain.head(P, plain.feature(P, x, True, lambda s, z: layer(P, s, z))), y)
