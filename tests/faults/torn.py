"""A machine goes down while it writes: what trained there is gone, and a file is empty, cut off or filled with zeros."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.scene import Missed, Scene
from tests.faults.strikes import stop_pack

AGO = 120  # seconds since the file was written when the machine is back


def tear(scene: Scene, path: Path) -> None:
    """Leave a file as a crash would. Raises Missed where there is none."""
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        raise Missed from None
    if len(whole) < 4:
        raise Missed
    rest = scene.dice.choice([b"", whole[: len(whole) // 2], bytes(len(whole))])
    path.write_bytes(rest)
    os.utime(path, (time.time() - AGO,) * 2)
    if path.read_bytes() != rest:  # it was written anew at once
        raise Missed
    scene.note(f"torn: {path.relative_to(scene.checkout.root)}, {len(rest)} of {len(whole)} bytes")


@contextlib.contextmanager
def _node_lost(scene: Scene) -> Iterator[Path]:
    """The machine of one pack goes down; Snakemake hears of it after the block. Gives the folder of one of its runs."""
    assert scene.snakemake is not None
    victim = scene.victim()
    os.kill(scene.snakemake.pid, signal.SIGSTOP)
    try:
        stop_pack(victim)
        yield victim.path.parent
    finally:
        os.kill(scene.snakemake.pid, signal.SIGCONT)


def _all_lost(scene: Scene) -> None:
    """The machine of everything goes down."""
    assert scene.snakemake is not None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(scene.snakemake.pid, signal.SIGKILL)
    scene.snakemake.wait()
    for victim in scene.victims():
        with contextlib.suppress(Missed):
            stop_pack(victim)


def _of_runs(scene: Scene, name: str) -> Path:
    """A file of that name of a run whose points at MLflow are of one life. Raises Missed where there is none."""
    folders = {scene.checkout.root / run.directory for run in scene.runs} - scene.anew
    if not (paths := sorted(folder / name for folder in folders if (folder / name).exists())):
        raise Missed
    return scene.dice.choice(paths)


def tear_lock(scene: Scene) -> None:
    with _node_lost(scene) as run:
        tear(scene, run / "lock.json")


def tear_failure(scene: Scene) -> None:
    """A failure that was being written when the machine went down."""
    with _node_lost(scene) as run:
        (run / "failure.json").write_text('{"kind": "FedshiftError", "text": "no", "retry": false}')
        tear(scene, run / "failure.json")


def tear_checkpoint(scene: Scene) -> None:
    """The run fails with a message that names the file and says to delete it; the user does, and it starts anew."""
    with _node_lost(scene) as run:
        if run in scene.anew:
            raise Missed
        checkpoint = run / "checkpoint.safetensors"
        tear(scene, checkpoint)
        refused = scene.fedshift("train-pack", "--plan", str(scene.plan), run.name)
        assert "checkpoint.safetensors" in refused and "Delete it" in refused, refused
        checkpoint.unlink()
        scene.anew.add(run)


def tear_summary(scene: Scene) -> None:
    """The run is trained again."""
    summary = _of_runs(scene, "summary.json")
    _all_lost(scene)
    tear(scene, summary)
    scene.anew.add(summary.parent)


def tear_stamp(scene: Scene) -> None:
    """The file that says that a pack is done."""
    if not (stamps := [stamp for stamp in scene.stamps() if stamp.exists()]):
        raise Missed
    _all_lost(scene)
    tear(scene, scene.dice.choice(stamps))


def tear_plan(scene: Scene) -> None:
    """Snakemake names the file and says to delete it; the user does."""
    plan = scene.plan
    _all_lost(scene)
    tear(scene, plan)
    refused = scene.dry_run()
    assert refused.returncode and plan.name in refused.stdout and "Delete it" in refused.stdout, (
        refused.stdout
    )
    plan.unlink()


ALL = (
    tear_lock, tear_failure, tear_checkpoint, tear_summary, tear_stamp, tear_plan
)  # fmt: skip
