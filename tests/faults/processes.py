"""Which processes belong to a folder."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def of_folder(folder: Path) -> dict[int, str]:
    """Processes that work in `folder` or whose command or environment names it: process id to command."""
    named = os.fsencode(folder)
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                where = os.fsencode(os.readlink(entry / "cwd"))
                if named in command or named in where or named in (entry / "environ").read_bytes():
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode()
    return found


def end_all(folder: Path) -> None:
    """Kill what belongs to `folder`."""
    for pid in of_folder(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait until `condition` holds; False where it does not within `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True
