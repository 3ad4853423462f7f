"""What a device is asked to do: operations, bytes and floating-point operations, counted as they are called.

An operation that is no view is counted as one launch; a fused or `foreach` operation, too. Bytes are those of
the tensors that an operation reads and writes, each once: what a cache saves is not known. FLOPs are those of
convolutions and matrix products. On the `meta` device nothing is computed, and counts are the same
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# By what follows "aten::" in their names.
GATHERS = {"index_select", "index", "gather", "embedding", "take"}  # read as much as they write
OVERWRITES = {"zero_", "fill_", "copy_", "bernoulli_", "uniform_", "normal_", "_foreach_copy_"}
ALLOCATIONS = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "_unsafe_view"}


@dataclass(frozen=True)
class Count:
    """Launches, bytes and floating-point operations; of a mean they are no whole numbers."""

    launches: float = 0
    bytes: float = 0
    flops: float = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.launches + other.launches, self.bytes + other.bytes, self.flops + other.flops)

    def __mul__(self, factor: float) -> Count:
        return Count(self.launches * factor, self.bytes * factor, self.flops * factor)


class Tally(TorchDispatchMode):
    """Counts the operations on tensors of torch's meta device, and copies to and from it, while entered.

    count: what was counted so far.
    counting: whether operations count now.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count, self.counting = Count(), True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        if self.counting and not func.is_view:
            outputs = [*self._on_device(result)]
            if outputs or [*self._on_device((args, options))]:
                self.count += Count(
                    1, self._bytes(func, args, options, outputs), _flops(func, args, options, result)
                )
        return result

    def _bytes(self, func: Any, args: Any, options: Any, outputs: list[Tensor]) -> int:
        """Bytes that an operation reads and writes, from its schema: an argument that it changes is written,
        any other is read; without a changed argument, the results are written.
        """
        name = func._schema.name.removeprefix("aten::")
        if name in ALLOCATIONS:
            return 0
        written = read = 0
        for place, declared in enumerate(func._schema.arguments):
            value = args[place] if place < len(args) else options.get(declared.name)
            size = sum(map(_size, self._on_device(value)))
            writes = declared.alias_info is not None and declared.alias_info.is_write
            written += size if writes else 0
            read += 0 if writes and name in OVERWRITES else size
        if not written:
            written = sum(map(_size, outputs))
        return written + (written if name in GATHERS else read)

    def _on_device(self, values: Any) -> Iterator[Tensor]:
        return (tensor for tensor in tensors_in(values) if tensor.device.type == "meta")


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors of an operation's arguments or results: alone, in lists and in the values of a dict."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, dict):
        yield from tensors_in([*values.values()])


def _size(tensor: Tensor) -> int:
    """Bytes of its entries, those of an expanded tensor once."""
    places = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return torch.Size(places).numel() * tensor.element_size()


def _flops(func: Any, args: Any, options: Any, result: Any) -> int:
    """Of a convolution or matrix product, by torch's own formulas."""
    formula = flop_registry.get(func._overloadpacket)
    return int(formula(*args, **options, out_val=result)) if formula else 0
