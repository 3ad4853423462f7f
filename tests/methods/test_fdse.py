"""FDSE: its equations by hand (against the reference: test_fdse_parity.py)."""

from __future__ import annotations

import math

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.methods.fdse.consensus import consensus, min_norm, similarity
from fedshift.methods.fdse.consistency import consistency, depth_weights, moments, running
from tests.methods.fdse_toys import channels


def test_consensus_by_hand() -> None:
    def result(*updates: list[float]) -> list[float]:
        return consensus(torch.tensor(updates, dtype=torch.float64)).tolist()

    assert result([3, 0], [0, 4]) == pytest.approx([1.75, 1.75], abs=1e-12)
    assert result([2, 0], [-5, 0]) == pytest.approx([0, 0], abs=1e-12)
    assert result([1, 0], [3, 0]) == pytest.approx([2, 0], abs=1e-12)
    assert result([1, 0], [1, 0], [0, 1]) == pytest.approx([0.5, 0.5], abs=1e-12)
    assert result([3, 0], [0, 4], [0, 0]) == pytest.approx([7 / 6, 7 / 6], abs=1e-12)
    assert result([0, 0], [0, 0]) == [0, 0]
    assert result([1, 2]) == [1, 2]


@pytest.mark.parametrize("lost", [math.inf, -math.inf, math.nan])
def test_consensus_of_an_update_that_is_not_finite_names_its_client(lost: float) -> None:
    with pytest.raises(FedshiftError, match=r"Eq. 8: the update of client 1 is infinite or NaN\n.*local.lr"):
        consensus(torch.tensor([[1.0, 2.0], [lost, 1.0], [3.0, 0.0]]))
    with pytest.raises(FedshiftError, match="of clients 0, 2 "):
        consensus(torch.tensor([[1.0, lost], [1.0, 1.0], [lost, lost]]))


def test_consensus_harms_nobody() -> None:
    """Many random updates, more than there are dimensions or fewer; scaling one client changes the length alone."""
    for seed, (clients, n) in enumerate([(2, 50), (4, 50), (10, 3), (30, 8)]):
        updates = torch.randn(clients, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        common = consensus(updates)
        assert (updates @ common >= -1e-9).all()
        louder = updates.clone()
        louder[0] *= 100
        length = louder.norm(dim=1).mean() / updates.norm(dim=1).mean()
        torch.testing.assert_close(consensus(louder), common * length, rtol=1e-7, atol=1e-9)
        order = torch.randperm(clients, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(consensus(updates[order]), common, rtol=1e-7, atol=1e-9)


def test_min_norm_is_optimal() -> None:
    """u >= 0, sum 1, and no vertex is a direction of descent: <e_k, e> >= ||e||^2."""
    for seed, (k, n) in enumerate([(3, 2), (6, 4), (12, 30), (30, 5)]):
        e = torch.randn(k, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        u = min_norm(e @ e.T)
        assert (u >= 0).all() and u.sum().item() == pytest.approx(1, abs=1e-12)
        assert (e @ (u @ e) >= (u @ e).square().sum() - 1e-10).all()


def test_similarity_by_hand() -> None:
    values = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    near = similarity(values, 0.5)
    assert near.flatten().tolist() == pytest.approx([0.880797, 0.119203, 0.119203, 0.880797], abs=1e-6)
    assert similarity(values, 1e9).flatten().tolist() == pytest.approx([0.5] * 4, abs=1e-6)
    assert (similarity(values, 1e-3) @ values).equal(values)
    opposed = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    weights = similarity(opposed, 1.0)
    assert weights[2].tolist() == [0, 0, 1]  # nothing is its direction: it keeps itself
    expected = [math.e, 1 / math.e, 1]
    assert weights[0].tolist() == pytest.approx([w / sum(expected) for w in expected], abs=1e-6)
    assert weights.sum(1).tolist() == pytest.approx([1, 1, 1], abs=1e-6)


def test_consistency_by_hand() -> None:
    """Two layers of 2 and 1 channels: a shift of means is squared per channel, variances are compared in sum."""
    at = torch.tensor
    layers = consistency(
        at([1.0, 3.0, 5.0]),
        at([2.0, 4.0, 1.0]),
        at([0.0, 3.0, 3.0]),
        at([4.0, 2.0, 4.0]),
        channels(2, 1).float(),
    )
    assert layers.tolist() == [0.5, 4 + 9]
    same = at([1.0, 3.0, 5.0]), at([2.0, 4.0, 1.0])
    assert consistency(*same, *same, channels(2, 1).float()).tolist() == [0, 0]


def test_moments_and_running_statistics_by_hand() -> None:
    x = torch.tensor([[[[0.0, 2.0]], [[1.0, 1.0]]], [[[4.0, 2.0]], [[1.0, 5.0]]]])  # [B 2, T 2, 1, 2]
    average, variance = moments(x)
    assert average.tolist() == [2, 2] and variance.tolist() == [2, 3]
    assert moments(x.flatten(1)[:, :2])[1].tolist() == [4, 0]
    assert moments(x.bfloat16())[0].dtype == torch.float32
    before, batch = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    new = running(before, batch)
    assert new.tolist() == pytest.approx([1.1])
    new.backward()
    assert before.grad is None and batch.grad is not None and batch.grad.tolist() == pytest.approx([0.1])


def test_depth_weights_by_hand() -> None:
    ends = depth_weights(torch.arange(7), 0.001)[[0, -1]].tolist()
    assert ends == pytest.approx([0.142429, 0.143286], abs=1e-6)
    assert depth_weights(torch.arange(7), 1.0)[-1].item() == pytest.approx(0.632698, abs=1e-6)
    torch.testing.assert_close(depth_weights(torch.arange(1, 8), 0.3), depth_weights(torch.arange(7), 0.3))
