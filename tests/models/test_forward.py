"""Every network against the same network written out, in training and in evaluation: outputs, gradients, statistics, and how it starts."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision
from torch import Tensor, nn

from fedshift.common import registry
from fedshift.common.registry import get
from fedshift.federation.layout import initial
from fedshift.methods.fdse.block import Decomposition, decompose
from tests.models import plain

torch.set_num_threads(1)


# Network -> input sides: that of its paper's table where it is small, and one whose last map is pooled or cut otherwise.
SIDES = {
    "alexnet_bn": (64,), "digits_cnn": (32, 30), "digits_dg_cnn": (32, 70), "hfedf_cnn": (32, 50), "lenet": (32, 40),
    "vgg": (32,), "vit_small": (64, 96), "resnet18": (64,), "resnet50": (64,), "mobilenet": (64,), "densenet": (64,),
}  # fmt: skip


THEIRS = {"resnet18": "resnet18", "resnet50": "resnet50", "mobilenet": "mobilenet_v2", "densenet": "densenet121"}  # fmt: skip


# The weight whose drift FedRD measures: layer1.1.conv2 of ResNets in its code, the last weight of stage 1 elsewhere.
INDICATORS = {
    "alexnet_bn": "stages.stage1.conv.weight", "digits_cnn": "stages.stage1.conv.weight", "digits_dg_cnn": "stages.stage1.0.weight",
    "hfedf_cnn": "stages.stage1.0.weight", "lenet": "stages.stage1.0.weight", "resnet18": "stages.stage1.1.conv2.weight",
    "resnet50": "stages.stage1.1.conv2.weight", "vgg": "stages.stage1.0.weight", "vit_small": "stages.stage1.feedforward.fc2.weight",
    "efficientnet_lite0": "stages.stage1.2._depthwise_conv.weight",
    "mobilenet": "stages.stage1.3.conv.2.weight", "densenet": "stages.stage1.transition1.conv.weight",
}  # fmt: skip


CASES = [(name, px) for name, sides in SIDES.items() for px in sides]


def scattered(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """With weights, biases and statistics that nobody starts with: what is 0 or 1 at the start hides much."""
    rng = torch.Generator().manual_seed(1)
    model.to(dtype)
    for name, tensor in model.state_dict().items():
        if name.endswith("running_var"):
            tensor.copy_(torch.rand(tensor.shape, generator=rng) + 0.5)
        elif tensor.dim() < 2 and tensor.is_floating_point():
            noise = 0.3 * torch.randn(tensor.shape, generator=rng)
            tensor.copy_(noise + ("weight" in name))
    return model


def images(px: int, dtype: torch.dtype, n: int = 4) -> Tensor:
    return torch.randn(n, 3, px, px, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).to(
        dtype
    )


def seen(
    forward: Callable[[Tensor], Any], x: Tensor, leaves: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """What comes out, and its gradients by the image and by all leaves; dropout draws the same every time."""
    torch.manual_seed(5)
    x = x.clone().requires_grad_()
    out = [*forward(x)]
    loss = sum((one * one.cos()).sum() for one in out)
    return out, list(torch.autograd.grad(loss, [x, *leaves], materialize_grads=True))


def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    """To rounding, relative to a tensor's largest entry, or to 1; the averages of AdaptiveAverage are fp32 numbers in fp64, too."""
    for one, other in zip(ours, theirs, strict=True):
        bound = 1e-6 if other.dtype == torch.float64 else 1e-4
        torch.testing.assert_close(
            one, other, rtol=0, atol=bound * max(1.0, other.detach().abs().max().item())
        )


def held_to(
    model: nn.Module, forward: Callable[[dict[str, Tensor], Tensor, bool], Any], x: Tensor, train: bool
) -> None:
    """The network computes what `forward` computes over copies of its tensors, and leaves the same statistics."""
    model.train(train)
    P = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    trained = dict(model.named_parameters())
    for name in trained:
        P[name].requires_grad_()
    ours = seen(model, x, list(trained.values()))
    theirs = seen(lambda x: forward(P, x, train), x, [P[name] for name in trained])
    for one, other in zip(ours, theirs, strict=True):
        same(one, other)
    after = model.state_dict()
    moved = [name for name in P if "running" in name]
    same([after[name] for name in moved], [P[name] for name in moved])


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize(("name", "px"), [one for one in CASES if hasattr(plain, one[0])])
def test_it_is_the_network_written_out(name: str, px: int, train: bool) -> None:
    torch.manual_seed(0)
    dtype = torch.float64
    model = scattered(registry.get("models", name)(7, px), dtype)
    held_to(model, getattr(plain, name), images(px, dtype), train)


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", THEIRS)
def test_it_is_torchvisions(name: str, train: bool) -> None:
    torch.manual_seed(0)
    dtype = torch.float64
    their = scattered(getattr(torchvision.models, THEIRS[name])(weights=None, num_classes=7), dtype)
    ours = registry.get("models", name)(7, 64).to(dtype)
    ours.load_state_dict(dict(zip(ours.state_dict(), their.state_dict().values(), strict=True)))
    x = images(64, dtype)
    results = [
        seen(lambda x, net=net: [net(x)] if net is their else [net(x).logits], x, list(net.parameters()))
        for net in (ours.train(train), their.train(train))
    ]
    for one, other in zip(*results, strict=True):
        same(one, other)
    same(list(ours.state_dict().values()), list(their.state_dict().values()))


