"""Snakemake's own linter on the workflow as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflow.checkout import Checkout, tiny

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_snakemake_lint_misses_software_environments_alone(tmp_path: Path) -> None:
    """It wants one for each rule; jobs run in the environment that snakemake runs in, which `make setup` builds."""
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"],
        cwd=made.root,
        capture_output=True,
        text=True,
        check=False,
    )
    lints = {line.strip() for line in done.stderr.splitlines() if line.startswith("    * ")}
    assert lints == {"* Specify a conda environment or container for each rule.:"}, done.stderr


def test_no_rule_names_software_that_nothing_builds() -> None:
    files = [REPOSITORY / "Snakefile", *(REPOSITORY / "workflow").rglob("*.smk")]
    lines = [line.strip() for path in files for line in path.read_text().splitlines()]
    kinds = ("conda:", "container:", "containerized:", "envmodules:")
    assert not [line for line in lines if line.startswith(kinds)]
