"""Layers against the same layers written out: FDSE's blocks, the autoencoder, AdaIN's networks, highlighters, moments, pooling, styles."""

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.data.renderings import ccst as adain
from fedshift.methods.fdse.block import Decomposition, decompose
from fedshift.methods.fdse.consistency import BatchMoments
from fedshift.methods.hfedf.autoencoder import Autoencoder
from fedshift.methods.stablefdg.attention import ConvolutionHighlighter, Highlighter
from fedshift.models.layers.blocks import AdaptiveAverage, ConvBlock, GlobalAverage, LinearBlock
from fedshift.models.layers.style import adain as restyled
from fedshift.models.layers.style import style, widened
from tests.models import plain
from tests.models.test_forward import held_to, images, scattered

DOUBLE = torch.float64


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("linear", [False, True], ids=["convolution", "linear"])
@pytest.mark.parametrize(
    "how",
    [
        Decomposition(),
        Decomposition(G=3, dw=5, concat_bias="shared"),
        Decomposition(activation="none", fc_identity=True, padding="v1"),
        Decomposition(concat_bias="none", padding="head"),
        Decomposition(G=1),
    ],
    ids=["paper", "thirds", "first", "second", "whole"],
)
def test_fdses_block(how: Decomposition, linear: bool, train: bool) -> None:
    """Kernels of 3 with stride 2 and padding 1; 7 outputs, which neither 2 nor 3 divides. Padding of the second release: none."""
    torch.manual_seed(0)
    module: nn.Module = LinearBlock(6, 7) if linear else ConvBlock(3, 7, 3, stride=2, padding=1)
    decompose(module, how)
    at, x = ("fc", images(2, DOUBLE, 5).flatten(1)[:, :6]) if linear else ("conv", images(9, DOUBLE, 5))
    options = {} if linear else {"stride": 2, "padding": 0 if how.padding == "head" else 1}

    def forward(P: dict[str, Tensor], x: Tensor, train: bool) -> list[Tensor]:
        P = {name.removeprefix("net."): one for name, one in P.items()}
        identity = how.G > 1 and (not linear or how.fc_identity)
        z = plain.block(P, at, x, train, 7, how.G, how.dw, how.activation, identity, **options)
        return [F.relu(z)]

    model = scattered(Listed(module), DOUBLE)
    held_to(model, forward, x, train)


class Listed(nn.Module):
    """A module whose output comes as a list."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> list[Tensor]:
        return [self.net(x)]


def test_the_autoencoder_is_table_9_and_learns_by_adam_on_squared_errors() -> None:
    """Two epochs over batches of 20, 20 and 5, in the order given."""
    vector = Autoencoder.draw(3, torch.Generator().manual_seed(1))
    net = Autoencoder.on(vector)
    P = {name: one.detach().clone().requires_grad_() for name, one in net.named_parameters()}
    x = torch.rand(45, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(net.encode(x), plain.autoencoder(P, x)[0])
    torch.testing.assert_close(net(x), plain.autoencoder(P, x)[1])
    optimizer = torch.optim.Adam(P.values(), lr=1e-3)
    for start, stop in [(0, 20), (20, 40), (40, 45)] * 2:
        optimizer.zero_grad()
        (plain.autoencoder(P, x[start:stop])[1] - x[start:stop]).square().mean().backward()
        optimizer.step()
    net.fit(x, epochs=2)
    for name, one in net.named_parameters():
        torch.testing.assert_close(one, P[name], rtol=1e-4, atol=1e-5)


def mirrored(net: nn.Sequential, at: int, x: Tensor) -> Tensor:
    """3x3 with mirrored borders, and ReLU."""
    conv = net[at][1]
    return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), conv.weight, conv.bias)


def test_adains_encoder_is_vgg_19_to_relu4_1() -> None:
    """1x1, then 64 64 M 128 128 M 256 256 256 256 M 512: max pooling rounds up."""
    torch.manual_seed(0)
    net, x = adain.encoder(), torch.rand(2, 3, 20, 12)
    expected, place = F.conv2d(x, net[0].weight, net[0].bias), itertools.count(1)
    for widths in ([64, 64], [128, 128], [256] * 4, [512]):
        for width in widths:
            expected = F.relu(mirrored(net, next(place), expected))
            assert expected.shape[1] == width and isinstance(net[next(place)], nn.ReLU)
        if width < 512:
            expected, _ = F.max_pool2d(expected, 2, ceil_mode=True), next(place)
    torch.testing.assert_close(net(x), expected)
    assert expected.shape == (2, 512, 3, 2)


def test_adains_decoder_is_its_mirror() -> None:
    """512 to 256, doubled, 256 256 256 128, doubled, 128 64, doubled, 64 3; nearest neighbours, no ReLU after the last."""
    torch.manual_seed(0)
    net, x = adain.decoder(), torch.rand(2, 512, 3, 2)
    expected, place = x, 0
    for step in (256, "x2", 256, 256, 256, 128, "x2", 128, 64, "x2", 64, 3):
        if step == "x2":
            expected = expected.repeat_interleave(2, 2).repeat_interleave(2, 3)
            place += 1
            continue
        expected = mirrored(net, place, expected)
        assert expected.shape[1] == step
        expected = F.relu(expected) if step != 3 else expected
        place += 2
    torch.testing.assert_close(net(x), expected)
    assert place - 1 == len(net) and (expected < 0).any()


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_the_highlighter_is_the_whole_similarity_matrix(similarity: str) -> None:
    """Sec. 3.2 with the partner's queries turned around: S = ((Q_j + Q_i) / 2)^T K_i, averaged over queries, softmax, weighted mean."""
    made = Highlighter(GlobalAverage(), 6, 4, similarity).double()  # type: ignore[arg-type]
    z = torch.randn(3, 6, 3, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(3))
    got = made(z, lambda own: (own.roll(1, 0) + own) / 2)
    P = dict(made.named_parameters())
    q, k = (torch.einsum("dc,bcp->bdp", P[f"{one}.weight"][:, :, 0, 0], z.flatten(2)) + P[f"{one}.bias"][:, None] for one in ("query", "key"))  # fmt: skip
    if similarity == "cosine":
        q, k = q / q.norm(dim=1, keepdim=True), k / k.norm(dim=1, keepdim=True)
    for i in range(3):
        S = ((q[i - 1] + q[i]) / 2).T @ k[i]
        weights = torch.exp(S.mean(0)) / torch.exp(S.mean(0)).sum()
        expected = torch.cat([z[i].mean((1, 2)), z[i].flatten(1) @ weights])
        torch.testing.assert_close(got[i], expected)


