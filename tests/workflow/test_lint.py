"""Snakemake's own linter on the workflow as it is."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from tests.workflow.checkout import Checkout, tiny

REPOSITORY = Path(__file__).parents[2]


def test_snakemake_lint_has_nothing_to_say(tmp_path: Path) -> None:
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"],
        cwd=made.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Lints for" not in done.stdout + done.stderr
    assert "good condition" in done.stderr


def test_no_rule_names_software_that_nothing_builds() -> None:
    """Jobs run in the environment that snakemake runs in; `make setup` builds it."""
    files = [REPOSITORY / "Snakefile", *(REPOSITORY / "workflow").rglob("*.smk")]
    lines = [line.strip() for path in files for line in path.read_text().splitlines()]
    assert not [line for line in lines if line.startswith(("container:", "containerized:", "envmodules:"))]
    named = [following for line, following in itertools.pairwise(lines) if line == "conda:"]
    assert set(named) == {"active_environment"}
