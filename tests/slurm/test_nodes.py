"""A node whose GPU is broken: jobs that fail there are tried again elsewhere, and after some failures no job starts there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedshift.planning.cluster import IN_A_ROW, acquit, blame, excluded, troubles
from fedshift.storage.workspace import Workspace
from tests.slurm.cluster import Cluster, running
from tests.slurm.results import finished
from tests.slurm.test_slurm import HASTE
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1500)]
EXPERIMENT = """\
title: "Nodes"
protocol: digits
spec: {data: {input_px: 16}, federation: {rounds: 1}, local: {epochs: 1}}
methods: {fedavg: }
axes: {target: [texture], seed: [0, 1, 2, 3, 4, 5, 6]}
tables: {main: {columns: [target]}}
"""
BROKEN = """\
    require(machine.device)
    import os
    if os.environ.get("SLURMD_NODENAME") == "n0" and os.path.exists("broken"):
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
"""
IN_FLIGHT = 2  # jobs of a node that may have begun before the last failure was seen: one a GPU


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with running(lambda folder: Cluster(folder, forgets=86400)) as made:
        yield made


def jobs(cluster: Cluster) -> list[dict[str, str]]:
    """What the controller knows of each job that trained."""
    lines = cluster.call("scontrol", "show", "job", "-o").splitlines()
    return [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines if "rule_train" in line]


def test_a_sick_node_loses_no_run_and_gets_no_job(cluster: Cluster, tmp_path: Path) -> None:
    """Each job that began there failed for good within seconds, and counted as a success."""
    there = Checkout.made(tmp_path, {"demo": EXPERIMENT}, "experiments: [demo]\npack: 1\n")
    there.edit("src/fedshift/training/run.py", "    require(machine.device)\n", BROKEN)
    there.run("images", "partitions")
    (tmp_path / "broken").touch()
    done = there.snakemake("metrics", *HASTE, profile="slurm", **cluster.environment)
    assert done.returncode == 0, done.stdout
    assert len(finished(there.root)) == 7
    known = jobs(cluster)
    failed = [job for job in known if job["NodeList"] == "n0"]
    assert IN_A_ROW <= len(failed) <= IN_A_ROW + IN_FLIGHT
    assert {job["JobState"] for job in failed} == {"FAILED"}
    again = [job for job in known if job["Comment"] in {one["Comment"] for one in failed}]
    assert len(again) == 2 * len(failed)  # the second attempt succeeds: it was sent elsewhere
    assert "node n0" in done.stdout and "rm -r results/nodes/n0" in done.stdout
    assert "node n0" in there.python("-m", "fedshift", "status")


def test_never_all_nodes_are_excluded(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    workspace, comment = Workspace(tmp_path), "rule_train_wildcards_digits_fedavg_d"
    for node in ("n0", "n1"):
        monkeypatch.setenv("SLURMD_NODENAME", node)
        for pack in "abc":
            assert excluded(workspace, comment, "gpu") == ({"n0"} if node == "n1" else set())
            blame(workspace, pack, RuntimeError("CUDA error: no device"))
    assert excluded(workspace, comment, "gpu") == set()
    assert all("no other node is up" in what for what, _ in troubles(workspace))
    acquit(workspace)  # a run has finished on n1
    blame(workspace, "d", RuntimeError("shapes do not fit"))
    assert excluded(workspace, comment, "gpu") == {"n0"}  # d failed on n1, but no other node is left
    cluster.call("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=test")
    assert excluded(workspace, comment, "gpu") == {"n1"}  # n0 is sick, but no other node is up
