"""The hypernetwork in a flat vector: sizes, start, and gradients in factors against full autograd; the autoencoder."""

import itertools

import pytest
import torch

from fedshift.common.registry import get
from fedshift.federation.layout import Layout
from fedshift.methods.hfedf.autoencoder import Autoencoder, unit_range
from fedshift.methods.hfedf.hypernet import Hypernetwork, generate, pullback


@pytest.mark.parametrize(
    ("classes", "hidden", "size"),
    [(7, 4, 47_345_902), (65, 4, 48_106_108), (5, 4, 47_319_688), (7, 3, 47_345_902 - 2_550)],
)
def test_sizes_of_table_8(classes: int, hidden: int, size: int) -> None:
    with torch.device("meta"):
        layout = Layout(get("models", "hfedf_cnn")(classes, 32))
    assert Hypernetwork(3, 1, hidden, layout.P).size == size


@pytest.mark.parametrize(("dim", "size"), [(1, 13_492), (4, 25_783)])
def test_size_of_the_autoencoder(dim: int, size: int) -> None:
    assert sum(p.numel() for p in Autoencoder(dim).parameters()) == size == Autoencoder.size(dim)


@pytest.mark.parametrize("hidden", [0, 1, 4])
@pytest.mark.parametrize("clients", [[0, 1, 2, 3], [2, 0], [1]])
def test_gradients_in_factors_equal_autograd(hidden: int, clients: list[int]) -> None:
    net, rng = Hypernetwork(4, 2, hidden, 37), torch.Generator().manual_seed(0)
    h = net.draw(rng, torch.float64).requires_grad_()
    v = torch.randn(len(clients), 37, dtype=torch.float64, generator=rng)
    products = [generate(net, h, client) @ one for client, one in zip(clients, v, strict=True)]
    full = torch.stack([torch.autograd.grad(product, h)[0] for product in products])
    pulled = pullback(net, h.detach(), clients, v)
    weights = torch.rand(len(clients), dtype=torch.float64, generator=rng)
    torch.testing.assert_close(pulled.gram(), full @ full.T, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(pulled.combined(weights), weights @ full, rtol=1e-12, atol=1e-12)
    assert not h.detach().is_set_to(pulled.inner)


@pytest.mark.parametrize("hidden", [0, 2])
def test_the_start_is_drawn_in_the_order_of_the_vector(hidden: int) -> None:
    """nu, then weight and bias of each layer, of the head last: one seed is one start, whatever else is rewritten."""
    net, rng = Hypernetwork(3, 2, hidden, 7), torch.Generator().manual_seed(5)
    parts = [torch.empty(3, 2, dtype=torch.float64).normal_(generator=rng)]
    widths = [2] + [50] * hidden
    for fan_in, outputs in [*itertools.pairwise(widths), (widths[-1], 7)]:
        for size in (fan_in * outputs, outputs):
            bound = fan_in**-0.5
            parts.append(torch.empty(size, dtype=torch.float64).uniform_(-bound, bound, generator=rng))
    drawn = net.draw(torch.Generator().manual_seed(5), torch.float64)
    torch.testing.assert_close(drawn, torch.cat([part.flatten() for part in parts]))


def test_unit_range_maps_each_channel_by_its_extremes() -> None:
    pixels = torch.rand(8, 3, 4, 4)
    pixels[0, :, 0, 0], pixels[0, :, 0, 1] = 0, 1
    shift, scale = torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1), torch.tensor([0.2, 0.3, 0.4]).view(3, 1, 1)
    normalised = (pixels - shift) / scale
    torch.testing.assert_close(unit_range(normalised)(normalised), pixels, rtol=0, atol=1e-6)
    assert unit_range(torch.ones(1, 3, 2, 2))(torch.ones(1, 3, 2, 2)).eq(0).all()
