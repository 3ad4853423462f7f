"""Named tensors on disk (safetensors files, complete or absent; no pickles), and networks without values."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from fedshift.common.errors import Damaged
from fedshift.common.files import atomic_path


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write contiguous tensors atomically. Raises FedshiftError if the folder cannot be written."""
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def read_tensors(path: Path, cure: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a file, on the CPU, and its metadata. Raises Damaged with `cure` for a truncated file.

    Tensors are copied: a view into the file may be aligned differently, and products then differ in the last
    bits.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except SafetensorError as error:
        raise Damaged(path, f"is not whole: {error}", cure) from None


def on_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors in fp64 on the host, with a single transfer of all that are on a device."""
    away = [tensor for tensor in tensors if tensor.device.type != "cpu"]
    moved = torch.cat([tensor.flatten().double() for tensor in away]).cpu() if away else torch.empty(0)
    parts = iter(moved.split([tensor.numel() for tensor in away]))
    return [t.double() if t.device.type == "cpu" else next(parts).view(t.shape) for t in tensors]


DRAWS = frozenset({Tensor.normal_, Tensor.uniform_})  # all initialisations sample with one of them


class _Undrawn(TorchFunctionMode):
    """Skip random initialisation, which on the meta device costs many calls of Python and has no effect."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in DRAWS else func(*args, **(kwargs or {}))


@contextlib.contextmanager
def shapes_only() -> Iterator[None]:
    """In the block, tensors are on the meta device and initialisations sample nothing."""
    with torch.device("meta"), _Undrawn():
        yield
