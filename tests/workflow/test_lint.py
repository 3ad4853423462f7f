"""Snakemake's own linter on the workflow as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.checkout import Checkout, tiny

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_snakemake_lint_finds_nothing(tmp_path: Path) -> None:
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"],
        cwd=made.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "    * " not in done.stderr, done.stderr
