"""The finding of a check, and how checks run programs."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["ok", "absent", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One line of the examination.

    Attributes:
        part: what is looked at.
        state: "ok" (there), "absent" (not there, not needed) or "wrong" (broken, or needed and not there).
        text: the state in words.
        cure: what to do about it.
    """

    part: str
    state: State
    text: str
    cure: str = ""


def output_of(*command: str, cwd: Path | None = None) -> str | None:
    """What a command prints; None where it fails, hangs or is not there."""
    try:
        wide = {**os.environ, "COLUMNS": "10000"}  # some programs break long lines
        done = subprocess.run(
            command, cwd=cwd, env=wide, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def words(path: str) -> list[str]:
    """The words of a file; none where there is none."""
    file = Path(path)
    return file.read_text().split() if file.is_file() else []
