"""Faults that a running experiment can meet: each finds its victim, strikes, and says whether it struck."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.claim import alive, holder
from tests.slurm.cluster import Cluster


@dataclass
class Scene:
    """What is running now."""

    root: Path
    snakemake: subprocess.Popen[str]
    random: random.Random
    cluster: Cluster | None

    def claims(self) -> list[dict[str, Any]]:
        """Holders that live, of runs in the order of their names."""
        found = [holder(path) for path in sorted((self.root / "results" / "runs").rglob("claim.json"))]
        return [claim for claim in found if claim and alive(claim)]

    def victim(self) -> dict[str, Any]:
        claims = self.claims()
        if not claims:
            raise ProcessLookupError
        return self.random.choice(claims)

    def job(self) -> str:
        job = self.victim()["job"]
        if job is None:
            raise ProcessLookupError
        return str(job)

    def slurm(self, *command: str) -> str:
        assert self.cluster is not None
        return self.cluster.call(*command, check=False)


def _parent(pid: int) -> int:
    """The process that trains the pack: the run's own, or the one that started it."""
    above = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return above if b"--pack" in Path(f"/proc/{above}/cmdline").read_bytes().split(b"\0") else pid


def kill_run(scene: Scene) -> None:
    os.kill(scene.victim()["pid"], signal.SIGKILL)


def kill_pack(scene: Scene) -> None:
    os.kill(_parent(scene.victim()["pid"]), signal.SIGKILL)


def preempt_pack(scene: Scene) -> None:
    os.kill(_parent(scene.victim()["pid"]), signal.SIGTERM)


def kill_snakemake(scene: Scene) -> None:
    scene.victim()  # only while something trains
    scene.snakemake.kill()
    scene.snakemake.wait()


def interrupt_snakemake(scene: Scene) -> None:
    """Ctrl-C in its terminal: the whole group of processes is told."""
    scene.victim()
    os.killpg(scene.snakemake.pid, signal.SIGINT)
    scene.snakemake.wait()


def fill_disk(scene: Scene) -> None:
    """From now on no file of this process grows beyond some bytes: each further write fails, as on a full disk."""
    limit = scene.random.choice([0, 4096])
    resource.prlimit(scene.victim()["pid"], resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))


def cancel(scene: Scene) -> None:
    scene.slurm("scancel", scene.job())


def signal_job(scene: Scene) -> None:
    """What `--signal=TERM@120` does before the time limit."""
    scene.slurm("scancel", "--signal=TERM", scene.job())


def requeue(scene: Scene) -> None:
    job = scene.job()
    scene.slurm("scontrol", "requeue", job)
    _hasten(scene, job)


def time_limit(scene: Scene) -> None:
    """The controller looks twice a minute whose time is over."""
    scene.slurm("scontrol", "update", f"JobId={scene.job()}", "TimeLimit=1")


def node_down(scene: Scene) -> None:
    job = scene.job()
    node = scene.slurm("squeue", "-h", "-j", job, "-o", "%N").strip()
    scene.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")
    _hasten(scene, job)
    scene.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def _hasten(scene: Scene, job: str) -> None:
    """Slurm lets a requeued job wait two minutes; not here."""
    for _ in range(100):
        if scene.slurm("squeue", "-h", "-j", job, "-o", "%T").strip() == "PENDING":
            break
        time.sleep(0.2)
    scene.slurm("scontrol", "update", f"JobId={job}", "StartTime=now")


Fault = Callable[[Scene], None]
LOCAL: tuple[Fault, ...] = (
    kill_run,
    kill_pack,
    preempt_pack,
    kill_snakemake,
    interrupt_snakemake,
    fill_disk,
)
SLURM: tuple[Fault, ...] = (
    kill_run,
    kill_pack,
    kill_snakemake,
    fill_disk,
    cancel,
    signal_job,
    requeue,
    time_limit,
    node_down,
)
