"""A pytest plug-in, `-p tests.sample`: keeps the share SAMPLE_SHARE of all tests (default .1), chosen by SAMPLE_KEY: another for each key.

`make test-isa` runs it under other instruction sets than the CPU's best, with the commit as key.
"""

import hashlib
import os

import pytest
import torch


def chosen(test: str, key: str, share: float) -> bool:
    """Whether a test, by its name, is in the sample of a key."""
    drawn = int.from_bytes(hashlib.sha256(f"{key}/{test}".encode()).digest()[:8], "big")
    return drawn < share * 2**64


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    key, share = os.environ.get("SAMPLE_KEY", ""), float(os.environ.get("SAMPLE_SHARE", "0.1"))
    left = [item for item in items if not chosen(item.nodeid, key, share)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if chosen(item.nodeid, key, share)]


def pytest_report_header() -> str:
    """The instruction set that torch computes by; fails where it is not the one asked for, so that no run passes for another."""
    has, asked = torch.backends.cpu.get_cpu_capability(), os.environ.get("ATEN_CPU_CAPABILITY", "")
    if asked and has.lower() != asked:
        raise pytest.UsageError(f"torch computes by {has}, not by {asked}: this CPU lacks it")
    return f"torch computes by {has}; a sample of the tests by key {os.environ.get('SAMPLE_KEY', '')}"
