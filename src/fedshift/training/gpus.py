"""One GPU for each job of a machine that has several, where no scheduler gives them out."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
_held: list[int] = []  # file descriptors: a lock ends with its process, however it ends


def claim(device: str, count: int, folder: Path | None = None) -> int | None:
    """Take a GPU that no other job of this user holds, and let this process and its children see no other.

    count: GPUs of the machine. Returns the GPU's number; None where there is nothing to choose: a computation
    on the CPU, one GPU or none, or CUDA_VISIBLE_DEVICES set by a scheduler or by hand. With more jobs than
    GPUs, one is shared.
    """
    if device == "cpu" or count < 2 or VISIBLE in os.environ:
        return None
    folder = folder or Path(tempfile.gettempdir())
    number = next((gpu for gpu in range(count) if _lock(folder, gpu)), os.getpid() % count)
    os.environ[VISIBLE] = str(number)
    return number


def _lock(folder: Path, gpu: int) -> bool:
    """Whether this process now holds the GPU's lock."""
    path = folder / f"fedshift-{os.getuid()}-gpu{gpu}.lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    _held.append(file)
    return True
