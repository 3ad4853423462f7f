"""Doctor: what this machine and this project have, what they lack, and what to do about it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import requests
import yaml

from fedshift import planfile
from fedshift.data.verify import manifest, stamp_path
from fedshift.errors import FedshiftError
from fedshift.experiments import load, merge, protocol
from fedshift.planfile import Request
from fedshift.registry import get
from fedshift.workspace import Workspace

SECONDS = 0.15  # of matrix products for each precision
SIZE = {"cpu": 768, "cuda": 4096}  # rows of the square matrices
WORTH = 1.3  # a gain in speed below which the lower precision is not worth its rounding
SPARE_GB = 5.0


@dataclass(frozen=True)
class Finding:
    """One line: the part looked at; ok (there), absent (not there, not needed) or wrong (broken, or needed and not there); what was found; the cure."""

    part: str
    state: Literal["ok", "absent", "wrong"]
    found: str
    cure: str = ""


def examine(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """Look at everything in turn; nothing is changed, nothing is installed, at most a server's address is asked."""
    yield cores()
    yield from accelerator(asked)
    yield from slurm(workspace.root, asked)
    yield from dvc(workspace.root)
    yield mlflow(workspace.root)
    yield disk(workspace.root, asked)
    yield from datasets(workspace, asked)


def cores() -> Finding:
    """Cores that this process may use, memory and load."""
    usable, present = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    quota = _words("/sys/fs/cgroup/cpu.max")
    allowed = (
        f", of which a quota gives {int(quota[0]) / int(quota[1]):.1f}"
        if quota[:1] not in ([], ["max"])
        else ""
    )
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free, total = (int(memory[name].split()[0]) / 1024**2 for name in ("MemAvailable", "MemTotal"))
    load = os.getloadavg()[0]
    busy = f"; load {load:.1f}" + (": others are busy here, times will be long" if load > usable else "")
    return Finding(
        "cores", "ok", f"{usable} of {present} cores{allowed}, {free:.0f} of {total:.0f} GiB free{busy}"
    )


def accelerator(asked: Request) -> Iterator[Finding]:
    """The GPU, and for the device that trains which precision it is fast in, measured."""
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory / 1024**3
        yield Finding(
            "gpu", "ok", f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(0)}, {memory:.0f} GiB"
        )
    elif asked.device == "cuda" and not shutil.which("sbatch"):
        cure = "Set `device: cpu` in params.yaml, or start on a machine or cluster with a GPU."
        yield Finding("gpu", "wrong", "none here, but the parameters ask for one", cure)
    else:
        yield Finding("gpu", "absent", "none here: runs train on the CPU")
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    flags = set(_words("/proc/cpuinfo")) & {"amx_bf16", "avx512_bf16"}
    units = f" ({', '.join(sorted(flags)) or 'no bf16 unit'})" if kind == "cpu" else ""
    single, half = (_gigaflops(kind, dtype) for dtype in (torch.float32, torch.bfloat16))
    best = "bf16" if half > WORTH * single else "fp32"
    yield Finding(
        "precision", "ok", f"{best} is the fast one on this {kind}{units}: bf16 {half:,.0f}, fp32 {single:,.0f} GFLOP/s"
        + (" on one thread" if kind == "cpu" else ""),
    )  # fmt: skip


def _gigaflops(kind: str, dtype: Any) -> float:
    """Best of repeated square products; one thread on a CPU, as runs have by default."""
    import torch

    size, threads, best = SIZE[kind], torch.get_num_threads(), float("inf")
    torch.set_num_threads(1)
    left = torch.ones(size, size, dtype=dtype, device=kind)
    end = time.perf_counter() + SECONDS
    while best == float("inf") or time.perf_counter() < end:
        began = time.perf_counter()
        value = left @ left
        if kind == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    del value
    torch.set_num_threads(threads)
    return 2 * size**3 / best / 1e9


def slurm(root: Path, asked: Request) -> Iterator[Finding]:
    """Whether a Slurm controller answers, and whether slurm/config.yaml names what it has."""
    if not shutil.which("sinfo"):
        yield Finding("slurm", "absent", "not on this machine: use --profile profiles/local")
        return
    told = _run("sinfo", "-h", "-o", "%R|%a|%D|%G")
    if told is None:
        yield Finding(
            "slurm",
            "wrong",
            "installed, but its controller does not answer",
            "Ask the administrators; try: sinfo",
        )
        return
    partitions = {line.split("|")[0]: line.split("|") for line in told.splitlines()}
    profile = _profile(root)
    name = profile["resources"].get("slurm_partition")
    if name and name not in partitions:
        cure = f"Set slurm_partition in slurm/cluster.yaml to one of: {', '.join(partitions)}."
        yield Finding("slurm", "wrong", f"the profile's partition '{name}' is not on this cluster", cure)
    else:
        yield Finding(
            "slurm", "ok", f"partitions {', '.join(partitions)}; the profile uses {name or 'the default one'}"
        )
    used = partitions.get(str(name))
    if (
        used
        and asked.device == "cuda"
        and "gpu" not in "".join(line for line in told.splitlines() if line.startswith(f"{name}|"))
    ):
        yield Finding(
            "slurm", "wrong", f"partition '{name}' has no GPU", "Choose another one, or `device: cpu`."
        )
    accounting = "accounting_storage/none" not in (
        _run("scontrol", "show", "config") or "accounting_storage/none"
    )
    if not accounting and profile["status"] == "sacct":
        yield Finding("slurm", "wrong", "the profile asks sacct, but accounting is off: it would wait for ever",
                      "Set `slurm-status-command: squeue`.")  # fmt: skip


