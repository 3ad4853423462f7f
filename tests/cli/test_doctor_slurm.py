"""Doctor against a real Slurm: the profile as it comes, and what it asks for in vain."""

from pathlib import Path

import pytest

from fedshift import doctor
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import cluster  # noqa: F401  a fixture

pytestmark = pytest.mark.slurm


def test_profile_against_a_live_cluster(
    cluster: Cluster,  # noqa: F811
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    (project / "slurm").mkdir()
    own = project / "slurm" / "cluster.yaml"
    workspace, asked = Workspace(project), Request(("demo",), device="cuda")
    plan(workspace, asked)

    def told() -> list[tuple[str, str]]:
        return [(finding.state, finding.text) for finding in doctor.slurm(workspace, asked)]

    assert told() == [("ok", "partitions gpu, urgent; jobs go to gpu")]
    cluster.call("scontrol", "update", "PartitionName=gpu", "MaxTime=3")
    try:
        assert "ends jobs after 3 minutes" in told()[-1][1]
    finally:
        cluster.call("scontrol", "update", "PartitionName=gpu", "MaxTime=INFINITE")
    own.write_text("slurm_partition: bigger\n")
    assert told() == [("wrong", "the profile's partition 'bigger' is not on this cluster")]
    cluster.call("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    try:
        own.write_text("slurm_partition: gpu\n")
        assert told()[-1] == ("wrong", "partition 'gpu' is down")
    finally:
        cluster.call("scontrol", "update", "PartitionName=gpu", "State=UP")
