"""Profiles for other schedulers: Snakemake and the executor's plugin take them, and each says whether it was tried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.workflow.checkout import Checkout, tiny

PROFILES = sorted(path.parent.relative_to(ROOT) for path in ROOT.glob("profiles/*/config.yaml"))
TRIED = re.compile(r"^# (Tried|Not tried) ", re.MULTILINE)
HERE = ("ci", "local")  # used by tests and by everybody


@pytest.mark.workflow
@pytest.mark.slow
def test_a_dry_run_takes_lsf(tmp_path: Path) -> None:
    """The others submit real jobs: tests/workflow/test_submitted.py, tests/slurm."""
    checkout = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    done = checkout.snakemake("--dry-run", "all", profile="profiles/lsf")
    assert done.returncode == 0, done.stdout
    (asked,) = re.findall(r"^rule train:\n(?:    .*\n)*?    resources: (.*)", done.stdout, re.MULTILINE)
    assert (
        "gpu=1" in asked and "runtime=" in asked and "mem_mb=" in asked
    )  # of slurm/params.yaml: device: cuda
    assert "lsf_extra=-gpu num=1" in asked


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.name)
def test_it_says_whether_it_was_tried_and_the_page_agrees(profile: Path) -> None:
    if profile.name in HERE:
        return
    (said,) = TRIED.findall((ROOT / profile / "config.yaml").read_text())
    page = (ROOT / "docs" / "cluster.md").read_text()
    (row,) = re.findall(rf"^\| `{profile.as_posix()}` \|.*$", page, re.MULTILINE)
    assert f"| {said.lower()}" in row
