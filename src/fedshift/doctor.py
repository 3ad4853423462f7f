"""Doctor: what this machine and this project have, what is missing, and what to do about it.

Each check yields findings. Nothing is changed or installed; at most a server is contacted.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import requests

from fedshift.common.processes import answer_of, usable_cores
from fedshift.common.yaml_file import read
from fedshift.data.state import State, states
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load, protocol
from fedshift.experiments.protocols import merge
from fedshift.planning import job, planfile
from fedshift.planning.cluster import PATH, Cluster, parsed_minutes, troubles
from fedshift.planning.lacking import lacking, needed_weights
from fedshift.planning.plan import specs
from fedshift.planning.request import Request
from fedshift.storage import rundir
from fedshift.storage.workspace import Workspace

OWN = PATH.as_posix()
SPARE_GB = 5.0  # free in addition to what runs need


@dataclass(frozen=True)
class Finding:
    """One line of the examination.

    Attributes:
        part: what is checked.
        state: "ok" (there), "absent" (not there, not needed) or "wrong" (broken, or needed and not there).
        text: the state in words.
        cure: what to do about it.
    """

    part: str
    state: Literal["ok", "absent", "wrong"]
    text: str
    cure: str = ""


def examine(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Run all checks in turn."""
    for check in CHECKS:
        yield from check(workspace, request)


def cores(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Always "ok"; the load of other processes is reported."""
    usable, load = usable_cores(), os.getloadavg()[0]
    busy = ": other processes are running, times will be long" if load > usable else ""
    yield Finding("cores", "ok", f"{usable} of {os.cpu_count() or 1} cores; load {load:.1f}{busy}")


def gpu(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """A missing GPU is wrong where the parameters ask for one and no cluster is at hand."""
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 1024**3
        text = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, {memory:.0f} GiB"
        cure = "" if request.device == "cuda" else "To plan for it: `device: cuda` in params.yaml."
        yield Finding("gpu", "ok", text, cure)
    elif request.device == "cuda" and not shutil.which("sbatch"):
        cure = "Set `device: cpu` in params.yaml, or start on a machine or cluster with a GPU."
        yield Finding("gpu", "wrong", "none here, but the parameters ask for one", cure)
    else:
        yield Finding("gpu", "absent", "none here: runs train on the CPU")


def precision(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """TF32 where an experiment needs it and this machine, or its cluster, may lack it."""
    users = [name for name in request.experiments if "tf32" in _precisions(workspace, name)]
    if not users:
        return
    import torch

    from fedshift.federation.precision import has_tf32

    if not has_tf32(torch.device("cuda" if torch.cuda.is_available() else "cpu")):
        elsewhere = request.device == "cuda" and shutil.which("sbatch")
        text = f"no tf32 (GPUs from compute capability 8.0), needed by {', '.join(users)}"
        cure = "Set local.precision to fp32 there, or train on such a GPU."
        yield Finding("precision", "absent" if elsewhere else "wrong", text, cure)


def _precisions(workspace: Workspace, name: str) -> set[str]:
    """What an experiment trains in, by its protocol, its own settings or an axis."""
    experiment = load(workspace, name)
    spec = merge(protocol(workspace, experiment.protocol).spec, experiment.spec)
    varied = [axis.values for axis in experiment.axes.values() if axis.key == "local.precision"]
    return {spec.get("local", {}).get("precision", "fp32"), *(name for values in varied for name in values)}


def disk(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """The plan says how much its runs need, one job at a time; without a plan, SPARE_GB must be free."""
    free = shutil.disk_usage(workspace.root).free / 1e9
    path = planfile.last(workspace, request)
    if path is None:
        enough = free > SPARE_GB
        text = f"{free:.1f} GB free; what is needed: fedshift plan"
        yield Finding("disk", "ok" if enough else "wrong", text, "" if enough else "Free space.")
        return
    runs = planfile.runs(path)
    left = [run for run in runs if workspace.run_at(run.directory).outcome() is not rundir.State.FINISHED]
    need = job.disk_mb(left, request.parallel) / 1e3
    text = f"{free:.1f} GB free; {len(left)} runs to do need up to {need:.1f} GB"
    if free < need + SPARE_GB:
        cure = "Free space, or move results/ to a larger disk and link it."
        yield Finding("disk", "wrong", text, cure)
    else:
        yield Finding("disk", "ok", text)


def datasets(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """One line for each data set and release, and how far it has come."""
    needed: dict[tuple[str, str], list[str]] = {}
    for name in request.experiments:
        cells = expand(workspace, load(workspace, name))
        for images in dict.fromkeys((cell.spec.data.dataset, cell.spec.data.release) for cell in cells):
            needed.setdefault(images, []).append(name)
    for (dataset, release), users in needed.items():
        state = states(workspace, dataset).get(release, State("absent"))
        options = "" if release == "original" else f" --release {release}"
        if state.raw == "absent":
            text = f"{state}; needed by {', '.join(users)}"
            yield Finding(f"data {dataset}", "wrong", text, f"fedshift fetch {dataset}{options}")
        elif state.raw == "raw":
            yield Finding(f"data {dataset}", "absent", str(state), f"fedshift verify {dataset}{options}")
        else:
            yield Finding(f"data {dataset}", "ok", str(state))


def weights(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """One line for each published file that is needed, there or not, and for each list that is not there."""
    runs = specs(workspace, request)
    for file in {file: None for spec in runs for file in needed_weights(workspace, spec)}:
        if file.path.is_file():
            yield Finding("weights", "ok", f"{file.name} in {file.path.parent}")
    for lack, count in lacking(workspace, runs).items():
        yield Finding(lack.kind, "wrong", f"not there: {lack.what}; {count} runs cannot run here", lack.cure)


def mlflow(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """A server that is named and silent is wrong; runs train all the same."""
    if not importlib.util.find_spec("mlflow"):
        text = "not installed: runs are not shown in its UI"
        yield Finding("mlflow", "absent", text, "pip install -e '.[mlflow]'")
        return
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address.startswith("http"):
        yield Finding("mlflow", "ok", f"installed; tracks into {address or 'its local database'}")
        return
    try:
        requests.get(f"{address.rstrip('/')}/health", timeout=3).raise_for_status()
    except requests.RequestException as error:
        cure = "Start it, or unset MLFLOW_TRACKING_URI; runs train all the same and are published later."
        yield Finding("mlflow", "wrong", f"{address} does not answer: {type(error).__name__}", cure)
        return
    yield Finding("mlflow", "ok", f"the server at {address} answers")


class Partition(NamedTuple):
    """A partition's best node: memory (MB); minutes that a job may take (None: any); kinds of what a node
    gives out besides: "gpu", "shard", "mps".
    """

    name: str
    up: bool
    minutes: int | None
    memory: int
    kinds: frozenset[str]


def slurm(workspace: Workspace, request: Request) -> Iterator[Finding]:
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
    for what, cure in troubles(workspace):
        yield Finding("slurm", "wrong", what, cure)


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


CHECKS: tuple[Callable[[Workspace, Request], Iterable[Finding]], ...] = (
    cores, gpu, precision, slurm, mlflow, disk, datasets, weights,
)  # fmt: skip
