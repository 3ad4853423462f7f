"""fp32, tf32 and bf16: what a run sets, that it puts it back, and where tf32 is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation import precision
from fedshift.federation.client import Client
from fedshift.federation.method import Method
from fedshift.federation.precision import arithmetic
from fedshift.testing.toys import finish, small, spec
from fedshift.training.device import environment

CPU = torch.device("cpu")
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
    """FedAvg that notes the switches at each step and each aggregation."""

    name = "watching"

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[Switches] = set()

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
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


def test_switches_are_put_back_after_an_error(before: Switches) -> None:
    with pytest.raises(ZeroDivisionError), arithmetic("fp32", CPU):
        raise ZeroDivisionError
    assert switches() == before


def test_tf32_is_refused_where_it_cannot_be_computed() -> None:
    with pytest.raises(FedshiftError, match=r"tf32 cannot be computed on this cpu\n.*to fp32"):
        finish(small(spec(local={"precision": "tf32"}), Watching()))


def test_the_record_says_whether_tf32_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    with arithmetic("fp32", CPU):
        assert environment(CPU, 1, "")["tf32"] == {"convolutions": False, "matrices": False}
    monkeypatch.setattr(precision, "has_tf32", lambda device: True)
    with arithmetic("tf32", CPU):
        assert environment(CPU, 1, "")["tf32"] == {"convolutions": True, "matrices": True}


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
