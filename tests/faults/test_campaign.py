"""Two seeds of the fault campaign, one of them on Slurm; `make faults` plays it at length."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.scene import IN_PEACE, undisturbed
from tests.slurm.cluster import require_slurm
from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.faults
FAULTS = 3
ROUNDS = 10


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The experiment, left in peace."""
    checkout = Checkout.made(tmp_path_factory.mktemp("calm"), {}, IN_PEACE)
    undisturbed(checkout, ROUNDS, 1)
    return checkout


@pytest.mark.parametrize("seed", [0])  # others: make faults SEED=n
def test_faults_change_no_number(seed: int, calm: Checkout, tmp_path: Path) -> None:
    assert campaign(tmp_path, calm, ROUNDS, seed, FAULTS, slurm=False).total() == FAULTS


def test_faults_of_slurm_change_no_number(calm: Checkout, tmp_path: Path) -> None:
    require_slurm()
    assert campaign(tmp_path, calm, ROUNDS, 4, FAULTS, slurm=True).total() == FAULTS
