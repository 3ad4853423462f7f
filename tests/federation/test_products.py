"""bf16 on a CPU without instructions for it: the values that an instruction gives, and where the mode acts."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from fedshift.federation import precision
from fedshift.federation.client import Client
from fedshift.federation.method import Method
from fedshift.federation.precision import Bf16Products, arithmetic, has_bf16
from fedshift.testing.toys import finish, small, spec
from fedshift.training.device import environment

CPU = torch.device("cpu")
ULP = 2**-8  # half the distance of two neighbours in bf16, relative


def layers() -> nn.Sequential:
    """A convolution, a strided one, a transposed one and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.ConvTranspose2d(8, 4, 2),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 5),
    )


def each_layer(network: nn.Sequential, x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Of every layer with weights, run on its own bf16 input: its result under the mode, and in fp64."""
    pairs = []
    for layer in network:
        with torch.autocast("cpu", torch.bfloat16), Bf16Products():
            result = layer(x)
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            exact = copy.deepcopy(layer).bfloat16().double()(x.bfloat16().double())
            pairs.append((result, exact))
        x = result
    return pairs


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_a_product_is_the_exact_one_rounded_to_bf16(mode: type) -> None:
    network = layers()
    x = torch.randn(4, 3, 8, 8)
    with mode():
        pairs = each_layer(network, x)
    assert len(pairs) == 4
    for result, exact in pairs:
        assert result.dtype == torch.bfloat16
        scale = exact.abs().max()  # of terms that cancel in a sum, fp32 leaves some 1e-7 of the largest
        assert ((result.double() - exact).abs() <= ULP * exact.abs() + 1e-6 * scale).all()


def test_gradients_are_summed_in_fp32_and_rounded_once() -> None:
    x = torch.randn(64, 3, 8, 8)
    layer = nn.Conv2d(3, 8, 3)
    up = torch.randn(64, 8, 6, 6).bfloat16()
    with torch.autocast("cpu", torch.bfloat16), Bf16Products():
        layer(x).backward(up)
    exact = conv2d_weight(x.bfloat16().double(), layer.weight.shape, up.double())
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    error = (layer.weight.grad.double() - exact).abs()
    assert (error <= ULP * exact.abs() + 1e-6 * exact.abs().max()).all()


def test_fp32_products_are_left_alone() -> None:
    left, right = torch.randn(16, 16), torch.randn(16, 16)
    with Bf16Products():
        assert torch.equal(left @ right, torch.mm(left, right))
        assert (left @ right).dtype == torch.float32
        assert (left.double() @ right.double()).dtype == torch.float64


class Multiplying(Method):
    """FedAvg that notes how bf16 tensors are multiplied in its steps."""

    name = "multiplying"

    def __init__(self) -> None:
        super().__init__()
        self.modes: set[bool] = set()

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        self.modes.add(any(isinstance(mode, Bf16Products) for mode in modes))
        return super().loss(C, x, y)


@pytest.mark.parametrize(
    ("asked", "instructions", "ours"),
    [("bf16", False, True), ("bf16", True, False), ("fp32", False, False)],
)
def test_a_run_multiplies_so_in_bf16_without_instructions_alone(
    asked: str, instructions: bool, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda device: instructions)
    method = Multiplying()
    finish(small(spec(local={"precision": asked}, federation={"rounds": 1}), method))
    assert method.modes == {ours}


def test_the_record_says_how_bf16_is_multiplied() -> None:
    with arithmetic("bf16", CPU):
        said = environment(CPU, 1, "")["bf16"]
    assert said == ("instructions" if has_bf16(CPU) else "products in fp32, rounded")
