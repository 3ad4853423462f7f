"""A Slurm of the session's own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster, require_slurm


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes with two pretended GPUs each."""
    require_slurm()
    with tempfile.TemporaryDirectory(prefix="slurm") as folder:
        made = Cluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()
