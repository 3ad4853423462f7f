"""Which device a job computes on: the device that was requested, or none."""

from __future__ import annotations

import os
import socket

import torch

from fedshift.common.errors import FedshiftError

PRETEND = "FEDSHIFT_PRETEND_GPU"  # set where the workflow is tried on a cluster that has no GPU


def device(name: str) -> torch.device:
    """The device of "cpu", "cuda" or "auto", which is a GPU where there is one. Raises FedshiftError for a
    word that names none.
    """
    if name == "auto" or PRETEND in os.environ:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError:
        raise FedshiftError("device", f"unknown device '{name}'", "Valid: auto, cpu, cuda.") from None


def gpus() -> int:
    """How many GPUs of this machine CUDA can use."""
    return torch.cuda.device_count()  # asked of the driver: CUDA itself would no longer hear of a choice


def require(wanted: torch.device) -> None:
    """Raise FedshiftError for a GPU that does not work here; another machine may have one."""
    if wanted.type == "cuda" and not torch.cuda.is_available():
        what = f"no working CUDA on {socket.gethostname()}, where a GPU was asked for"
        cure = "See nvidia-smi and fedshift doctor there, or set device: cpu in params.yaml."
        raise FedshiftError("device: cuda", what, cure, retry=True)
