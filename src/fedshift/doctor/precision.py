"""Which precision is fast on the device that trains, measured and not looked up; and whether it has the one that experiments ask for."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

from fedshift.doctor.finding import Finding, words
from fedshift.experiments.load import load, protocol
from fedshift.experiments.protocols import merge
from fedshift.planning.request import Request
from fedshift.workspace import Workspace

SECONDS = 0.15  # of matrix products for each precision
SIZE = {"cpu": 768, "cuda": 4096}  # rows of the square matrices
WORTH = 1.3  # a gain in speed below which the lower precision is not worth its rounding


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """bf16, and tf32 where there is one, against fp32, as `local.precision` may ask for; experiments that ask for a tf32 that is not here."""
    import torch

    from fedshift.federation.precision import has_tf32

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    tf32 = has_tf32(torch.device(kind))
    flags = set(words("/proc/cpuinfo")) & {"amx_bf16", "avx512_bf16"}
    units = f" ({', '.join(sorted(flags)) or 'no bf16 unit'})" if kind == "cpu" else ""
    rates = {name: _gigaflops(kind, name) for name in ("bf16", *(["tf32"] if tf32 else []), "fp32")}
    fastest = max(rates, key=lambda name: rates[name])
    best = fastest if rates[fastest] > WORTH * rates["fp32"] else "fp32"
    told = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
    also = " on one thread" if kind == "cpu" else ""
    lacks = "" if tf32 else "; no tf32, which GPUs have from compute capability 8.0 on"
    yield Finding(
        "precision", "ok", f"{best} is the fast one on this {kind}{units}: {told} GFLOP/s{also}{lacks}"
    )
    users = [name for name in asked.experiments if "tf32" in _precisions(workspace, name)]
    if users and not tf32:
        elsewhere = asked.device == "cuda" and shutil.which("sbatch")
        cure = "Set local.precision to fp32 there, or train on such a GPU."
        yield Finding(
            "precision", "absent" if elsewhere else "wrong", f"no tf32, needed by {', '.join(users)}", cure
        )


def _precisions(workspace: Workspace, name: str) -> set[str]:
    """What an experiment trains in, by its protocol, its own settings or an axis."""
    experiment = load(workspace.root, name)
    spec = merge(protocol(workspace.root, experiment.protocol).spec, experiment.spec)
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