def test_the_indicators_are_written_down() -> None:
    assert {name: registry.get("models", name).indicator for name in registry.own("models")} == INDICATORS


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_alexnet_of_fdses_blocks(train: bool) -> None:
    torch.manual_seed(0)
    model = registry.get("models", "alexnet_bn")(7, 64)
    decompose(model, Decomposition())
    held_to(scattered(model, torch.float64), plain.alexnet_of_fdse, images(64, torch.float64), train)


torch.set_num_threads(1)


# Kaiming normal convolutions, by fan-out or fan-in; the others start as torch's own: U(-1 / sqrt(fan-in), 1 / sqrt(fan-in)).
KAIMING = {"resnet18": "out", "resnet50": "out", "vgg": "out", "mobilenet": "out", "densenet": "in", "digits_dg_cnn": "in"}  # fmt: skip


SMALL_HEAD = ("vgg", "mobilenet")  # N(0, 0.01)


NO_BIAS = {"vgg": (nn.Conv2d, nn.Linear), "mobilenet": (nn.Linear,), "densenet": (nn.Linear,), "digits_dg_cnn": (nn.Conv2d,)}  # fmt: skip


@pytest.mark.parametrize("name", SIDES)
def test_start(name: str) -> None:
    """Deviations within five standard errors of a normal one; a uniform one has its bound besides."""
    model, layout, row = initial(lambda: registry.get("models", name)(65, SIDES[name][0]), 0)
    start = layout.named(row)
    for prefix, module in model.named_modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm):
            assert start[f"{prefix}.weight"].eq(1).all() and start[f"{prefix}.bias"].eq(0).all()
        if not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        w = start[f"{prefix}.weight"]
        pixels = math.prod(w.shape[2:])
        fan = {"out": w.shape[0] * pixels, "in": w.shape[1] * pixels}
        bound = math.inf
        if isinstance(module, nn.Conv2d) and name in KAIMING:
            deviation = math.sqrt(2 / fan[KAIMING[name]])
        elif isinstance(module, nn.Linear) and name in SMALL_HEAD:
            deviation = 0.01
        else:
            deviation, bound = 1 / math.sqrt(3 * fan["in"]), 1 / math.sqrt(fan["in"])
        assert w.square().mean().sqrt().item() == pytest.approx(deviation, rel=5 / math.sqrt(2 * w.numel()))
        assert w.abs().max() <= bound
        if bound == math.inf:
            assert w.abs().max() > 1.8 * deviation  # no uniform one of this deviation goes as far
        if module.bias is not None and isinstance(module, NO_BIAS.get(name, ())):
            assert start[f"{prefix}.bias"].eq(0).all()
        elif module.bias is not None:
            assert 0 < start[f"{prefix}.bias"].abs().max() <= 1 / math.sqrt(fan["in"])
    assert torch.isfinite(row).all()


def test_efficientnet_lite0_has_its_stages_and_its_momentum() -> None:
    """Channels and side of each stage (Tan & Le 2019, Table 1; Lite has 32 channels in the stem), running means
    by hand: 0.99 of the old, 0.01 of the batch.
    """
    torch.manual_seed(0)
    net = get("models", "efficientnet_lite0")(4, 64).train()
    x, shapes = torch.rand(8, 3, 64, 64), {}
    for name, stage in net.stages.items():
        x = stage(x)
        shapes[name] = tuple(x.shape[1:3])
    assert shapes == {
        "stem": (16, 32),
        "stage1": (24, 16),
        "stage2": (40, 8),
        "stage3": (112, 4),
        "stage4": (1280, 2),
    }
    norm = net.stages["stem"]._bn0
    norm.reset_running_stats()
    batch = torch.rand(8, 32, 5, 5) + 2
    norm(batch)
    assert torch.allclose(norm.running_mean, 0.01 * batch.mean((0, 2, 3)))
