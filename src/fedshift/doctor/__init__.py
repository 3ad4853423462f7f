"""Doctor: what this machine and this project have, what they lack, and what to do about it. One file a part, found here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fedshift.doctor import cores, datasets, disk, dvc, gpu, mlflow, precision, slurm, weights
from fedshift.doctor.finding import Finding
from fedshift.planning.request import Request
from fedshift.workspace import Workspace

CHECKS: tuple[Callable[[Workspace, Request], Iterable[Finding]], ...] = (
    cores.check, gpu.check, precision.check, slurm.check, dvc.check, mlflow.check, disk.check, datasets.check, weights.check
)  # fmt: skip


def examine(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """Look at everything in turn; nothing is changed, nothing is installed, at most a server's address is asked."""
    for check in CHECKS:
        yield from check(workspace, asked)
