"""FedSR: its regularisers against the reference and at zero, its head in evaluation."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.batches import key
from fedshift.methods.fedsr import SAMPLES, StochasticHead, conditional_mutual_information, l2_regulariser
from fedshift.testing.toys import finish, method, spec
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
def test_regularisers() -> None:
    ref = Reference("fedsr.json")
    mu, sigma, eps, y = (ref.given(name) for name in ("z_mu", "z_sigma", "eps", "y"))
    z = mu + sigma * eps
    ref.equals("L2R_norm_mean", l2_regulariser(z))
    ref.equals("L2R_alt_squared", l2_regulariser(z, squared=True))
    r_mu, raw = ref.given("r_mu"), ref.given("r_sigma_raw")
    scale = torch.tensor(ref.given("C"), dtype=torch.float64)
    y = y.long()
    cmi = conditional_mutual_information(mu, sigma, r_mu[y], F.softplus(raw)[y], scale)
    ref.equals("CMI_official", cmi)


def test_a_representation_of_zero_has_no_norm_and_a_gradient_of_zero() -> None:
    """The gradient of the mean norm is z / (B ||z||): here (3, 4) / 5 / 2."""
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    l2_regulariser(z).backward()
    assert l2_regulariser(z).item() == pytest.approx(2.5, abs=1e-15)
    assert z.grad is not None
    assert z.grad.flatten().tolist() == pytest.approx([0, 0, 0.3, 0.4], abs=1e-15)


def test_in_evaluation_probabilities_of_twenty_samples_are_averaged() -> None:
    """With the same noise whenever it is asked."""
    made, x = StochasticHead(6, 4, 3).eval(), torch.randn(5, 6)
    logits = made(x)
    assert made(x).equal(logits)
    mu, sigma = made.encode(x)
    noise = torch.randn((SAMPLES, 1, 4), generator=torch.Generator().manual_seed(0))
    each = torch.stack([made.classify(mu + sigma * one).softmax(1) for one in noise])
    assert logits.exp().flatten().tolist() == pytest.approx(each.mean(0).flatten().tolist(), abs=1e-6)


# Three rounds of FedSR, one of three unequal clients at rest, against the same rounds written out in fp64.
LOCAL: dict[str, Any] = {"batch": 5, "lr": 0.02, "momentum": 0.5, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}  # fmt: skip
L2R, CMI, Z = 0.5, 0.2, 6
OWN = "head.reference."


def objective(P: plain.Tensors, x: Tensor, y: Tensor, squared: bool) -> Tensor:
    encoded = plain.feature(P, x, True) @ P["head.encoder.weight"].T + P["head.encoder.bias"]
    mu, sigma = encoded[:, :Z], torch.log1p(torch.exp(encoded[:, Z:]))
    z = mu + sigma * torch.randn(len(y), Z)
    out = z @ P["head.classify.weight"].T + P["head.classify.bias"]
    C, r = P[f"{OWN}scale"], torch.log1p(torch.exp(P[f"{OWN}raw"]))[y]
    kl = torch.log(r / (C * sigma)) + ((C * sigma) ** 2 + (C * mu - P[f"{OWN}mu"][y]) ** 2) / (2 * r**2) - 0.5
    squares = z.square().sum(1)
    l2r = (squares if squared else squares.sqrt()).mean()
    return plain.cross_entropy(out, y) + L2R * l2r + CMI * kl.sum(1).mean()


@pytest.mark.parametrize("squared", [False, True])
def test_three_rounds(squared: bool) -> None:
    """The references have momentum .9 and are not clipped; the noise is one number for each image and dimension."""
    hp = {"z": Z, "l2r": L2R, "cmi": CMI, "squared": squared}
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedsr", **hp))
    G = {name: value.double() for name, value in plain.named(f, f.state.row).items()}
    own = [{name: value for name, value in G.items() if name.startswith(OWN)} for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen, up = plain.active(f, t), []
        for k in chosen:
            P, momentum = G | own[k], plain.Tensors()
            P = {name: value.clone() for name, value in P.items()}
            torch.manual_seed(key(0, "dropout", t, k))
            for _, x, y in plain.batches(f, k, t):
                plain.leaves(P)
                names = plain.trainable(P)
                loss = objective(P, x.double(), y, squared)
                g = dict(zip(names, torch.autograd.grad(loss, [P[name] for name in names]), strict=True))
                length = torch.cat([g[name].flatten() for name in names if OWN not in name]).norm()
                scale = min(1.0, 1 / (float(length) + 1e-6))
                for name in names:
                    one, m = (g[name], 0.9) if OWN in name else (g[name] * scale, 0.5)
                    w = P[name].detach()
                    step = one + LOCAL["weight_decay"] * w
                    momentum[name] = m * momentum[name] + step if name in momentum else step
                    P[name] = w - LOCAL["lr"] * momentum[name]
            own[k] = {name: P[name] for name in own[k]}
            up.append(P)
        mean = plain.average(up, plain.by_size(chosen))
        G |= {name: value for name, value in mean.items() if OWN not in name}
    finish(f)
    for k, mine in enumerate(own):
        assert plain.far(plain.kept(f, k), G | mine) < 5e-5  # the engine is in fp32 here