def test_the_convolutions_of_table_16() -> None:
    made = ConvolutionHighlighter(GlobalAverage(), 6, 4)
    z = torch.randn(3, 6, 3, 2, generator=torch.Generator().manual_seed(3))
    first, _, second = made.score
    hidden = torch.einsum("dc,bcp->bdp", first.weight[:, :, 0, 0], z.flatten(2)) + first.bias[:, None]
    scores = torch.einsum("dc,bcp->bdp", second.weight[:, :, 0, 0], hidden.clamp(min=0)) + second.bias[:, None]  # fmt: skip
    weights = scores[:, 0].softmax(1)
    expected = torch.cat([z.mean((2, 3)), torch.einsum("bp,bcp->bc", weights, z.flatten(2))], 1)
    torch.testing.assert_close(made(z), expected)


SHAPES = [(6, 5, 4, 3), (6, 5), (2, 3, 7)]


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_to_plain_reductions(shape):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    axes = [0, *range(2, x.dim())]
    mean, variance = BatchMoments.apply(x)
    torch.testing.assert_close(mean, x.mean(axes), rtol=0, atol=1e-14)
    torch.testing.assert_close(variance, x.var(axes, correction=0), rtol=0, atol=1e-14)
    assert torch.autograd.gradcheck(BatchMoments.apply, (x,))


@pytest.mark.parametrize("shape", SHAPES)
def test_bf16_and_channels_last(shape):
    """Statistics in fp32; the gradient in the precision and the layout of the map."""
    exact = torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()
    if len(shape) == 4:
        exact = exact.to(memory_format=torch.channels_last)
    x = exact.clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        mean, variance = BatchMoments.apply(x)
    assert mean.dtype == variance.dtype == torch.float32
    axes = [0, *range(2, x.dim())]
    torch.testing.assert_close(mean, exact.float().mean(axes), rtol=0, atol=1e-6)
    torch.testing.assert_close(variance, exact.float().var(axes, correction=0), rtol=1e-5, atol=1e-6)
    (mean.sum() + variance.sum()).backward()
    assert x.grad.dtype == torch.bfloat16 and x.grad.stride() == x.stride()
    expected = (1 + 2 * (exact.float() - mean.view(-1, *[1] * (len(shape) - 2)))) / (exact.numel() / shape[1])
    torch.testing.assert_close(x.grad.float(), expected.detach(), rtol=0.02, atol=2e-3)


@pytest.mark.parametrize(("height", "width", "side"), [(8, 8, 3), (15, 13, 6), (1, 1, 6)])
def test_equals_adaptive_average_pooling(height, width, side):
    torch.manual_seed(0)
    x = torch.randn(4, 5, height, width).to(memory_format=torch.channels_last).requires_grad_()
    ours, theirs = AdaptiveAverage(side)(x), nn.AdaptiveAvgPool2d(side)(x)
    torch.testing.assert_close(ours, theirs)
    weights = torch.randn_like(ours)
    ours, theirs = (torch.autograd.grad((one * weights).sum(), x) for one in (ours, theirs))
    torch.testing.assert_close(ours, theirs)


def features(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("form", "sigma"), [("biased", 1.25**0.5), ("official", (5 / 3 + 1e-6) ** 0.5)])
def test_style_is_over_space_by_sample_and_channel(form: str, sigma: float) -> None:
    x = torch.tensor([1.0, 2, 3, 4], dtype=torch.float64).view(1, 1, 2, 2)
    x = torch.cat([torch.cat([x, 10 * x], 1), torch.cat([x + 5, x - 5], 1)])
    got = style(x, form)
    assert got.mu.tolist() == [[2.5, 25.0], [7.5, -2.5]]
    assert got.sigma[0, 0].item() == pytest.approx(sigma, abs=1e-12)
    assert got.sigma[:, 0].tolist() == pytest.approx([got.sigma[0, 0].item()] * 2)


def test_one_sample_and_one_pixel_stay_finite() -> None:
    x = features(1, 3, 1, 1).requires_grad_()
    for form in ("biased", "official"):
        own = style(x, form)
        out = restyled(x, own, widened(own, torch.ones(2, 1, 3)))
        (gradient,) = torch.autograd.grad(out.sum(), x)
        assert out.isfinite().all()
        assert gradient.isfinite().all()
