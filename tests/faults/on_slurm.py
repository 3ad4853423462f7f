"""Faults of a Slurm: its jobs, its nodes, its controller."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from tests.faults.processes import stewards, until
from tests.faults.scene import Missed, Scene
from tests.faults.strikes import kill


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
    """The node comes back once its jobs are queued again and nothing of them is left on it.

    Slurm holds a job for good that comes to a node which still has it ("launch failed requeued held").
    """
    job = scene.job()
    node = _node(scene, job)
    jobs = scene.slurm("squeue", "-h", "-w", node, "-o", "%i").split()
    scene.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")
    try:
        scene.until(lambda: not any(stewards(one) for one in jobs), 30)
        _start_again(scene, job)
    finally:
        scene.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def lose_node(scene: Scene) -> None:
    """The controller loses a node and starts its jobs elsewhere, where one waits for the process that stood still there; that trains on, and
    later the node comes back."""
    assert scene.cluster is not None
    job = scene.job()
    victim, node = scene.victim(job), _node(scene, job)
    scene.cluster.stop_daemon(f"slurmd-{node}", signal.SIGKILL)
    # With the run's own process, which would be done before other jobs have left the other node.
    deaf = [*stewards(job), victim.pid]
    try:
        for pid in deaf:
            kill(pid, signal.SIGSTOP)
        scene.slurm("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=fault")
        _start_again(scene, job)
        scene.until(lambda: scene.state(job) == "RUNNING", 90)
        time.sleep(5)
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


def drain_node(scene: Scene) -> None:
    """Somebody wants to mend a node: its jobs go on, no other one begins there until it is back."""
    node = _node(scene, scene.job())
    scene.slurm("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=fault")
    try:
        scene.until(lambda: "DRAIN" in scene.slurm("scontrol", "show", "node", "-o", node))
        time.sleep(scene.dice.uniform(5, 15))
    finally:
        scene.slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")


def controller_away(scene: Scene) -> None:
    """kill -9 to slurmctld, which comes back some seconds later and remembers its jobs."""
    assert scene.cluster is not None
    scene.victim()
    scene.cluster.stop_daemon("slurmctld", signal.SIGKILL)
    try:
        assert "DOWN" in scene.slurm("scontrol", "ping")
        time.sleep(scene.dice.uniform(5, 20))
    finally:
        scene.slurm("slurmctld")
    assert until(lambda: "UP" in scene.slurm("scontrol", "ping"), 120)


ALL = (cancel, term_job, time_limit, requeue, node_down, drain_node, lose_node, controller_away)