def _profile(root: Path) -> dict[str, Any]:
    """What slurm/config.yaml gives every job and how it asks for states; slurm/cluster.yaml, the user's own, wins."""
    config, own = (_yaml(root / "slurm" / name) for name in ("config.yaml", "cluster.yaml"))
    resources = {**(config.get("default-resources") or {}), **own}
    return {"resources": resources, "status": config.get("slurm-status-command")}


def _yaml(path: Path) -> dict[str, Any]:
    return (yaml.safe_load(path.read_text()) or {}) if path.is_file() else {}


def dvc(root: Path) -> Iterator[Finding]:
    """Whether DVC is installed and has a remote that can be reached."""
    if not importlib.util.find_spec("dvc"):
        yield Finding("dvc", "absent", "not installed", "pip install -e '.[dvc]'")
        return
    told = _run(sys.executable, "-m", "dvc", "remote", "list", cwd=root)
    remotes = dict(line.split(None, 1) for line in (told or "").splitlines())
    if told is None:
        yield Finding("dvc", "wrong", "this folder is no DVC project", "Start fedshift in its checkout.")
    elif not remotes:
        yield Finding(
            "dvc",
            "absent",
            "no remote: results are on this machine only",
            "dvc remote add --default NAME ADDRESS",
        )
    for name, line in remotes.items():
        address = line.split("\t")[0].split()[0]
        if "://" in address:
            yield Finding("dvc", "ok", f"remote '{name}': {address} (not contacted; try: dvc status --cloud)")
        elif (root / address).is_dir():
            yield Finding("dvc", "ok", f"remote '{name}': {address}")
        else:
            yield Finding(
                "dvc",
                "absent",
                f"remote '{name}': {address} is not there yet",
                "`dvc push` makes it, or mount its disk.",
            )


def mlflow(root: Path) -> Finding:
    """Whether MLflow is installed, and whether the server of MLFLOW_TRACKING_URI answers."""
    if not importlib.util.find_spec("mlflow"):
        return Finding(
            "mlflow", "absent", "not installed: runs are not shown in its UI", "pip install -e '.[mlflow]'"
        )
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address.startswith("http"):
        return Finding("mlflow", "ok", f"installed; tracks into {address or 'its local database'}")
    try:
        requests.get(f"{address.rstrip('/')}/health", timeout=3).raise_for_status()
    except requests.RequestException as error:
        cure = "Start it, or unset MLFLOW_TRACKING_URI; runs train all the same and are published later."
        return Finding("mlflow", "wrong", f"{address} does not answer: {type(error).__name__}", cure)
    return Finding("mlflow", "ok", f"the server at {address} answers")


def disk(root: Path, asked: Request) -> Finding:
    """Free space where results lie against what the planned runs still need."""
    free = shutil.disk_usage(root).free / 1e9
    path = planfile.location(root, asked)
    if not path.is_file():
        state: Literal["ok", "wrong"] = "ok" if free > SPARE_GB else "wrong"
        return Finding(
            "disk",
            state,
            f"{free:.1f} GB free; what is needed: fedshift plan",
            "" if state == "ok" else "Free space.",
        )
    left = [run for run in planfile.runs(path) if planfile.outcome(root, run)[0] != "finished"]
    need = sum(run.disk_mb for run in left) / 1e3
    if free < need + SPARE_GB:
        cure = "Free space, or move results/ to a larger disk and link it."
        return Finding(
            "disk", "wrong", f"{free:.1f} GB free, {len(left)} runs to do need up to {need:.1f} GB", cure
        )
    return Finding("disk", "ok", f"{free:.1f} GB free; {len(left)} runs to do need up to {need:.1f} GB")


def datasets(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """The state of each data set that the asked experiments train on: not there, unverified, verified, prepared."""
    needed: dict[tuple[str, str], list[str]] = {}
    for name in asked.experiments:
        experiment = load(workspace.root, name)
        data = merge(protocol(workspace.root, experiment.protocol).spec, experiment.spec).get("data", {})
        needed.setdefault((data["dataset"], data.get("release", "original")), []).append(name)
    for (dataset, release), users in needed.items():
        yield _dataset(workspace, dataset, release, ", ".join(users))


def _dataset(workspace: Workspace, name: str, release: str, users: str) -> Finding:
    part, raw = f"data {name}", workspace.raw(name, release)
    options = "" if release == "original" else f" --release {release}"
    prepared = sorted(path.name for path in (workspace.root / "data" / "prepared" / name).glob("*-*"))
    decoded = f"; decoded: {', '.join(prepared)}" if prepared else ""
    if get("datasets", name).embedded:
        return Finding(part, "ok", f"comes with its library{decoded}")
    if not raw.exists():
        return Finding(
            part, "wrong", f"not there{decoded}; needed by {users}", f"fedshift fetch {name}{options}"
        )
    stamp = stamp_path(workspace, name, release)
    try:
        declared = manifest(workspace, name, release)
    except FedshiftError as error:
        return Finding(part, "wrong", error.what, error.cure)
    if not stamp.is_file() or json.loads(stamp.read_text())["hash"] != declared["hash"]:
        return Finding(part, "absent", f"there, not verified{decoded}", f"fedshift verify {name}{options}")
    return Finding(part, "ok", f"verified, {declared['files']:,} files{decoded}")


def _words(path: str) -> list[str]:
    file = Path(path)
    return file.read_text().split() if file.is_file() else []


def _run(*command: str, cwd: Path | None = None) -> str | None:
    """What a command prints; None where it fails or hangs."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None
