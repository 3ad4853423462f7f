"""FedHEAL: its rules by hand, three rounds against a plain re-telling, its limits."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.methods.fedheal import aggregated, consistent, distance, history, momentum
from fedshift.testing.toys import finish, method, quadratics, small, spec, turns


def test_who_counts_by_hand() -> None:
    """Two rounds seen, with D >= 0 in none, one and both: q is H for a rise, 1 - H for a fall; equal to tau is not above it."""
    H, seen = torch.tensor([[0.0, 0.5, 1.0]]), torch.tensor([2.0])
    rise, fall = torch.ones(1, 3), -torch.ones(1, 3)
    assert consistent(H, rise, seen, 0.4).tolist() == [[False, True, True]]
    assert consistent(H, fall, seen, 0.4).tolist() == [[True, True, False]]
    assert consistent(H, torch.zeros(1, 3), seen, 0.5).tolist() == [[False, False, True]]
    assert consistent(H, fall, torch.zeros(1), 0.9).all()


def test_history_by_hand() -> None:
    H = history(torch.zeros(2, 2), torch.tensor([[1.0, -1.0], [0.0, 2.0]]), torch.zeros(2))
    assert H.tolist() == [[1, 0], [1, 1]]
    H = history(H, torch.tensor([[-1.0, -1.0], [1.0, -2.0]]), torch.ones(2))
    assert H.tolist() == [[0.5, 0], [1, 0.5]]
    H = history(H, torch.ones(2, 2), torch.full((2,), 2.0))
    assert H.flatten().tolist() == pytest.approx([2 / 3, 1 / 3, 1, 2 / 3])


def test_distance_by_hand() -> None:
    """Norms are summed over tensors, 5 + 2 and 0 + 3: not the norm of all."""
    D = torch.tensor([[3.0, 4.0], [0.0, 0.0]]), torch.tensor([[[-2.0]], [[3.0]]])
    assert distance(D).tolist() == [7, 3]


def test_weights_have_the_precision_of_the_model() -> None:
    """One round on w^2 / 2 and (w - 3)^2 from 1: -0.1 and +0.4, distances .2 and .8 of all, weights .5 + .4 (.2, .8)."""
    federation = quadratics(method("fedheal", beta=0.4), [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 1, 1)
    finish(federation)
    assert federation.server.slot.p.tolist() == pytest.approx([0.58, 0.82], abs=1e-15)
    assert federation.server.row.item() == pytest.approx(1 + (0.58 * -0.1 + 0.82 * 0.4) / 1.4, abs=1e-15)
    three = finish(quadratics(method("fedheal", beta=0.0), [1.0] * 3, [0.0] * 3, 1.0, 0.1, 1, 1))
    assert three.server.slot.p.tolist() == [1 / 3] * 3


def test_weight_momentum_by_hand() -> None:
    dp = momentum(torch.zeros(2), torch.tensor([1.0, 3.0]), torch.tensor(4.0), 0.4)
    assert dp.tolist() == pytest.approx([0.1, 0.3])
    assert momentum(dp, torch.ones(2), torch.tensor(2.0), 0.4).tolist() == pytest.approx([0.26, 0.38])
    assert momentum(dp, torch.ones(2), torch.tensor(8.0), 0.4).tolist() == pytest.approx([0.11, 0.23])
    assert momentum(dp, torch.zeros(2), torch.tensor(0.0), 0.4).tolist() == pytest.approx([0.06, 0.18])


def test_aggregation_by_hand() -> None:
    """p = (1/4, 3/4): both count, the first alone, nobody."""
    row, rows = torch.tensor([1.0, 1.0, 1.0]), torch.tensor([[2.0, 2.0, 2.0], [6.0, 6.0, 6.0]])
    masks = torch.tensor([[True, True, False], [True, False, False]])
    assert aggregated(row, rows, torch.tensor([0.25, 0.75]), masks).tolist() == [5, 2, 1]


def played(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor, list[int]]]:
    """Run to the end; the row before, the clients' rows and their numbers, of every round; last the final row."""
    rounds: list[tuple[Tensor, Tensor, list[int]]] = []
    seen = turns(monkeypatch)
    before = federation.server.row.clone()
    for _ in federation.run():
        rounds.append((before, torch.stack([row for _, row in seen]), list(federation.server.active)))
        before = federation.server.row.clone()
        seen.clear()
    rounds.append((before, torch.empty(0), []))
    return rounds


@pytest.mark.parametrize("participation", [1.0, 0.67])
def test_rounds_follow_a_plain_retelling(participation: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs are remembered as lists; distances are summed over trainable tensors only; statistics are masked too.

    A weight starts at one over the round's clients; a distance is a part of the last ones of all clients seen, away or not.
    """
    tau, beta = 0.4, 0.3
    run = spec(federation={"rounds": 4, "participation": participation})
    federation = small(run, method("fedheal", tau=tau, beta=beta))
    rounds = played(federation, monkeypatch)
    signs: list[list[Tensor]] = [[], [], []]
    p, dp, masked = [0.0] * 3, [0.0] * 3, 0.0
    last: dict[int, float] = {}
    away = 0
    for (before, rows, active), (after, *_) in itertools.pairwise(rounds):
        masks, distance = [], []
        for row, k in zip(rows, active, strict=True):
            D = row - before
            rises = D >= 0
            alike = sum(((one == rises).float() for one in signs[k]), torch.zeros_like(D))
            masks.append((alike / len(signs[k]) > tau).float() if signs[k] else torch.ones_like(D))
            signs[k].append(rises)
            named = federation.layout.named(D * masks[-1])
            distance.append(sum(named[name].norm().item() for name, _ in federation.worker.network("model").model.named_parameters()))  # fmt: skip
        last |= dict(zip(active, distance, strict=True))
        away += len(set(last) - set(active))
        for k in active:
            dp[k] = (1 - beta) * dp[k] + beta * last[k] / sum(last.values())
            p[k] = (p[k] if len(signs[k]) > 1 else 1 / len(active)) + dp[k]
        weights = torch.stack([p[k] * mask for k, mask in zip(active, masks, strict=True)])
        total = weights.sum(0)
        moved = torch.where(total > 0, (weights * (rows - before)).sum(0) / total, 0.0)
        assert after.tolist() == pytest.approx((before + moved).tolist(), abs=1e-5)
        masked += (torch.stack(masks) == 0).float().mean().item()
        if len(signs[0]) > 1:
            assert (torch.stack(masks)[:, federation.layout.B] == 0).any()
    assert masked > 0.1
    assert (away > 0) == (participation < 1)
    assert federation.server.slot.p.tolist() == pytest.approx(p, abs=1e-5)
    assert federation.server.slot.dp.tolist() == pytest.approx(dp, abs=1e-6)


def test_without_mask_and_momentum_it_is_uniform_fedavg_bit_for_bit() -> None:
    run = spec(local={"clip": 2.0}, federation={"rounds": 3, "weights": "uniform"})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("fedheal", tau=-1.0, beta=0.0))).server.row.equal(fedavg)
    assert not finish(small(run, method("fedheal", tau=-1.0, beta=0.4))).server.row.equal(fedavg)
    assert not finish(small(run, method("fedheal", tau=0.5, beta=0.0))).server.row.equal(fedavg)


def test_with_tau_1_nothing_moves_after_the_first_round() -> None:
    federation = small(spec(federation={"rounds": 3}), method("fedheal", tau=1.0))
    rows = [federation.server.row.clone() for _ in federation.run()]
    assert rows[0].equal(rows[1]) and rows[1].equal(rows[2])
    assert federation.server.slot.seen.tolist() == [3, 3, 3]
