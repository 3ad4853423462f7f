"""StableFDG: styles are explored and mixed, Steps 3 to 5 by hand."""

from __future__ import annotations

import pytest
import torch

from fedshift.methods.stablefdg.styles import any_samples, explored, oversampled
from fedshift.models.layers.style import Style
from tests.methods.stablefdg_toys import maps, rng, steps


@pytest.mark.parametrize(
    ("counts", "size", "added"),
    [((3, 2, 1), 6, [1, 2, 3]), ((3, 2, 1), 3, [0, 1, 2]), ((3, 2, 1), 1, [0, 0, 1]), ((4,), 3, [3])],
)
def test_added_samples_balance_the_classes(counts: tuple[int, ...], size: int, added: list[int]) -> None:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    assert labels[oversampled(labels, size, rng())].bincount(minlength=len(counts)).tolist() == added


def test_ties_and_sources_are_drawn() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    drawn = [oversampled(labels, 1, rng(seed)).item() for seed in range(60)]
    assert set(drawn) == set(range(6))
    assert set(any_samples(4, 100, rng()).tolist()) == {0, 1, 2, 3}


def test_exploration_goes_away_from_the_batch() -> None:
    own = Style(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [3.0]]))
    got = explored(own, torch.tensor([0, 1, 1, 1]), 3.0)
    assert got.mu.flatten().tolist() == [
        0.0,
        2.0,
        5.0,
        5.0,
    ]  # 2 + 3 (2 - 1): the centre leaves added ones out
    assert got.sigma.flatten().tolist() == [1.0, 3.0, 6.0, 6.0]


def test_a_batch_grows_once_with_its_labels() -> None:
    made = steps([0, 0, 0, 1, 1, 2])
    x = made.explore(maps(6, 2, 4, 4))
    assert len(x) == len(made.y) == len(made.labels) == 12
    assert made.labels.bincount().tolist() == [4, 4, 4]
    assert made.y.equal(made.labels)
    assert len(made.explore(x)) == 12
    assert len(steps([0, 1], size=5).explore(maps(2, 2, 4, 4))) == 7
    assert len(steps([0, 1], size=0).explore(maps(2, 2, 4, 4))) == 2
    assert len(steps([0, 1], p=0.0).explore(maps(2, 2, 4, 4))) == 2


@pytest.mark.parametrize("size", [None, 0])
def test_exploring_and_mixing_are_one_normalisation(
    size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x_hat from the style before, with its gradient; targets without."""
    x, labels = maps(4, 2, 4, 4).requires_grad_(), [0, 1, 0, 1]
    source = torch.tensor([0, 1, 2, 3, 2, 2, 1, 0])[: 8 if size is None else 4]
    share, partner = (
        torch.rand(len(source), dtype=torch.float64, generator=rng()),
        torch.randperm(len(source)),
    )
    monkeypatch.setattr("fedshift.methods.stablefdg.shares", lambda *_: share)
    monkeypatch.setattr("fedshift.methods.stablefdg.oversampled", lambda *_: source[4:])
    monkeypatch.setattr(torch, "randperm", lambda *_, **__: partner)
    got = steps(labels, size=size).explore(x)
    mu, sigma = x.mean((2, 3)), x.var((2, 3), correction=0).sqrt()
    hat = ((x - mu[:, :, None, None]) / sigma[:, :, None, None])[source]
    added = source[4:]
    targets = []
    for one in (mu.detach(), sigma.detach()):
        new = torch.cat([one, one[added] + 3 * (one[added] - one.mean(0))])
        targets.append(share[:, None] * new + (1 - share[:, None]) * new[partner])
    expected = hat * targets[1][:, :, None, None] + targets[0][:, :, None, None]
    torch.testing.assert_close(got, expected)
    weights = maps(*got.shape, seed=9)
    ours, theirs = (torch.autograd.grad((out * weights).sum(), x)[0] for out in (got, expected))
    torch.testing.assert_close(ours, theirs)
    assert ours.abs().max() > 1e-3
