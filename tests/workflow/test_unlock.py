"""`snakemake --unlock` frees the folder of a snakemake that was killed, and plans nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedshift.common.files import hold
from tests.workflow.checkout import Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


def test_locks_go_and_no_plan_is_made(tmp_path: Path) -> None:
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    locks = made.root / ".snakemake" / "locks"
    locks.mkdir(parents=True)
    (locks / "0.input.lock").write_text("results/metrics/demo.parquet\n")
    made.run("--unlock")
    assert not [*made.root.rglob("*.lock")] and not (made.root / "results").exists()


def test_locks_of_a_process_that_was_killed_go_and_those_of_another_stay(tmp_path: Path) -> None:
    """Snakemake's locks name no process: all that its LockException could say was `--unlock`."""
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    lock = made.root / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("results/metrics/demo.parquet\n")
    works = made.root / ".snakemake" / "fedshift" / "other.json"
    works.parent.mkdir()
    file = hold(works)
    assert file is not None
    output = made.run("--dry-run")
    assert f"process {os.getpid()} on " in output and "fedshift run demo -- --unlock" in output
    assert lock.is_file() and works.is_file()
    os.close(file)
    assert "Another Snakemake" not in made.run("--dry-run")
    assert not lock.exists() and not works.exists()
