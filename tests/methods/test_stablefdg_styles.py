"""StableFDG: styles are shared and taken, Steps 1 and 2 by hand."""

from __future__ import annotations

import pytest
import torch

from fedshift.methods.stablefdg.styles import centres, farthest, information, received, ring, seeds
from fedshift.models.layers.style import Style, style
from tests.methods.stablefdg_toys import maps, rng, steps

# ---- Step 1


def test_information_is_means_and_variances_over_samples() -> None:
    styles = Style(torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [3.0]]))
    assert information(styles, "biased").flatten().tolist() == [2.0, 2.0, 4.0, 1.0]
    assert information(styles, "official").flatten().tolist() == pytest.approx([2.0, 2.0, 8.0, 2.0], abs=1e-5)


@pytest.mark.parametrize(("clients", "m"), [(2, 1), (3, 1), (10, 1), (10, 3), (3, 5)])
def test_styles_are_dealt_one_to_one_and_never_to_their_owner(clients: int, m: int) -> None:
    seen = set()
    for seed in range(40):
        given = ring(clients, m, rng(seed))
        assert given.shape == (clients, min(m, clients - 1))
        for column in given.T:
            assert column.sort().values.tolist() == list(range(clients))
            assert not column.eq(torch.arange(clients)).any()
        assert all(len(set(row)) == len(row) for row in given.tolist())
        seen |= {int(given[0, 0])}
    assert seen == set(range(1, clients))


def test_farthest_is_the_largest_distance_of_the_whole_information() -> None:
    phi = torch.zeros(4, 4, 1)
    phi[:, 3, 0] = torch.tensor([0.0, 1.0, 5.0, -3.0])
    assert farthest(phi, 1).flatten().tolist() == [2, 2, 3, 2]
    assert farthest(phi, 2).tolist()[0] == [2, 3]


# ---- Step 2


def test_seeds_are_drawn_by_squared_distance() -> None:
    features = torch.tensor([[0.0], [1.0], [3.0]])
    first = torch.tensor([1e-9, 1.0, 1.0])  # 0 wins the first race
    drawn = torch.empty(3000, 3).exponential_(generator=rng())
    second = torch.stack([seeds(features, torch.stack([first, one])) for one in drawn])
    assert second[:, 0].eq(0).all()
    assert second[:, 1].bincount(minlength=3).tolist() == pytest.approx([0, 300, 2700], abs=60)
    starts = torch.stack([seeds(features, one[None]) for one in drawn[:900]])
    assert starts.flatten().bincount(minlength=3).tolist() == pytest.approx([300] * 3, abs=60)


def test_distance_is_to_the_nearest_seed() -> None:
    features = torch.tensor([[0.0], [10.0], [1.0], [6.0]])
    race = torch.tensor([[1e-9, 1.0, 1.0, 1.0], [1.0, 1e-9, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert seeds(features, race).tolist() == [
        0,
        1,
        3,
    ]  # 6 is 4 away from its nearest, 1 only 1, though 9 from the last


def test_no_seed_comes_twice() -> None:
    for features in (torch.zeros(6, 2), torch.tensor([[0.0], [0.0], [0.0], [7.0], [7.0], [7.0]])):
        for seed in range(20):
            race = torch.empty(6, 6).exponential_(generator=rng(seed))
            assert seeds(features, race).sort().values.tolist() == list(range(6))


def test_received_styles() -> None:
    phi = torch.tensor([[1.0, 2.0, 4.0, 9.0], [10.0, 20.0, 0.0, 0.0]])[:, :, None]
    new = received(
        phi, torch.tensor([0, 0, 1]), torch.tensor([[[1.0], [0.0], [5.0]], [[1.0], [-2.0], [5.0]]])
    )
    assert new.mu.flatten().tolist() == [3.0, 1.0, 10.0]
    assert new.sigma.flatten().tolist() == [5.0, 0.0, 20.0]  # 2 - 2 * 3 is cut at 0


@pytest.mark.parametrize("shift", ["seeds", "random"])
def test_half_of_the_batch_takes_the_received_style(shift: str) -> None:
    x, phi = maps(9, 2, 4, 4), torch.tensor([[7.0, 8.0], [2.0, 3.0], [0.0, 0.0], [0.0, 0.0]])[None]
    got = steps([0] * 9, phi, shift=shift).shift(x)
    moved = [not torch.equal(a, b) for a, b in zip(got, x, strict=True)]
    assert sum(moved) == 5  # B / 2 = 4 stay, bit for bit
    new = style(got[moved], "biased")
    torch.testing.assert_close(new.mu, phi[0, 0].double().expand(5, 2), rtol=1e-5, atol=0)
    torch.testing.assert_close(new.sigma, phi[0, 1].double().expand(5, 2), rtol=1e-5, atol=0)


def test_shift_by_seeds_prefers_distant_styles_to_stay() -> None:
    x = maps(1, 1, 4, 4).repeat(8, 1, 1, 1)
    x[3] += 100
    for seed in range(10):
        torch.manual_seed(seed)
        phi = torch.tensor([1.0, 1.0, 0.0, 0.0])[None, :, None]
        assert torch.equal(steps([0] * 8, phi).shift(x)[3], x[3])


def test_no_gradient_passes_through_the_styles_of_step_2() -> None:
    x, phi = maps(4, 2, 4, 4).requires_grad_(), torch.ones(1, 4, 2)
    torch.manual_seed(0)
    got = steps([0] * 4, phi).shift(x)
    (gradient,) = torch.autograd.grad(got.sum(), x)
    scale = style(got, "biased").sigma / style(x, "biased").sigma
    torch.testing.assert_close(gradient, scale[:, :, None, None].expand_as(x), rtol=1e-5, atol=1e-5)


def test_released_shift_moves_the_last_half_and_centres_the_rest() -> None:
    x, phi = maps(6, 1, 4, 4), torch.tensor([5.0, 2.0, 0.0, 0.0])[None, :, None]
    x[0] = x[1] = x[2]  # three equal ones
    x[3] = x[4] = x[5] = 10 * x[3] + 100
    torch.manual_seed(1)
    new = style(steps([0] * 6, phi, shift="official").shift(x), "biased")
    assert new.mu[3:, 0].tolist() == pytest.approx([5.0] * 3)
    known = {round(mu, 6) for mu in style(x, "biased").mu[:, 0].tolist()}
    assert {round(mu, 6) for mu in new.mu[:3, 0].tolist()} <= known


def test_centres_are_means_of_the_nearest() -> None:
    features = torch.tensor([[0.0], [1.0], [10.0], [14.0]])
    assert centres(features, torch.tensor([1, 3])).flatten().tolist() == [0.5, 12.0]
    assert centres(torch.zeros(3, 1), torch.tensor([0, 2])).flatten().tolist() == [0.0, 0.0]


def test_many_received_styles_are_all_taken() -> None:
    phi = torch.tensor([[1.0, 1.0, 0.0, 0.0], [50.0, 1.0, 0.0, 0.0]])[:, :, None]
    torch.manual_seed(0)
    got = steps([0] * 32, phi).shift(maps(32, 1, 4, 4))
    mu = style(got, "biased").mu[:, 0].round()
    assert {1.0, 50.0} <= set(mu.tolist())
