"""hFedF: Eq. 4 to 10 against the reference and by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.federation.optimizer import Rule
from fedshift.methods import hfedf
from fedshift.methods.hfedf import alignment, ema_step, gradalign, hypernet
from fedshift.methods.hfedf.hypernet import Pullback, embedding_dim
from fedshift.testing.toys import finish, method, quadratics, recorded, turns
from tests.reference import Reference


def factors(g: Tensor) -> Pullback:
    """Gradients g [K, d] of a hypernetwork whose heads get none."""
    return Pullback(g, g.new_zeros(len(g), 1), g.new_zeros(len(g), 1))


def plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server descends by w -= g."""
    monkeypatch.setattr(hfedf, "Rule", lambda *args, **options: Rule("sgd", 1.0))


def linear(values: list[float], rounds: int = 1, lr: float = 0.1, **hp: Any) -> Federation:
    """One number w per client, its loss w^2 / 2, from a hypernetwork theta_0 nu + theta_1; values: nu, theta_0, theta_1."""
    clients = len(values) - 2
    chosen = method("hfedf", hidden=0, embedding_dim=1, **hp)
    made = quadratics(chosen, [1.0] * clients, [0.0] * clients, 0.0, lr, 1, rounds)
    made.state.slots["h"].copy_(torch.tensor(values, dtype=torch.float64))
    return made


@pytest.mark.parity
@pytest.mark.parametrize(("case", "sign"), [("plus", 1), ("minus_eq9", -1), ("equal", 1)])
def test_gradalign_follows_the_reference(case: str, sign: int) -> None:
    ref = Reference("hfedf.json")
    g = ref.given(f"gradalign_{case}.g")
    ref.equals(f"gradalign_{case}.g_avg", g.mean(0))
    gamma = alignment(factors(g).gram())
    weights = gradalign(gamma, sign)
    ref.equals(f"gradalign_{case}.cos", gamma)
    ref.equals(f"gradalign_{case}.weights", weights)
    ref.equals(f"gradalign_{case}.combined", factors(g).combined(weights)[:2])


@pytest.mark.parity
def test_ema_follows_the_reference() -> None:
    ref = Reference("hfedf.json")
    alpha, theta, before = (ref.given(f"ema.{name}") for name in ("alpha", "theta", "ema_prev"))
    ref.equals("ema.out", before + ema_step(2, 1, alpha) * (theta - before))
    smoothed = 0.0
    for t, step in enumerate((0.0, 4.0, 4.0)):  # theta: 0, 4, 8, warm-up round 1
        smoothed += ema_step(t, 1, 0.75) * step
    ref.equals("ema_sequence_alpha_0p75_warm_w1.out", smoothed)


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("hfedf.json")
    theta, nu, mu = (ref.given(f"tiny_hypernet.{name}") for name in ("theta", "nu", "mu"))
    start = [*nu.tolist(), *theta.tolist()]
    plain_steps(monkeypatch)
    seen, pulled = turns(monkeypatch), recorded(hypernet, "pullback", monkeypatch)
    weighed = recorded(hfedf, "gradalign", monkeypatch)
    federation = finish(linear(start, lr=mu))
    received, trained = (torch.cat(rows) for rows in zip(*seen, strict=True))
    ref.equals("tiny_hypernet.phi", received)
    ref.equals("tiny_hypernet.phi_tilde", trained)
    ref.equals("tiny_hypernet.delta_phi", trained - received)
    back, weights = pulled[0][-1], weighed[0][-1]
    g = torch.stack([back.combined(one) for one in torch.eye(2, dtype=torch.float64)])
    ref.equals("tiny_hypernet.g_descent", g.roll(2, 1))
    ref.equals("tiny_hypernet.weights", weights)
    ref.equals("tiny_hypernet.combined", back.combined(weights).roll(2))
    ref.equals("tiny_hypernet.theta_next_sgd_alpha1", federation.server.slot.h.roll(2))
    literal = finish(linear(start, lr=mu, literal_sign=True))
    ref.equals("tiny_hypernet.theta_next_if_paper_sign_taken_literally", literal.server.slot.h.roll(2))


@pytest.mark.parity
def test_embedding_dimensions_follow_the_reference() -> None:
    ref = Reference("hfedf.json")
    for clients in ref.keys("embedding_dim"):
        ref.equals(f"embedding_dim.{clients}", embedding_dim(int(clients)))


@pytest.mark.parametrize(
    ("sign", "weights"), [(1, [0.378873, 0.378873, 0.242254]), (-1, [0.280588, 0.280588, 0.438825])]
)
def test_a_gradient_far_from_the_mean_weighs_less(sign: int, weights: list[float]) -> None:
    gamma = alignment(factors(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).gram())
    assert gamma.tolist() == pytest.approx([0.894427, 0.894427, 0.447214], abs=1e-6)
    assert gradalign(gamma, sign).tolist() == pytest.approx(weights, abs=1e-6)


def test_equal_gradients_weigh_the_same_and_zero_ones_do_no_harm() -> None:
    equal = gradalign(alignment(factors(torch.tensor([[1.0, 2.0]] * 3)).gram()), 1)
    assert equal.tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert alignment(torch.zeros(3, 3)).tolist() == [0, 0, 0]
    assert alignment(factors(torch.tensor([[1.0, 0.0], [0.0, 0.0]])).gram()).tolist() == [1, 0]
    assert alignment(factors(torch.tensor([[1.0, 1.0], [-1.0, -1.0]])).gram()).tolist() == [0, 0]


def test_descent_brings_theta_towards_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_steps(monkeypatch)
    default, literal = linear([1.0, 3.0, 0.5, 1.0]), linear([1.0, 3.0, 0.5, 1.0], literal_sign=True)
    assert finish(default).server.slot.h[2].item() == pytest.approx(0.0355, abs=1e-4)
    assert finish(literal).server.slot.h[2].item() == pytest.approx(0.964, abs=1e-3)


@pytest.mark.parametrize("clients", [1, 3])
def test_an_identity_hypernetwork_is_fedavg(clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """phi = theta_1, server step 1: the (uniform) mean of the clients' models, in every round."""
    plain_steps(monkeypatch)
    h, c = [1.0, 0.5, 2.0][:clients], [3.0, -1.0, 0.5][:clients]
    identity = method("hfedf", hidden=0, embedding_dim=1, gradalign=False)
    made = quadratics(identity, h, c, 0.5, 0.1, 2, rounds=3)
    made.state.slots["h"].zero_()[-1] = 0.5
    fedavg = finish(quadratics(method("fedavg"), h, c, 0.5, 0.1, 2, rounds=3))
    assert finish(made).server.slot.h[-1].item() == pytest.approx(fedavg.server.row.item(), abs=1e-12)
    assert made.server.slot.h[:-1].eq(0).all()
