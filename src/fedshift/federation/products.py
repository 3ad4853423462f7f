"""Products of bfloat16 tensors on a CPU that has no instruction for them.

Torch then computes them entry by entry, some twenty times slower than in fp32. Such an instruction multiplies
bf16 factors exactly, sums in fp32 and rounds the result to bf16; so does `Bf16Products`, by a product in fp32
between two conversions. The order of a sum is the only difference, as between any two CPUs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
PRODUCTS = frozenset(
    {
        aten.addmm.default,
        aten.baddbmm.default,
        aten.bmm.default,
        aten.conv2d.default,
        aten.conv_transpose2d.input,
        aten.convolution.default,
        aten.convolution_backward.default,
        aten.linear.default,
        aten.matmul.default,
        aten.mm.default,
    }
)


def has_bf16(device: torch.device) -> bool:
    """Whether torch computes products of bf16 tensors there by instructions: on a CPU, from AVX-512 on."""
    return device.type != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


class Bf16Products(TorchDispatchMode):
    """In the block, convolutions and matrix products of bf16 tensors are computed in fp32 and rounded to
    bf16.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in PRODUCTS or not any(_is_bf16(value) for value in args):
            return func(*args, **kwargs)
        args, kwargs = tree_map(_widen, (args, kwargs))
        return tree_map(_round, func(*args, **kwargs))


def _is_bf16(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16


def _widen(value: Any) -> Any:
    return value.float() if _is_bf16(value) else value


def _round(value: Any) -> Any:
    return value.bfloat16() if isinstance(value, torch.Tensor) else value
