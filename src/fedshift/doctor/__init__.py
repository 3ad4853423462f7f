"""Doctor: what this machine and this project have, what they lack, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fedshift.doctor import cluster, data, machine, services
from fedshift.doctor.finding import Finding
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace

CHECKS: tuple[Callable[[Workspace, Request], Iterable[Finding]], ...] = (
    machine.cores,
    machine.gpu,
    machine.precision,
    cluster.check,
    services.dvc,
    services.mlflow,
    machine.disk,
    data.datasets,
    data.weights,
)


def examine(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Run all checks in turn; nothing is changed or installed, at most a server is contacted."""
    for check in CHECKS:
        yield from check(workspace, request)
