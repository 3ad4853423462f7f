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


def test_the_container_is_the_one_that_our_definition_builds() -> None:
    """Jobs run in it with `--sdm apptainer` only; else in the environment that snakemake runs in."""
    files = [REPOSITORY / "Snakefile", *(REPOSITORY / "workflow").rglob("*.smk")]
    lines = [line.strip() for path in files for line in path.read_text().splitlines()]
    kinds = ("conda:", "container:", "containerized:", "envmodules:")
    assert [line for line in lines if line.startswith(kinds)] == ['container: "fedshift.sif"']
    definition = (REPOSITORY / "containers" / "fedshift.def").read_text()
    assert "apptainer build fedshift.sif containers/fedshift.def" in definition
