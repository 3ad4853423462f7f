"""The device that a job computes on: the one that was requested, or none."""

import os
import platform
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.version import __version__
from fedshift.federation.precision import has_bf16

PRETEND = "FEDSHIFT_PRETEND_GPU"  # set where the workflow is tried on a cluster that has no GPU


def device(name: str) -> torch.device:
    """The device of "cpu", "cuda" or "auto" (a GPU if there is one). Raises FedshiftError."""
    if name == "auto" or PRETEND in os.environ:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(name)
    except RuntimeError:
        raise FedshiftError("device", f"unknown device '{name}'", "Valid: auto, cpu, cuda.") from None


def gpus() -> int:
    """Number of GPUs of this machine that CUDA can use."""
    return torch.cuda.device_count()  # asked of the driver: CUDA itself would no longer hear of a choice


def require(wanted: torch.device) -> None:
    """Raise FedshiftError for a GPU that does not work on this machine; another machine may have one."""
    if wanted.type == "cuda" and not torch.cuda.is_available():
        what = f"no working CUDA on {socket.gethostname()}, where a GPU was requested"
        cure = "See nvidia-smi and fedshift doctor there, or set device: cpu in params.yaml."
        raise FedshiftError("device: cuda", what, cure, retry=True)


def deterministic(device: torch.device) -> None:
    """Request kernels with reproducible bits, before anything is computed on a GPU; on a CPU they are the
    default.

    Fresh memory is not filled with NaN, PyTorch's default in this mode, because that is a launch for each new
    tensor. cuBLAS is only reproducible with a fixed workspace.
    """
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


CPUINFO = Path("/proc/cpuinfo")
MODEL = ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part")  # of x86, and of ARM
PACKAGES = ("torch", "torchvision", "numpy", "pyarrow", "pydantic", "safetensors")


def environment(device: torch.device, threads: int, commit: str, graphs: bool = False) -> dict[str, Any]:
    """The facts about a machine that affect a run.

    - versions of packages, and the sources' `commit`
    - hardware and threads
    - whether torch may use TF32 now, and how bf16 is multiplied
    - whether steps are CUDA graphs ("auto" or "off")
    - whether the same machine would give the same bits again
    """
    cuda = device.type == "cuda"
    return {
        "commit": commit,
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "versions": {"fedshift": __version__} | {package: version(package) for package in PACKAGES},
        "device": torch.cuda.get_device_name(device) if cuda else "cpu",
        "cpu": platform.processor() or platform.machine(),
        "cpu_model": _cpu_model(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "tf32": {
            "convolutions": torch.backends.cudnn.allow_tf32,
            "matrices": torch.backends.cuda.matmul.allow_tf32,
        },
        "bf16": "instructions" if has_bf16(device) else "products in fp32, rounded",
        "graph": "auto" if graphs else "off",
        "exact_resume": "deterministic kernels requested"
        if cuda
        else "bit for bit with these threads and instruction set",
        "slurm_job": os.environ.get("SLURM_JOB_ID"),
    }


def _cpu_model() -> str:
    """Maker, family and model of the processor ("GenuineIntel 6 207"); libraries order their sums by it.

    Empty on macOS, which has only `cpu`.
    """
    if not CPUINFO.is_file():
        return ""
    first = CPUINFO.read_text(encoding="utf-8").partition("\n\n")[0]  # core
    pairs = (line.partition(":") for line in first.splitlines())
    known = {key.strip(): value.strip() for key, _, value in pairs}
    return " ".join(known[key] for key in MODEL if key in known)
