"""Which precision is fast on the device that trains: measured, not looked up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fedshift.doctor.finding import Finding, words
from fedshift.planning.request import Request
from fedshift.workspace import Workspace

SECONDS = 0.15  # of matrix products for each precision
SIZE = {"cpu": 768, "cuda": 4096}  # rows of the square matrices
WORTH = 1.3  # a gain in speed below which the lower precision is not worth its rounding


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """bf16 against fp32, as `local.precision` may ask for."""
    import torch

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    flags = set(words("/proc/cpuinfo")) & {"amx_bf16", "avx512_bf16"}
    units = f" ({', '.join(sorted(flags)) or 'no bf16 unit'})" if kind == "cpu" else ""
    single, half = (_gigaflops(kind, dtype) for dtype in (torch.float32, torch.bfloat16))
    best = "bf16" if half > WORTH * single else "fp32"
    rates = f"bf16 {half:,.0f}, fp32 {single:,.0f} GFLOP/s" + (" on one thread" if kind == "cpu" else "")
    yield Finding("precision", "ok", f"{best} is the fast one on this {kind}{units}: {rates}")


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
