"""The GPU, against the device that the parameters ask for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from fedshift.doctor.finding import Finding
from fedshift.planning.request import Request
from fedshift.workspace import Workspace


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """A missing GPU is wrong where the parameters ask for one and no cluster is at hand."""
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 1024**3
        found = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, {memory:.0f} GiB"
        cure = "" if asked.device == "cuda" else "To plan for it: `device: cuda` in params.yaml."
        yield Finding("gpu", "ok", found, cure)
    elif asked.device == "cuda" and not shutil.which("sbatch"):
        cure = "Set `device: cpu` in params.yaml, or start on a machine or cluster with a GPU."
        yield Finding("gpu", "wrong", "none here, but the parameters ask for one", cure)
    else:
        yield Finding("gpu", "absent", "none here: runs train on the CPU")
