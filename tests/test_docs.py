"""Pages that are made from the code are up to date."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT


def test_generated_pages_are_up_to_date() -> None:
    command = [sys.executable, "docs/generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
