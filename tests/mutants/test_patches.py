"""Every patch in this folder still fits the code that it breaks (whether the tests notice it: `make mutants`)."""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

HERE = Path(__file__).parent


@pytest.mark.parametrize("folder", sorted(path.name for path in HERE.iterdir() if any(path.glob("*.patch"))))
def test_patches_apply(folder: str) -> None:
    refused = {}
    for patch in sorted((HERE / folder).glob("*.patch")):
        command = ["patch", "-p1", "--fuzz=0", "--dry-run", "--batch", "-i", str(patch)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            refused[patch.name] = done.stdout
    assert not refused
