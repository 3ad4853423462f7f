"""fp32, tf32 and bf16: what a run sets and puts back, where tf32 is refused, and the values of bf16 without instructions for it."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

from fedshift.common.errors import FedshiftError
from fedshift.federation import precision
from fedshift.federation.client import Client
from fedshift.federation.method import Method
from fedshift.federation.precision import Bf16Products, arithmetic
from fedshift.testing.toys import finish, small, spec

Switches = tuple[bool, bool]


def switches() -> Switches:
    """Whether matrix products and convolutions of fp32 tensors may be TF32 on CUDA."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.fixture(params=[(False, True), (True, False)], ids=["torch's own", "the other way"])
def before(request: pytest.FixtureRequest) -> Iterator[Switches]:
    """The switches as somebody left them; torch's defaults are (False, True)."""
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = request.param
    yield request.param
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


class Watching(Method):
    """FedAvg that notes the switches at each step, and whether bf16 tensors are multiplied in fp32 there."""

    name = "watching"

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Switches] = set()
        self.widened: set[bool] = set()

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        self.widened.add(any(isinstance(mode, Bf16Products) for mode in modes))
        self.seen.add(switches())
        return super().loss(C, x, y)


@pytest.mark.parametrize("asked", ["fp32", "bf16"])
def test_no_product_is_tf32_unless_asked_for(asked: str, before: Switches) -> None:
    watching = Watching()
    finish(small(spec(local={"precision": asked}, federation={"rounds": 1}), watching))
    assert watching.seen == {(False, False)}
    assert switches() == before


def test_tf32_sets_both_switches_and_puts_them_back(
    before: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_tf32", lambda device: True)
    watching = Watching()
    finish(small(spec(local={"precision": "tf32"}, federation={"rounds": 1}), watching))
    assert watching.seen == {(True, True)}
    assert switches() == before


def test_tf32_is_refused_where_it_cannot_be_computed() -> None:
    with pytest.raises(FedshiftError, match=r"tf32 cannot be computed on this cpu\n.*to fp32"):
        finish(small(spec(local={"precision": "tf32"}), Watching()))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_fp32_products_on_a_gpu_are_exact_and_tf32_ones_are_rounded() -> None:
    """1 + 2^-12 has 12 bits of mantissa: TF32 takes it for 1."""
    device = torch.device("cuda")
    ones, above = torch.ones(64, 64, device=device), torch.full((64, 64), 1 + 2**-12, device=device)
    images, weights = above.expand(8, 64, 64, 64), torch.ones(64, 64, 1, 1, device=device)
    for asked, exact in (("fp32", True), ("tf32", False)):
        with arithmetic(asked, device):
            for product in (above @ ones, torch.nn.functional.conv2d(images, weights)):
                assert bool((product == 64 * (1 + 2**-12)).all()) == exact


ULP = 2**-8  # half the distance of two neighbours in bf16, relative


def layers() -> nn.Sequential:
    """A convolution, a strided one, a transposed one and a linear layer."""
    maps = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ConvTranspose2d(8, 4, 2)
    return nn.Sequential(*maps, nn.Flatten(), nn.Linear(4 * 4 * 4, 5))


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


@pytest.mark.parametrize(
    ("asked", "instructions", "ours"), [("bf16", False, True), ("bf16", True, False), ("fp32", False, False)]
)
def test_a_run_multiplies_so_in_bf16_without_instructions_alone(
    asked: str, instructions: bool, ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "has_bf16", lambda device: instructions)
    watching = Watching()
    finish(small(spec(local={"precision": asked}, federation={"rounds": 1}), watching))
    assert watching.widened == {ours}
