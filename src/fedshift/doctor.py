"""Doctor: check what the requested runs need on this machine and in this project, with fixes."""

import re
import shutil
from collections.abc import Iterator
from itertools import groupby
from typing import Literal, NamedTuple

from fedshift.common.processes import answer_of
from fedshift.data.state import State, states
from fedshift.planning import job, planfile
from fedshift.planning.cluster import PATH, Cluster, limits, troubles
from fedshift.planning.lacking import lacking, needed_weights
from fedshift.planning.plan import specs
from fedshift.planning.request import Request
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

Verdict = Literal["ok", "absent", "wrong"]
# State of raw images -> the verdict, and the next command.
VERDICTS: dict[str, tuple[Verdict, str]] = {"absent": ("wrong", "fetch"), "raw": ("absent", "verify")}


class Finding(NamedTuple):
    """One line of the examination.

    `part`: the checked part.
    `state`: "ok" (present), "absent" (neither present nor needed) or "wrong" (broken, or needed and not
        present).
    `text`: the state in words.
    `cure`: how to fix it.
    """

    part: str
    state: Verdict
    text: str
    cure: str = ""


def examine(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Check device, cluster, images, weights and lists in turn, without changing or installing anything."""
    yield gpu(request)
    yield from slurm(workspace, request)
    runs = specs(workspace, request)
    yield from datasets(workspace, runs)
    yield from weights(workspace, runs)


def gpu(request: Request) -> Finding:
    """Check for a GPU. A missing one is wrong if the parameters request it and there is no cluster."""
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 1024**3
        text = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, {memory:.0f} GiB"
        cure = "" if request.device == "cuda" else "To plan for it: `device: cuda` in params.yaml."
        return Finding("gpu", "ok", text, cure)
    if request.device == "cuda" and not shutil.which("sbatch"):
        cure = "Set `device: cpu` in params.yaml, or start on a machine or cluster with a GPU."
        return Finding("gpu", "wrong", "none here, but the parameters ask for one", cure)
    return Finding("gpu", "absent", "none here: runs train on the CPU")


def datasets(workspace: Workspace, runs: list[RunSpec]) -> Iterator[Finding]:
    """Yield the state of each data set and release."""
    for dataset, release in dict.fromkeys((spec.data.dataset, spec.data.release) for spec in runs):
        state = states(workspace, dataset).get(release, State())
        named = dataset if release == "original" else f"{dataset} --release {release}"
        verdict, cure = VERDICTS.get(state.raw, ("ok", ""))
        yield Finding(f"data {dataset}", verdict, str(state), cure and f"fedshift {cure} {named}")


def weights(workspace: Workspace, runs: list[RunSpec]) -> Iterator[Finding]:
    """Yield the state of each published file that is needed, and each list that is missing."""
    for file in {file: None for spec in runs for file in needed_weights(workspace, spec)}:
        if file.path.is_file():
            yield Finding("weights", "ok", f"{file.name} in {file.path.parent}")
    for lack, count in lacking(workspace, runs).items():
        yield Finding(lack.kind, "wrong", f"not there: {lack.what}; {count} runs cannot run here", lack.cure)


def slurm(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Check the cluster, and the resources that planned jobs request from their partition."""
    if not shutil.which("sinfo"):
        yield Finding("slurm", "absent", "not on this machine: use --profile profiles/local")
        return
    if (output := answer_of("sinfo", "-h", "-o", "%P|%a|%G")) is None:
        text = "installed, but its controller does not answer"
        yield Finding("slurm", "wrong", text, "Ask the administrators; try: sinfo")
        return
    nodes = [line.split("|") for line in output.splitlines()]
    names = list(dict.fromkeys(name.rstrip("*") for name, *_ in nodes))
    own = Cluster.read(workspace.root)
    default = next((name.rstrip("*") for name, *_ in nodes if name.endswith("*")), "")
    name = own.resources.get("slurm_partition", default)
    asked = name.split(",")
    if not {*asked} <= {*names}:
        cure = f"Set slurm_partition in {PATH} to one of: {', '.join(names)}."
        yield Finding("slurm", "wrong", f"the profile's partition '{name}' is not on this cluster", cure)
    else:
        yield Finding("slurm", "ok", f"partitions {', '.join(names)}; jobs go to {name}")
        of_it = [(state, gres) for partition, state, gres in nodes if partition.rstrip("*") in asked]
        another = f"Choose another one in {PATH}"
        if all(state != "up" for state, _ in of_it):
            yield Finding("slurm", "wrong", f"partition '{name}' is down", f"{another}.")
        kind = own.gres.partition(":")[0] if own.gres else "gpu"
        if request.device == "cuda" and not any(re.search(rf"(?:^|,){kind}\b", gres) for _, gres in of_it):
            cure = f"{another}, or " + ("leave `gres` out there." if own.gres else "`device: cpu`.")
            text = f"partition '{name}' has no '{kind}' (sinfo -o %G), and jobs ask for one"
            yield Finding("slurm", "wrong", text, cure)
        yield from _beyond_limits(workspace, request, name)
    for what, cure in troubles(workspace):
        yield Finding("slurm", "wrong", what, cure)


def _beyond_limits(workspace: Workspace, request: Request, partition: str) -> Iterator[Finding]:
    """The partition's limits that planned jobs exceed."""
    path = planfile.last(workspace, request)
    runs = planfile.runs(path) if path else []
    packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
    minutes = max((job.minutes(members, request.parallel, request.hours) for members in packs), default=0)
    memory = max((job.mem_mb(members, request.parallel) for members in packs), default=0)
    most_minutes, most_memory = limits(partition)
    where = f"partition '{partition}'"
    if most_minutes is not None and minutes > most_minutes:
        text = f"{where} ends jobs after {most_minutes} minutes, the longest one planned requests {minutes}"
        hours = max(1, most_minutes // 60)
        cure = f"Set `hours: {hours}` in params.yaml, or choose a partition with more time."
        yield Finding("slurm", "wrong", text, cure)
    if most_memory is not None and memory > most_memory:
        text = f"{where} has nodes of {most_memory} MB, the largest job planned requests {memory}"
        yield Finding("slurm", "wrong", text, "A smaller `parallel` in params.yaml, or larger nodes.")
