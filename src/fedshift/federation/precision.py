"""Precision: whether a GPU may round fp32 factors to TF32, and how a CPU computes products of bf16 tensors.

TF32 has 10 bits of mantissa. By default, torch allows it in convolutions.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from fedshift.common.errors import FedshiftError

TF32_SINCE = (8, 0)  # compute capability


def has_tf32(device: torch.device) -> bool:
    """Whether the device can compute matrix products and convolutions of fp32 tensors in TF32."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= TF32_SINCE


@contextmanager
def arithmetic(precision: str, device: torch.device) -> Iterator[None]:
    """Choose the arithmetic of the block, and restore the switches of the process at its end.

    Convolutions and matrix products of fp32 tensors on CUDA are TF32 for "tf32", and fp32 for "fp32" and
    "bf16". For "bf16", a CPU without bf16 instructions computes as in `Bf16Products`. Raises FedshiftError
    for "tf32" on a device without it.
    """
    tf32 = precision == "tf32"
    if tf32 and not has_tf32(device):
        cure = "Set local.precision to fp32, or train on a GPU of compute capability 8.0 or newer."
        raise FedshiftError("local.precision", f"tf32 cannot be computed on this {device.type}", cure)
    # Not by torch's newer `fp32_precision`: torch 2.9 to 2.11 then raise in every reader of these two, their
    # own included.
    matrices, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matrices.allow_tf32, convolutions.allow_tf32
    matrices.allow_tf32 = convolutions.allow_tf32 = tf32
    try:
        emulated = precision == "bf16" and not has_bf16(device)
        with Bf16Products() if emulated else nullcontext():  # type: ignore[no-untyped-call]
            yield
    finally:
        matrices.allow_tf32, convolutions.allow_tf32 = before


aten = torch.ops.aten
PRODUCTS = frozenset({
    aten.addmm.default, aten.baddbmm.default, aten.bmm.default, aten.conv2d.default,
    aten.conv_transpose2d.input, aten.convolution.default, aten.convolution_backward.default,
    aten.linear.default, aten.matmul.default, aten.mm.default,
})  # fmt: skip


def has_bf16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bf16 tensors: on a CPU, from AVX-512 on."""
    return device.type != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class Bf16Products(TorchDispatchMode):
    """In the block, convolutions and matrix products of bf16 tensors are computed in fp32, then rounded.

    Bf16 instructions do the same, except for the order of the sum. Without them, torch computes entry by
    entry, about twenty times slower.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in PRODUCTS or not any(getattr(value, "dtype", None) == torch.bfloat16 for value in args):
            return func(*args, **kwargs)
        args, kwargs = tree_map_only(Tensor, _widened, (args, kwargs))
        return tree_map_only(Tensor, Tensor.bfloat16, func(*args, **kwargs))


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.bfloat16 else tensor
