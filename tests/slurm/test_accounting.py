"""A Slurm that keeps accounts: states come from sacct, and what a job asks for grows with each attempt."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from fedshift.common.files import holder
from fedshift.planning.cluster import parsed_minutes
from tests.faults.processes import end_all, until
from tests.slurm.accounting import ACCOUNT, Accounted, require_accounting
from tests.slurm.cgroup import why_none
from tests.slurm.cluster import running
from tests.slurm.results import assert_same, finished
from tests.slurm.test_away import back
from tests.slurm.test_slurm import HASTE
from tests.slurm.test_storm import state, training
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1500)]
SACCT = [*HASTE, "--slurm-status-command", "sacct"]
AWAY = 12  # seconds
EXPERIMENT = """\
title: "Accounted"
protocol: digits
spec:
  data: {input_px: 16}
  partition: {fractions: [0.2, 0.1, 0.7]}
  federation: {rounds: 40}
  local: {epochs: 1}
  evaluation: {every: 20}
methods: {fedavg: , fedbn: }
axes: {target: [texture], seed: [0, 1]}
tables: {main: {columns: [target]}}
"""
PARAMETERS = "experiments: [demo]\npack: 1\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Accounted]:
    """Two nodes with two pretended GPUs each, slurmdbd and MariaDB."""
    require_accounting()
    with running(Accounted) as made:
        yield made


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The experiment, trained on this machine one run after the other."""
    made = Checkout.made(tmp_path_factory.mktemp("calm"), {"demo": EXPERIMENT}, PARAMETERS)
    made.run("metrics")
    return made


def checkout(root: Path) -> Checkout:
    """The same experiment, in a folder whose jobs are the account's."""
    made = Checkout.made(root, {"demo": EXPERIMENT}, PARAMETERS)
    (root / "slurm" / "cluster.yaml").write_text(yaml.safe_dump({"slurm_account": ACCOUNT}))
    return made


def frozen(root: Path, count: int) -> dict[str, int]:
    """Stop `count` processes that train and have a checkpoint, so that they obey SIGKILL alone: Slurm's job -> process."""
    stopped: dict[str, int] = {}

    def all_stopped() -> bool:
        for job, run in training(root).items():
            if len(stopped) < count and job not in stopped and (who := holder(run / "lock.json")):
                os.kill(who.pid, signal.SIGSTOP)
                stopped[job] = who.pid
        return len(stopped) == count

    assert until(all_stopped, 400)
    return stopped


def jobs(cluster: Accounted, there: Checkout) -> dict[str, list[tuple[str, str, int, int]]]:
    """The jobs that have trained a pack: pack -> (number, state, MB, minutes) of one job after the other."""
    steps = [
        line.split("|") for line in cluster.call("sacct", "-n", "-P", "-o", "JobIDRaw,State").splitlines()
    ]
    starved = {step.split(".")[0] for step, ended in steps if ended == "OUT_OF_MEMORY"}
    fields = "JobIDRaw,State,ReqMem,TimelimitRaw,WorkDir,Comment"
    found: dict[str, list[tuple[str, str, int, int]]] = {}
    for line in cluster.call("sacct", "-X", "-n", "-P", "-o", fields).splitlines():
        job, ended, memory, limit, folder, comment = line.split("|", 5)
        if "train" in comment and folder == str(there.root):
            found.setdefault(comment, []).append(
                (
                    job,
                    "OUT_OF_MEMORY" if job in starved else ended.split()[0],
                    int(memory.removesuffix("M")),
                    int(limit),
                )
            )
    return found


def assert_grown(attempts: list[tuple[str, str, int, int]]) -> None:
    """Each job asks for more memory and more minutes than the one before."""
    for (_, _, memory, limit), (_, _, more, longer) in pairwise(attempts):
        assert more > memory and longer > limit, attempts


def test_no_end_of_a_job_changes_a_number(cluster: Accounted, calm: Checkout, tmp_path: Path) -> None:
    """A time limit, scancel, a requeue, an absent controller, an absent database: one command, a local run's weights and metrics.

    Snakemake's plugin took "CANCELLED by 0" for a job that runs, and forgot its jobs within seconds without slurmdbd.
    """
    there = checkout(tmp_path / "there")
    log = tmp_path / "snakemake.log"
    with log.open("w") as output:
        command = there.start(
            "metrics", *SACCT, profile="slurm", output=output, FEDSHIFT_CHECKPOINT_SECONDS="1", **cluster.environment
        )  # fmt: skip
        try:
            cut, cancelled, requeued = frozen(there.root, 3)
            asked = parsed_minutes(state(cluster, cut)["TimeLimit"]) or 0
            cluster.call("scontrol", "update", f"JobId={cut}", "EndTime=now+1")
            cluster.call("scancel", cancelled)
            cluster.call("scontrol", "requeue", requeued)
            assert until(lambda: state(cluster, cut)["JobState"] == "TIMEOUT", 120)
            assert until(lambda: state(cluster, cancelled)["JobState"] == "CANCELLED", 60)
            assert until(lambda: state(cluster, requeued)["JobState"] == "PENDING", 60)
            cluster.call("scontrol", "update", f"JobId={requeued}", "StartTime=now")  # else two minutes later
            cluster.stop_daemon("slurmdbd")
            time.sleep(AWAY)
            cluster.start_dbd()
            cluster.stop_daemon("slurmctld")
            time.sleep(AWAY)
            back(cluster)
            assert command.wait(timeout=900) == 0, log.read_text()
        finally:
            end_all(there.root)
    assert_same(calm.root, there.root)
    assert len(finished(there.root)) == 4
    known = jobs(cluster, there)
    assert len(known) == 4
    ends = {job: ended for attempts in known.values() for job, ended, *_ in attempts}
    assert (ends[cut], ends[cancelled], ends[requeued]) == ("TIMEOUT", "CANCELLED", "COMPLETED")
    for attempts in known.values():
        assert_grown([(job, ended, mb, asked if job == cut else limit) for job, ended, mb, limit in attempts])
        assert attempts[-1][1] == "COMPLETED"
    assert set(cluster.call("sacct", "-X", "-n", "-P", "-o", "Account").split()) == {ACCOUNT}


@pytest.mark.skipif(bool(why_none()), reason=why_none())
def test_a_job_that_was_killed_for_its_memory_gets_more(
    cluster: Accounted, calm: Checkout, tmp_path: Path
) -> None:
    """The first job of each pack asks for less than torch takes, and the kernel kills it."""
    there = checkout(tmp_path / "there")
    there.edit("src/fedshift/planning/cluster.py", "500 + times", "380 + (times - 1)")
    done = there.snakemake("metrics", *SACCT, profile="slurm", **cluster.environment)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert_same(calm.root, there.root)
    for attempts in jobs(cluster, there).values():
        assert_grown(attempts)
        assert [ended for _, ended, *_ in attempts] == ["OUT_OF_MEMORY", "COMPLETED"], attempts
