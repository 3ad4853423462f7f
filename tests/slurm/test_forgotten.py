"""Jobs that the controller has forgotten: Snakemake waited for them for ever."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.processes import end_all, until
from tests.slurm.cluster import Cluster, running
from tests.slurm.results import assert_same, finished
from tests.slurm.test_slurm import HASTE
from tests.slurm.test_storm import training
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(2400)]
LONG = ["--set-resources", "train:runtime=60"]  # a slow machine must not reach the time limit
FORGETS = 20  # seconds; below 3 * 5 of HASTE the plugin would ask sacct
EXPERIMENT = """\
title: "Forgotten"
protocol: digits
spec:
  data: {input_px: 16}
  partition: {fractions: [0.2, 0.1, 0.7]}
  federation: {rounds: 40}
  local: {epochs: 1}
  evaluation: {every: 20}
methods: {fedavg: , fedbn: }
axes: {target: [texture], seed: [0]}
tables: {main: {columns: [target]}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(lambda folder: Cluster(folder, forgets=FORGETS)) as made:
        yield made


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    made = Checkout.made(tmp_path_factory.mktemp("calm"), {"demo": EXPERIMENT}, "experiments: [demo]\n")
    made.run("metrics")
    return made


def lost_while_training(
    cluster: Cluster, calm: Checkout, root: Path, lose: Callable[[int], None]
) -> tuple[Checkout, str]:
    """Two jobs train, and are lost by `lose`, which is given Snakemake's process: the workflow ends by itself all the same."""
    there = Checkout.made(root / "there", {"demo": EXPERIMENT}, "experiments: [demo]\n")
    there.edit("workflow/slurm/sbatch", "MINUTE=60", "MINUTE=5")
    shutil.copytree(calm.root / "data", there.root / "data")
    log = root / "snakemake.log"
    with log.open("w") as output:
        command = there.start(
            "metrics", *HASTE, *LONG, profile="slurm", output=output, FEDSHIFT_CHECKPOINT_SECONDS="1", **cluster.environment
        )  # fmt: skip
        try:
            assert until(lambda: len(training(there.root)) == 2, 600), log.read_text()
            lose(command.pid)
            assert command.wait(timeout=900) == 0, log.read_text()
        finally:
            end_all(there.root)
    assert_same(calm.root, there.root)
    return there, log.read_text()


def test_a_controller_that_starts_anew(cluster: Cluster, calm: Checkout, tmp_path: Path) -> None:
    def lose(process: int) -> None:
        cluster.stop_daemon("slurmctld", signal.SIGKILL)
        cluster.call("slurmctld", "-c")

    lost_while_training(cluster, calm, tmp_path, lose)


def test_jobs_that_end_while_snakemake_stands_still(cluster: Cluster, calm: Checkout, tmp_path: Path) -> None:
    """They cost no second job: their stamps are there."""
    there = tmp_path / "there"

    def lose(process: int) -> None:
        os.kill(process, signal.SIGSTOP)
        assert until(lambda: len(finished(there)) == 2, 600)
        assert until(lambda: not cluster.call("squeue", "-h", "-t", "all"), 600)
        time.sleep(1)
        os.kill(process, signal.SIGCONT)

    _, log = lost_while_training(cluster, calm, tmp_path, lose)
    assert "Error in rule train" not in log
    assert log.count("has been submitted with SLURM jobid") == 2
