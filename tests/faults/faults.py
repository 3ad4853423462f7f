"""Faults that a running experiment can meet. Each finds its victim, strikes, and waits until it is seen to have struck."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from tests.faults import people, torn
from tests.faults.processes import of_folder, until
from tests.faults.scene import Missed, Scene
from tests.faults.strikes import Fault, kill, logged, pack_of


def kill_run(scene: Scene) -> None:
    kill(scene.victim().pid, signal.SIGKILL)


def kill_pack(scene: Scene) -> None:
    """Its runs are orphans then, and train on."""
    kill(pack_of(scene.victim().pid), signal.SIGKILL)


def term_pack(scene: Scene) -> None:
    """A preemption."""
    kill(pack_of(scene.victim().pid), signal.SIGTERM)


def kill_snakemake(scene: Scene) -> None:
    """Its jobs train on."""
    scene.victim()
    assert scene.snakemake is not None
    kill(scene.snakemake.pid, signal.SIGKILL)
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
        scene.until(lambda: logged(scene, "No space left on device", began))


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


def read_only(scene: Scene) -> None:
    """Nothing can be written until a run has failed of it."""
    assert scene.disk is not None
    began = time.time()
    _end_followers(
        scene
    )  # their lock is a file that is open for writing, which keeps a disk from being read-only
    try:
        with scene.disk.read_only():
            scene.until(lambda: logged(scene, "Read-only file system", began))
    except TimeoutError:
        raise Missed from None
    finally:
        _follow(scene)


def kill_follower(scene: Scene) -> None:
    """What publishes to MLflow beside the workflow dies; the user starts another one."""
    if not _end_followers(scene):
        raise Missed
    _follow(scene)


def _end_followers(scene: Scene) -> list[int]:
    """Returns their process ids."""
    followers = [
        pid for pid, command in of_folder(scene.checkout.root).items() if " track --follow" in command
    ]
    for pid in followers:
        with contextlib.suppress(Missed):
            kill(pid)
    assert until(lambda: not set(followers) & of_folder(scene.checkout.root).keys(), 60)
    return followers


def _follow(scene: Scene) -> None:
    assert scene.snakemake is not None
    beside = ("--beside", str(scene.snakemake.pid))
    scene.begin("track", "--follow", "--plan", str(scene.plan), *beside, log="track.log")


ALL: tuple[Fault, ...] = (
    kill_run, kill_pack, term_pack, kill_snakemake, interrupt_snakemake,
    kill_server, kill_follower, fill_disk, read_only, *people.ALL, *torn.ALL,
)  # fmt: skip
