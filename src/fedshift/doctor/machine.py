"""The machine: cores and memory, the GPU, which precision is fast, and free disk."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from fedshift.common.processes import usable_cores
from fedshift.doctor.finding import Finding, words
from fedshift.experiments.load import load, protocol
from fedshift.experiments.protocols import merge
from fedshift.planning import job, planfile
from fedshift.planning.request import Request
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

SECONDS = 0.15  # of matrix products for each precision
AT_ONCE = 8  # cores that are tried together
SIZE = {"cpu": 768, "cuda": 4096}  # rows of the square matrices
WORTH = 1.3  # a gain in speed below which the lower precision is not worth its rounding
SPARE_GB = 5.0  # free beside what runs need


def cores(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Always "ok"; the load of other processes is reported, and how much more all usable cores compute than
    one of them: virtual cores may share one. Where there is no /proc (macOS), memory is not known.
    """
    usable, present = usable_cores(), os.cpu_count() or 1
    quota = words("/sys/fs/cgroup/cpu.max")
    limited = quota[:1] not in ([], ["max"])
    allowed = f", of which a quota gives {int(quota[0]) / int(quota[1]):.1f}" if limited else ""
    memory, known = "memory not known here", words("/proc/meminfo")
    if known:
        free, total = (int(known[known.index(name) + 1]) / 1024**2 for name in ("MemAvailable:", "MemTotal:"))
        memory = f"{free:.0f} of {total:.0f} GiB free"
    average = os.getloadavg()[0]
    busy = f"; load {average:.1f}" + (
        ": others are busy here, times will be long" if average > usable else ""
    )
    at_once = min(usable, AT_ONCE)
    gain = f"; {at_once} at once do the work of {_together(at_once):.1f}" if at_once > 1 else ""
    text = f"{usable} of {present} cores{allowed}{gain}, {memory}{busy}"
    yield Finding("cores", "ok", text)


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
    left = [run for run in runs if workspace.run_at(run.directory).outcome() is not State.FINISHED]
    need = job.disk_mb(left, request.parallel) / 1e3
    text = f"{free:.1f} GB free; {len(left)} runs to do need up to {need:.1f} GB"
    if free < need + SPARE_GB:
        cure = "Free space, or move results/ to a larger disk and link it."
        yield Finding("disk", "wrong", text, cure)
    else:
        yield Finding("disk", "ok", text)


def precision(workspace: Workspace, request: Request) -> Iterator[Finding]:
    """Measured, not looked up: bf16 and tf32 against fp32; and who needs a tf32 that is absent."""
    import torch

    from fedshift.federation.precision import has_tf32

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    tf32 = has_tf32(torch.device(kind))
    flags = set(words("/proc/cpuinfo")) & {"amx_bf16", "avx512_bf16"}
    units = f" ({', '.join(sorted(flags)) or 'no bf16 unit'})" if kind == "cpu" else ""
    rates = {name: _gigaflops(kind, name) for name in ("bf16", *(["tf32"] if tf32 else []), "fp32")}
    fastest = max(rates, key=lambda name: rates[name])
    best = fastest if rates[fastest] > WORTH * rates["fp32"] else "fp32"
    speeds = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    also = " on one thread" if kind == "cpu" else ""
    lacks = "" if tf32 else "; no tf32, which GPUs have from compute capability 8.0 on"
    yield Finding(
        "precision", "ok", f"{best} is the fast one on this {kind}{units}: {speeds} GFLOP/s{also}{lacks}"
    )
    users = [name for name in request.experiments if "tf32" in _precisions(workspace, name)]
    if users and not tf32:
        elsewhere = request.device == "cuda" and shutil.which("sbatch")
        cure = "Set local.precision to fp32 there, or train on such a GPU."
        yield Finding(
            "precision", "absent" if elsewhere else "wrong", f"no tf32, needed by {', '.join(users)}", cure
        )


def _precisions(workspace: Workspace, name: str) -> set[str]:
    """What an experiment trains in, by its protocol, its own settings or an axis."""
    experiment = load(workspace, name)
    spec = merge(protocol(workspace, experiment.protocol).spec, experiment.spec)
    varied = [axis.values for axis in experiment.axes.values() if axis.key == "local.precision"]
    return {spec.get("local", {}).get("precision", "fp32"), *(name for values in varied for name in values)}


def _gigaflops(kind: str, precision: str) -> float:
    """Best of repeated square products; one thread on a CPU, as runs have by default."""
    import torch

    from fedshift.federation.precision import arithmetic

    size, threads, best = SIZE[kind], torch.get_num_threads(), float("inf")
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    torch.set_num_threads(1)
    left = torch.ones(size, size, dtype=dtype, device=kind)
    end = time.perf_counter() + SECONDS
    with arithmetic(precision, left.device):
        while best == float("inf") or time.perf_counter() < end:
            began = time.perf_counter()
            value = left @ left
            if kind == "cuda":
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - began)
    del value
    torch.set_num_threads(threads)
    return 2 * size**3 / best / 1e9


def _together(count: int) -> float:
    """How many times as much `count` threads compute at once as one of them alone."""
    import torch

    threads = torch.get_num_threads()
    with ThreadPoolExecutor(count) as pool:
        alone = pool.submit(_products).result()
        rates = [pool.submit(_products) for _ in range(count)]
        gain = sum(rate.result() for rate in rates) / alone
    torch.set_num_threads(threads)
    return gain


def _products() -> float:
    """Matrix products a second, on one thread."""
    import torch

    torch.set_num_threads(1)
    matrix, done, began = torch.ones(SIZE["cpu"], SIZE["cpu"]), 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < SECONDS:
        matrix @ matrix
        done += 1
    return done / passed
