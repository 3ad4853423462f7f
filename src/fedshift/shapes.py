"""Networks without values, for whoever asks for their shapes alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DRAWS = frozenset({Tensor.normal_, Tensor.uniform_})  # all initialisations draw by one of them


class _Undrawn(TorchFunctionMode):
    """A draw leaves its tensor as it is: on the meta device each is many calls of Python for nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in DRAWS else func(*args, **(kwargs or {}))


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """Tensors that are made inside lie on the meta device, and nothing is drawn."""
    with torch.device("meta"), _Undrawn():
        yield
