"""A cgroup that holds jobs to the memory that they asked for: one that takes more ends as OUT_OF_MEMORY."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

MEMORY = Path("/sys/fs/cgroup/memory")  # version 1: for version 2 Slurm 22.05 wants systemd
CONFIGURATION = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint={seen}
ConstrainRAMSpace=yes
"""


def why_none() -> str:
    """Why this process can make none; empty where it can."""
    if not (MEMORY / "tasks").exists():
        return f"no memory cgroup (version 1) at {MEMORY}"
    if not os.access(MEMORY / "tasks", os.W_OK):
        return "no right to make a cgroup"
    able = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    return "" if able else "no right to mount"


@dataclass(frozen=True)
class Memory:
    """A cgroup below that of this process, which so counts what jobs take; nodes see it as the whole machine's.

    seen: the folder that nodes take for the cgroups' mount point.
    """

    seen: Path

    @property
    def folder(self) -> Path:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line.split(":", 2)[2] for line in lines if line.split(":")[1] == "memory")
        return MEMORY / own.lstrip("/") / self.seen.parent.name

    @property
    def configuration(self) -> str:
        """The text of cgroup.conf."""
        return CONFIGURATION.format(seen=self.seen)

    def mount(self) -> str:
        """The command that shows it to a node."""
        self.folder.mkdir(exist_ok=True)
        (self.seen / "memory").mkdir(parents=True, exist_ok=True)
        return f"mount --bind {self.folder} {self.seen}/memory"

    def remove(self) -> None:
        """Remove what jobs have left of it. Its processes have ended."""
        if self.folder.exists():
            for folder, _, _ in os.walk(self.folder, topdown=False):
                Path(folder).rmdir()
