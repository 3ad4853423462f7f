"""Named tensors on disk: safetensors files, whole or absent. No pickles."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedshift.common.errors import Damaged
from fedshift.common.files import atomic_path


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write contiguous tensors atomically. Raises FedshiftError where the disk is full or the folder cannot
    be written.
    """
    with atomic_path(path) as temporary:
        try:
            save_file(tensors, temporary, metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from error


def read_tensors(path: Path, cure: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a file, on the CPU, and its metadata. Raises Damaged, with `cure`, for a file that
    is not whole.

    Tensors are copied: a view into the file may be aligned otherwise, and products then differ in last bits.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except SafetensorError as error:
        raise Damaged(path, f"is not whole: {error}", cure) from None
