"""Two seeds of the fault campaign, one of them on Slurm; `make faults` plays it at length."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.scene import PARAMETERS, undisturbed
from tests.slurm.cluster import require_slurm
from tests.workflow.checkout import REPOSITORY, Checkout

pytestmark = pytest.mark.faults
FAULTS = 3
ROUNDS = 12


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The experiment, left in peace."""
    checkout = Checkout.made(tmp_path_factory.mktemp("calm"), {}, PARAMETERS)
    undisturbed(checkout, ROUNDS, 1)
    return checkout


def seed_of_the_commit() -> int:
    """Another one for each commit; FEDSHIFT_FAULT_SEED, or `make faults SEED=n`, plays one again."""
    if seed := os.environ.get("FEDSHIFT_FAULT_SEED"):
        return int(seed)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=REPOSITORY, text=True, capture_output=True, check=False
    )
    return int(head.stdout[:6] or "0", 16)


def test_faults_change_no_number(calm: Checkout, tmp_path: Path) -> None:
    assert campaign(tmp_path, calm, ROUNDS, seed_of_the_commit(), FAULTS, slurm=False).total() == FAULTS


def test_faults_of_slurm_change_no_number(calm: Checkout, tmp_path: Path) -> None:
    require_slurm()
    assert campaign(tmp_path, calm, ROUNDS, 4, FAULTS, slurm=True).total() == FAULTS
