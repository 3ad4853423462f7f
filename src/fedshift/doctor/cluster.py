"""Slurm: whether a controller answers, and whether it has what the profile and the planned jobs ask for."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from fedshift.common.processes import answer_of
from fedshift.common.yaml_file import read
from fedshift.doctor.finding import Finding
from fedshift.planning import job, planfile
from fedshift.planning.cluster import PATH, Cluster, parsed_minutes, troubles
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace

OWN = PATH.as_posix()


class Partition(NamedTuple):
    """A partition's best node: memory (MB); minutes that a job may take (None: any); kinds of what a node
    gives out besides: "gpu", "shard", "mps".
    """

    name: str
    up: bool
    minutes: int | None
    memory: int
    kinds: frozenset[str]


def check(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """One line for the cluster, one for each resource that the profile asks for and the cluster lacks."""
    if not shutil.which("sinfo"):
        yield Finding("slurm", "absent", "not on this machine: use --profile profiles/local")
        return
    output = answer_of("sinfo", "-h", "-o", "%P|%a|%l|%m|%G")
    if output is None:
        text = "installed, but its controller does not answer"
        yield Finding("slurm", "wrong", text, "Ask the administrators; try: sinfo")
        return
    partitions, default = _partitions(output)
    profile = _profile(workspace.root)
    name = str(profile["resources"].get("slurm_partition") or default)
    if name not in partitions:
        cure = f"Set slurm_partition in {OWN} to one of: {', '.join(partitions)}."
        yield Finding("slurm", "wrong", f"the profile's partition '{name}' is not on this cluster", cure)
    else:
        text = f"partitions {', '.join(partitions)}; jobs go to {name}"
        yield Finding("slurm", "ok", text)
        yield from _unmet(workspace, request, partitions[name])
    yield from _accounting(profile)
    yield from _held()
    for what, cure in troubles(workspace):
        yield Finding("slurm", "wrong", what, cure)


def _held() -> Iterator[Finding]:
    """The user's jobs that wait until somebody releases them; Snakemake would wait with them for ever."""
    waiting = answer_of("squeue", "-h", "--me", "-t", "PENDING", "-o", "%i|%r") or ""
    reasons = dict(line.split("|", 1) for line in waiting.splitlines())
    held = {job: reason for job, reason in reasons.items() if "held" in reason.lower()}
    if held:
        text = f"jobs are held ({', '.join(sorted(set(held.values())))}), and do not begin by themselves"
        yield Finding("slurm", "wrong", text, f"scontrol release {' '.join(held)}")


def _unmet(workspace: Workspace, request: Request, partition: Partition) -> Iterator[Finding]:
    """Limits of the partition that the planned jobs exceed."""
    where = f"partition '{partition.name}'"
    if not partition.up:
        yield Finding("slurm", "wrong", f"{where} is down", f"Choose another one in {OWN}.")
    shared = Cluster.read(workspace.root).gres
    kind = shared.partition(":")[0] if shared else "gpu"
    if request.device == "cuda" and kind not in partition.kinds:
        other = "leave `gres` out there" if shared else "`device: cpu`"
        cure = f"Choose another one in {OWN}, or {other}."
        what = f"'{kind}' (sinfo -o %G)" if shared else "GPU"
        yield Finding("slurm", "wrong", f"{where} has no {what}, and jobs ask for one", cure)
    path = planfile.last(workspace, request)
    runs = planfile.runs(path) if path else []
    packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
    minutes = max((job.minutes(members, request.parallel, request.hours) for members in packs), default=0)
    memory = max((job.mem_mb(members, request.parallel) for members in packs), default=0)
    if partition.minutes is not None and minutes > partition.minutes:
        text = (
            f"{where} ends jobs after {partition.minutes} minutes, the longest one planned asks for {minutes}"
        )
        cure = (
            f"Set `hours: {max(1, partition.minutes // 60)}` in params.yaml, or choose a partition with "
            f"more time."
        )
        yield Finding("slurm", "wrong", text, cure)
    if memory > partition.memory:
        text = f"{where} has nodes of {partition.memory} MB, the largest job planned asks for {memory}"
        yield Finding("slurm", "wrong", text, "A smaller `parallel` in params.yaml, or larger nodes.")


def _accounting(profile: dict[str, Any]) -> Iterator[Finding]:
    config = answer_of("scontrol", "show", "config") or ""
    storage = re.search(r"^AccountingStorageType\s*=\s*(\S+)", config, re.MULTILINE)
    if profile["status"] == "sacct" and (storage is None or "none" in storage[1]):
        text = "the profile asks sacct, but accounting is off: it would wait for ever"
        yield Finding("slurm", "wrong", text, "Set `slurm-status-command: squeue` in slurm/config.yaml.")
    enforced = re.search(r"^AccountingStorageEnforce\s*=.*associations", config, re.MULTILINE)
    if enforced and "slurm_account" not in profile["resources"]:
        cure = f"Set slurm_account in {OWN} (sacctmgr show assoc user=$USER)."
        yield Finding("slurm", "wrong", "this cluster wants an account, and the profile names none", cure)


def _partitions(output: str) -> tuple[dict[str, Partition], str]:
    """Partitions by name, nodes of several kinds taken together; and the name of the default partition."""
    partitions: dict[str, Partition] = {}
    default = ""
    for line in output.splitlines():
        name, state, limit, memory, gres = line.split("|")
        default = name.rstrip("*") if name.endswith("*") else default
        name = name.rstrip("*")
        known = partitions.get(name)
        partitions[name] = Partition(
            name,
            state == "up",
            parsed_minutes(limit),
            max(int(memory.rstrip("+")), known.memory if known else 0),
            frozenset(re.findall(r"(?:^|,)(\w+)", gres)) | (known.kinds if known else frozenset()),
        )
    return partitions, default or next(iter(partitions), "")


def _profile(root: Path) -> dict[str, Any]:
    """The resources that slurm/config.yaml gives every job, and its command for states; the user's file
    wins.
    """
    path = root / "slurm" / "config.yaml"
    config = read(path) if path.is_file() else {}
    resources = {**(config.get("default-resources") or {}), **Cluster.read(root).resources}
    return {"resources": resources, "status": config.get("slurm-status-command")}
