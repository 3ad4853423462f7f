"""What faults of all kinds are made of."""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.faults.processes import until
from tests.faults.scene import Missed, Scene, Victim

Fault = Callable[[Scene], None]


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal. Raises Missed where there is no such process."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise Missed from None


def pack_of(pid: int) -> int:
    """The process that trains the pack: the run's own, or the one that started it."""
    try:
        above = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return above if b"--pack" in Path(f"/proc/{above}/cmdline").read_bytes().split(b"\0") else pid
    except FileNotFoundError:
        raise Missed from None


def logged(scene: Scene, text: str, since: float) -> bool:
    """Whether a job has written `text` into its log; since: time in seconds."""
    logs = (scene.checkout.root / "logs" / "train").rglob("*.log")
    return any(log.stat().st_mtime >= since and text in log.read_text() for log in logs)


def stop_pack(victim: Victim) -> None:
    """kill -9 to the process that trains the victim's pack, then to all its runs, as when their machine goes down."""
    pack = pack_of(victim.pid)
    pids = [pack, *sorted({*_children(pack), victim.pid} - {pack})]
    for pid in pids:
        with contextlib.suppress(Missed):
            kill(pid)
    assert until(lambda: all(map(_ended, pids)), 60)


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        raise Missed from None
