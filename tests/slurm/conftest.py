"""A Slurm of the session's own."""

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, running


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes with two pretended GPUs each."""
    with running(Cluster) as made:
        yield made
