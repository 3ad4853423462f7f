"""FedHEAL: its rules where a replay does not reach them, its limit."""

from __future__ import annotations

import pytest
import torch

from fedshift.methods.fedheal import aggregated, consistent, momentum
from fedshift.testing.toys import finish, method, quadratics


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
