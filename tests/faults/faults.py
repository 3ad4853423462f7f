"""Faults that a running experiment can meet. Each finds its victim, strikes, and waits until it is seen to have struck."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from fedshift.lock import holder
from tests.faults.processes import stewards, until
from tests.faults.scene import Missed, Scene

Fault = Callable[[Scene], None]


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise Missed from None


def _pack(pid: int) -> int:
    """The process that trains the pack: the run's own, or the one that started it."""
    try:
        above = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return above if b"--pack" in Path(f"/proc/{above}/cmdline").read_bytes().split(b"\0") else pid
    except FileNotFoundError:
        raise Missed from None


def kill_run(scene: Scene) -> None:
    _kill(scene.victim().pid, signal.SIGKILL)


def kill_pack(scene: Scene) -> None:
    """Its runs are orphans then, and train on."""
    _kill(_pack(scene.victim().pid), signal.SIGKILL)


def term_pack(scene: Scene) -> None:
    """A preemption."""
    _kill(_pack(scene.victim().pid), signal.SIGTERM)


def kill_snakemake(scene: Scene) -> None:
    """Its jobs train on."""
    scene.victim()
    assert scene.snakemake is not None
    _kill(scene.snakemake.pid, signal.SIGKILL)
    scene.snakemake.wait()


def interrupt_snakemake(scene: Scene) -> None:
    """Ctrl-C in its terminal: the whole group of processes is told."""
    scene.victim()
    assert scene.snakemake is not None
    os.killpg(scene.snakemake.pid, signal.SIGINT)
    scene.snakemake.wait()


def fill_disk(scene: Scene) -> None:
    """Not a byte is free until a run has failed of it."""
    assert scene.disk is not None
    began = time.time()
    with scene.disk.full():
        scene.until(lambda: _told(scene, "No space left on device", began))


def _told(scene: Scene, text: str, since: float) -> bool:
    logs = (scene.checkout.root / "logs" / "train").glob("*.log")
    return any(log.stat().st_mtime >= since and text in log.read_text() for log in logs)


def kill_server(scene: Scene) -> None:
    """kill -9, and started again when the follower has met it, or after 15 seconds; it needs some more until it answers."""
    log = scene.checkout.root / "logs" / "track.log"
    before = _met(log)
    scene.server.kill()
    time.sleep(scene.dice.uniform(1, 4))
    until(lambda: _met(log) > before, 15)
    scene.server.launch()


def _met(log: Path) -> int:
    """How often the follower said that it would try again."""
    return log.read_text().count("again:") if log.is_file() else 0


def cancel(scene: Scene) -> None:
    job = scene.job()
    scene.slurm("scancel", job)
    scene.until_state(job, "CANCELLED")


def term_job(scene: Scene) -> None:
    """What `--signal=TERM@120` does before the time limit."""
    job = scene.job()
    scene.slurm("scancel", "--signal=TERM", job)
    scene.until_state(job, "FAILED")


def time_limit(scene: Scene) -> None:
    """The controller looks twice a minute whose time is over."""
    job = scene.job()
    scene.slurm("scontrol", "update", f"JobId={job}", "EndTime=now+1")
    scene.until_state(job, "TIMEOUT")


def requeue(scene: Scene) -> None:
    job = scene.job()
    scene.slurm("scontrol", "requeue", job)
    _start_again(scene, job)


def node_down(scene: Scene) -> None:
    """The node comes back once its jobs are queued again."""
    job = scene.job()
    node = _node(scene, job)
    scene.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")
    try:
        _start_again(scene, job)
    finally:
        scene.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def lose_node(scene: Scene) -> None:
    """The controller loses a node and starts its jobs elsewhere, while their processes there train on; later the node comes back."""
    assert scene.cluster is not None
    job = scene.job()
    victim, node = scene.victim(job), _node(scene, job)
    scene.cluster.stop_daemon(f"slurmd-{node}", signal.SIGKILL)
    deaf = stewards(job)
    try:
        for pid in deaf:
            _kill(pid, signal.SIGSTOP)
        scene.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")
        _start_again(scene, job)
        scene.until(lambda: (holder(victim.path) or victim.holder)["host"] != victim.holder["host"], 90)
    finally:
        for pid in deaf:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        scene.cluster.start_node(int(node.removeprefix("n")))
        scene.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def _node(scene: Scene, job: str) -> str:
    if not (node := scene.slurm("squeue", "-h", "-j", job, "-o", "%N").strip()):
        raise Missed
    return node


def _start_again(scene: Scene, job: str) -> None:
    """Slurm lets requeued jobs wait two minutes; not here."""
    scene.until(lambda: scene.state(job) == "PENDING", 30)
    for waiting in scene.slurm("squeue", "-h", "-t", "PENDING", "-o", "%i").split():
        scene.slurm("scontrol", "update", f"JobId={waiting}", "StartTime=now")


ANYWHERE: tuple[Fault, ...] = (kill_run, kill_pack, kill_snakemake, kill_server, fill_disk)
LOCAL: tuple[Fault, ...] = (*ANYWHERE, term_pack, interrupt_snakemake)
SLURM: tuple[Fault, ...] = (*ANYWHERE, cancel, term_job, time_limit, requeue, node_down, lose_node)
