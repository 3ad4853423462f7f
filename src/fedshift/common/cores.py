"""Cores: how many of the machine's this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Those that its affinity allows; all of them where there is no affinity (macOS). At least 1."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
