"""Cores that this process may use, memory and load."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from fedshift.doctor.finding import Finding, words
from fedshift.planning.request import Request
from fedshift.workspace import Workspace


def check(workspace: Workspace, asked: Request) -> Iterator[Finding]:
    """Always there; busy cores are told."""
    usable, present = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    quota = words("/sys/fs/cgroup/cpu.max")
    limited = quota[:1] not in ([], ["max"])
    allowed = f", of which a quota gives {int(quota[0]) / int(quota[1]):.1f}" if limited else ""
    memory = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free, total = (int(memory[name].split()[0]) / 1024**2 for name in ("MemAvailable", "MemTotal"))
    load = os.getloadavg()[0]
    busy = f"; load {load:.1f}" + (": others are busy here, times will be long" if load > usable else "")
    found = f"{usable} of {present} cores{allowed}, {free:.0f} of {total:.0f} GiB free{busy}"
    yield Finding("cores", "ok", found)
