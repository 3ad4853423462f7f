"""What other programs print. Standard library only: the Snakefile needs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PATIENCE = 15.0  # seconds for an answer


def answer_of(*command: str, cwd: Path | None = None, patience: float = PATIENCE) -> str | None:
    """What a command prints; None where it fails, hangs or is not there."""
    wide = {**os.environ, "COLUMNS": "10000"}  # some programs break long lines
    try:
        done = subprocess.run(
            command, cwd=cwd, env=wide, capture_output=True, text=True, timeout=patience, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
