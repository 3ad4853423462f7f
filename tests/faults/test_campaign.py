"""A sample of the fault campaign, other faults for every commit; `make faults` plays it at length."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.campaign import campaign
from tests.faults.scene import IN_PEACE, undisturbed
from tests.workflow.checkout import REPOSITORY, Checkout

pytestmark = pytest.mark.faults
FAULTS = 3
ROUNDS = 10


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The experiment, left in peace."""
    checkout = Checkout.made(tmp_path_factory.mktemp("calm"), {}, IN_PEACE)
    undisturbed(checkout, ROUNDS, 1)
    return checkout


@pytest.fixture(scope="module")
def seed() -> int:
    """Of the commit; FEDSHIFT_FAULT_SEED plays another one, or one again: the campaign prints it."""
    if given := os.environ.get("FEDSHIFT_FAULT_SEED"):
        return int(given)
    command = ["git", "rev-parse", "--short=6", "HEAD"]
    head = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True, check=False)
    return int(head.stdout[:6] or "0", 16)


def test_faults_change_no_number(seed: int, calm: Checkout, tmp_path: Path) -> None:
    assert campaign(tmp_path, calm, ROUNDS, seed, FAULTS).total() == FAULTS
