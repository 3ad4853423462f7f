"""FedHEAL: its rules where a replay does not reach them, its limit."""

import pytest
import torch

from fedshift.methods.fedheal import aggregated, consistent, momentum
from fedshift.testing.toys import finish, method, quadratics, spec
from tests.methods import plain


def test_who_counts_by_hand() -> None:
    """Two rounds seen, with D >= 0 in none, one and both: q is H for a rise, 1 - H for a fall; equal to tau is not above it."""
    H, seen = torch.tensor([[0.0, 0.5, 1.0]]), torch.tensor([2.0])
    rise, fall = torch.ones(1, 3), -torch.ones(1, 3)
    assert consistent(H, rise, seen, 0.4).tolist() == [[False, True, True]]
    assert consistent(H, fall, seen, 0.4).tolist() == [[True, True, False]]
    assert consistent(H, torch.zeros(1, 3), seen, 0.5).tolist() == [[False, False, True]]
    assert consistent(H, fall, torch.zeros(1), 0.9).all()


def test_weights_have_the_precision_of_the_model() -> None:
    """One round on w^2 / 2 and (w - 3)^2 from 1: -0.1 and +0.4, distances .2 and .8 of all, weights .5 + .4 (.2, .8)."""
    federation = quadratics(method("fedheal", beta=0.4), [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 1, 1)
    finish(federation)
    assert federation.server.slot.p.tolist() == pytest.approx([0.58, 0.82], abs=1e-15)
    assert federation.server.row.item() == pytest.approx(1 + (0.58 * -0.1 + 0.82 * 0.4) / 1.4, abs=1e-15)
    three = finish(quadratics(method("fedheal", beta=0.0), [1.0] * 3, [0.0] * 3, 1.0, 0.1, 1, 1))
    assert three.server.slot.p.tolist() == [1 / 3] * 3


def test_weight_momentum_without_any_distance() -> None:
    dp = torch.tensor([0.1, 0.3])
    assert momentum(dp, torch.zeros(2), torch.tensor(0.0), 0.4).tolist() == pytest.approx([0.06, 0.18])


def test_aggregation_by_hand() -> None:
    """p = (1/4, 3/4): both count, the first alone, nobody."""
    row, rows = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([[2.0, 2.0, 2.0], [6.0, 6.0, 6.0]])
    masks = torch.tensor([[True, True, False], [True, False, False]])
    assert aggregated(row, rows, torch.tensor([0.25, 0.75]), masks).tolist() == [5, 2, 1]


# Four rounds of FedHEAL, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
TAU, BETA, ROUNDS = 0.4, 0.3, 4


@plain.doubles()
def test_four_rounds() -> None:
    """Signs of a client's own rounds; distances of trainable tensors alone, over the last ones of all clients seen so far."""
    run = spec(local=LOCAL, federation={"rounds": ROUNDS, "participation": 0.67})
    f = plain.federation(run, method("fedheal", tau=TAU, beta=BETA))
    G = plain.named(f, f.state.row)
    rises: list[list[plain.Tensors]] = [[] for _ in plain.SIZES]
    p, dp, far = ([0.0] * len(plain.SIZES) for _ in range(3))
    for t in range(ROUNDS):
        chosen, moved, masks = plain.active(f, t), dict[int, plain.Tensors](), dict[int, plain.Tensors]()
        for k in chosen:
            P = plain.trained(f, G, k, t)
            D = {name: P[name] - G[name] for name in G}
            masks[k] = {name: torch.ones_like(one) for name, one in D.items()}
            for name in D if rises[k] else []:
                up = torch.stack([before[name] for before in rises[k]]).mean(0)
                masks[k][name] = (torch.where(D[name] >= 0, up, 1 - up) > TAU).double()
            moved[k] = D
            far[k] = sum(float((masks[k][name] * D[name]).norm()) for name in plain.trainable(G))
        for k in chosen:
            p[k] = p[k] if rises[k] else 1 / len(chosen)
            dp[k] = (1 - BETA) * dp[k] + BETA * far[k] / sum(far)
            p[k] += dp[k]
            rises[k].append({name: (one >= 0).double() for name, one in moved[k].items()})
        for name in G:
            counted = sum(p[k] * masks[k][name] for k in chosen)
            step = sum(p[k] * masks[k][name] * moved[k][name] for k in chosen)
            G[name] = G[name] + torch.where(counted > 0, step / counted.clamp(min=1e-300), 0.0)
    assert plain.differs(f, G) < 1e-8
