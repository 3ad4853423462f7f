"""A pytest plug-in, `-p tests.sample`: plays the share SAMPLE_SHARE of all tests (default .1), chosen by SAMPLE_KEY.

The key also orders the files. Tests that have not begun at SAMPLE_UNTIL (seconds since 1970) are skipped.
"""

import hashlib
import os
import time

import pytest
import torch

KEY, UNTIL = os.environ.get("SAMPLE_KEY", ""), float(os.environ.get("SAMPLE_UNTIL", "inf"))


def drawn(name: str) -> float:
    """A number below 1 for a test or a file, by the key."""
    return int.from_bytes(hashlib.sha256(f"{KEY}/{name}".encode()).digest()[:8], "big") / 2**64


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share = float(os.environ.get("SAMPLE_SHARE", "0.1"))
    config.hook.pytest_deselected(items=[item for item in items if drawn(item.nodeid) >= share])
    items[:] = [item for item in items if drawn(item.nodeid) < share]
    items.sort(key=lambda item: drawn(item.path.name))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() > UNTIL:
        pytest.skip("no time is left for it")


def pytest_report_header() -> str:
    """The instruction set that torch computes by; fails where it is not the one asked for, so that no run passes for another."""
    has, asked = torch.backends.cpu.get_cpu_capability(), os.environ.get("ATEN_CPU_CAPABILITY", "")
    if asked and has.lower() != asked:
        raise pytest.UsageError(f"torch computes by {has}, not by {asked}: this CPU lacks it")
    return f"torch computes by {has}; a sample of the tests by key {KEY}"
