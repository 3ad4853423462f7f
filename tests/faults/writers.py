"""Who writes into run directories, in which order: told by the kernel, not by the runs."""

import ctypes
import itertools
import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path

IN_MOVED_FROM, IN_Q_OVERFLOW = 0x40, 0x4000
EVENT = struct.Struct("iIII")
TEMPORARY = re.compile(r"\.(?P<file>.+)\.(?P<pid>\d+)\.tmp")


class Writers:
    """Every file of a run is written under a temporary name that holds the process id, then renamed: renamings are watched."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.notices = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watched: dict[int, Path] = {}
        self.order: dict[Path, list[int]] = {}

    def watch(self, runs: Iterable[Path]) -> None:
        """Watch these run directories, too."""
        for run in runs:
            for folder in (run, run / "segments", run / "weights"):
                folder.mkdir(parents=True, exist_ok=True)
                number = self.libc.inotify_add_watch(self.notices, os.fsencode(folder), IN_MOVED_FROM)
                assert number >= 0, os.strerror(ctypes.get_errno())
                self.watched[number] = run

    def read(self) -> None:
        """Take what the kernel has noticed since the last time."""
        while True:
            try:
                data = os.read(self.notices, 1 << 16)
            except BlockingIOError:
                return
            while data:
                number, mask, _, size = EVENT.unpack_from(data)
                name, data = data[EVENT.size : EVENT.size + size].rstrip(b"\0"), data[EVENT.size + size :]
                assert not mask & IN_Q_OVERFLOW, "notices were lost"
                if found := TEMPORARY.fullmatch(name.decode()):
                    self.order.setdefault(self.watched[number], []).append(int(found["pid"]))

    def count(self) -> int:
        """How many processes wrote, all runs together. Raises AssertionError where one wrote again after another had begun."""
        self.read()
        blocks = {run: [pid for pid, _ in itertools.groupby(order)] for run, order in self.order.items()}
        for run, pids in blocks.items():
            assert len(pids) == len(set(pids)), f"two writers at once on {run}: {pids}"
        return sum(map(len, blocks.values()))

    def close(self) -> None:
        os.close(self.notices)
