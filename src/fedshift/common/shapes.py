"""Networks without values, for code that needs their shapes alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DRAWS = frozenset({Tensor.normal_, Tensor.uniform_})  # all initialisations draw by one of them


class _Undrawn(TorchFunctionMode):
    """Initialisations draw nothing: on the meta device a draw costs many calls of Python to no effect."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in DRAWS else func(*args, **(kwargs or {}))


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """In the block, tensors lie on the meta device and initialisations draw nothing."""
    with torch.device("meta"), _Undrawn():
        yield
