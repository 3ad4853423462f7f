"""One command through everything at once: a time limit, a preemption, a full disk and an absent controller."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedshift.common.files import holder
from tests.faults.disk import Disk, mounted, why_none
from tests.faults.processes import end_all, until
from tests.slurm.cluster import Cluster, running
from tests.slurm.results import assert_same
from tests.slurm.test_away import back
from tests.slurm.test_slurm import HASTE
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1800)]
AWAY = float(os.environ.get("FEDSHIFT_AWAY", "20"))  # seconds without a controller
EXPERIMENT = """\
title: "Storm"
protocol: digits
spec:
  data: {input_px: 16}
  partition: {fractions: [0.2, 0.1, 0.7]}
  federation: {rounds: 200}
  local: {epochs: 1}
  evaluation: {every: 50}
methods: {fdse: , fedavg: , fedbn: }
axes: {target: [texture], seed: [0, 1]}
tables: {main: {columns: [target]}}
"""
PARAMETERS = "experiments: [demo]\npack: 1\n"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three nodes with two pretended GPUs each."""
    with running(lambda folder: Cluster(folder, nodes=3)) as made:
        yield made


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small disk of its own."""
    if reason := why_none(tmp_path / "small"):
        pytest.skip(reason)
    with mounted(tmp_path / "small") as made:
        yield made
        end_all(made.folder)


def training(root: Path) -> dict[str, Path]:
    """Slurm's job -> the run that it trains, of those that have a checkpoint."""
    locks = [lock for lock in (root / "results" / "runs").rglob("lock.json") if lock.parent.is_dir()]
    found = {str(who.job): lock.parent for lock in locks if (who := holder(lock))}
    return {job: run for job, run in found.items() if (run / "checkpoint.safetensors").exists()}


def state(cluster: Cluster, job: str) -> dict[str, str]:
    """What the controller says of a job."""
    told = cluster.call("scontrol", "show", "job", "-o", job, check=False)
    return dict(part.split("=", 1) for part in told.split() if "=" in part)


def test_one_command_ends_in_the_tables_of_a_calm_run(cluster: Cluster, disk: Disk, tmp_path: Path) -> None:
    calm = Checkout.made(tmp_path / "calm", {"demo": EXPERIMENT}, PARAMETERS)
    calm.run("all")
    there = Checkout.made(disk.folder / "there", {"demo": EXPERIMENT}, PARAMETERS)
    log = tmp_path / "snakemake.log"
    with log.open("w") as output:
        command = there.start(
            "all", *HASTE, profile="slurm", output=output, FEDSHIFT_CHECKPOINT_SECONDS="1", **cluster.environment
        )  # fmt: skip
        try:
            assert until(lambda: len(training(there.root)) >= 5, 600), log.read_text()
            cut, *others = sorted(training(there.root))
            first = state(cluster, cut)["NodeList"]
            preempted = next(job for job in others if state(cluster, job)["NodeList"] != first)

            cluster.call("scontrol", "update", f"JobId={cut}", "EndTime=now+1")
            node = f"--nodelist={state(cluster, preempted)['NodeList']}"
            urgent = ["sbatch", "--partition=urgent", node, "--gres=gpu:2", "--cpus-per-task=8"]
            cluster.call(*urgent, "--output=/dev/null", "--wrap=sleep 10")
            assert until(lambda: state(cluster, preempted).get("Restarts") == "1", 90)
            assert until(lambda: state(cluster, cut)["JobState"] == "TIMEOUT", 90)
            with disk.full():
                logs = there.root / "logs" / "train"
                assert until(
                    lambda: any("No space left" in path.read_text() for path in logs.rglob("*.log")), 60
                )
            cluster.stop_daemon("slurmctld")
            time.sleep(AWAY)
            back(cluster)
            for job in cluster.call("squeue", "-h", "-t", "PENDING", "-o", "%i").split():
                cluster.call("scontrol", "update", f"JobId={job}", "StartTime=now")  # else two minutes later
            assert command.wait(timeout=900) == 0, log.read_text()
        finally:
            end_all(there.root)
    assert "status is: 'TIMEOUT'" in log.read_text()
    assert_same(calm.root, there.root)
    for name in ("table.csv", "table.md"):
        path = Path("results", "tables", "demo", name)
        assert (there.root / path).read_bytes() == (calm.root / path).read_bytes()
