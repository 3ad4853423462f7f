"""Faults of people and their machines: a second user, an edit, a clock that is wrong."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time

from fedshift.common.files import write_text
from tests.faults.processes import until
from tests.faults.scene import Missed, Scene
from tests.faults.strikes import logged, stop_pack

LOCKED = "Directory cannot be locked"
CHANGED = "the code has changed since this was planned"


def skew_clock(scene: Scene) -> None:
    """Files of a machine whose clock is hours ahead, or behind: what is old looks new."""
    hours = scene.dice.choice([-30, -1, 1, 30])
    root = scene.checkout.root
    folders = ("data", "results/packs", "results/runs", "experiments", "src/fedshift/methods")
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*")) if path.is_file()]
    skewed = 0
    for path in scene.dice.sample(paths, min(40, len(paths))):
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (time.time() + 3600 * hours,) * 2)
            skewed += abs(path.stat().st_mtime - time.time()) > 3000
    if not skewed:
        raise Missed


def edit_code(scene: Scene) -> None:
    """Somebody raises the version of a method while it is trained, and takes it back once a job has met it."""
    victim = scene.victim()
    method, began = victim.path.relative_to(scene.checkout.root).parts[3], time.time()
    methods = scene.checkout.root / "src" / "fedshift" / "methods"
    path = next(
        path for path in (methods / f"{method}.py", methods / method / "__init__.py") if path.is_file()
    )
    before = path.read_text()
    earlier = re.sub(r"^    version = .*\n", "", before, flags=re.MULTILINE)
    edited = earlier.replace(f'    name = "{method}"\n', f'    name = "{method}"\n    version = 99\n')
    assert edited != before
    write_text(path, edited)
    try:
        stop_pack(victim)
        scene.until(lambda: logged(scene, CHANGED, began) or scene.ended, 120)
        if not logged(scene, CHANGED, began):
            raise Missed
    finally:
        write_text(path, before)


def start_twice(scene: Scene) -> None:
    """Another user runs the same command in the same folder, and is refused."""
    log = scene.checkout.root / "logs" / "second.log"
    with open(log, "w") as file:
        second = scene.checkout.start("metrics", output=file)
        until(lambda: second.poll() is not None, 300)
        if second.poll() is None:  # the first one had ended
            os.killpg(second.pid, signal.SIGKILL)
        second.wait()
    if LOCKED not in log.read_text():
        raise Missed


def train_twice(scene: Scene) -> None:
    """Another user trains the same pack by hand: it waits, and goes on where the first one ends."""
    pack = scene.pack_of(scene.victim().path.parent)
    log = scene.checkout.root / "logs" / "train" / "second.log"
    log.unlink(missing_ok=True)
    second = scene.begin("train-pack", "--plan", str(scene.plan), "--pack", pack, log="train/second.log")
    scene.until(lambda: second.poll() is not None or "waiting for another process" in log.read_text())
    if second.poll() is not None and "waiting" not in log.read_text():
        raise Missed


ALL = (skew_clock, edit_code, start_twice, train_twice)
