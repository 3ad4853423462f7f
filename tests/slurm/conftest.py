"""A Slurm of the session's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, missing


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes with two pretended GPUs each; skipped where Slurm is not installed, failed under FEDSHIFT_REQUIRE_SLURM=1."""
    if absent := missing():
        reason = f"not installed: {', '.join(absent)} (Debian: slurmctld slurmd slurm-client munge)"
        if os.environ.get("FEDSHIFT_REQUIRE_SLURM") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        made = Cluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()
