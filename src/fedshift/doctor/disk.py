"""Disk: free space where results lie, against what the planned runs still need."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from fedshift.doctor.finding import Finding
from fedshift.planning import job, planfile
from fedshift.planning.request import Request
from fedshift.rundir import State
from fedshift.workspace import Workspace

SPARE_GB = 5.0


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """Needs a plan to know what is to be done, one job at a time; without one, a little must be free."""
    free = shutil.disk_usage(workspace.root).free / 1e9
    path = planfile.last(workspace, asked)
    if path is None:
        enough = free > SPARE_GB
        found = f"{free:.1f} GB free; what is needed: fedshift plan"
        yield Finding("disk", "ok" if enough else "wrong", found, "" if enough else "Free space.")
        return
    runs = planfile.runs(path)
    left = [run for run in runs if workspace.run_at(run.directory).outcome() is not State.FINISHED]
    need = job.disk_mb(left, asked.parallel) / 1e3
    found = f"{free:.1f} GB free; {len(left)} runs to do need up to {need:.1f} GB"
    if free < need + SPARE_GB:
        cure = "Free space, or move results/ to a larger disk and link it."
        yield Finding("disk", "wrong", found, cure)
    else:
        yield Finding("disk", "ok", found)
