"""Five seeds of the fault campaign; `make faults` plays it at length, on Slurm too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import RUNS, made, play
from tests.slurm.results import assert_same, finished
from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.faults
FAULTS = 3
ROUNDS = 30


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The experiment, left in peace."""
    checkout = made(tmp_path_factory.mktemp("calm"), ROUNDS)
    checkout.run("metrics")
    return checkout


@pytest.mark.parametrize("seed", range(5))
def test_faults_change_no_number(seed: int, calm: Checkout, tmp_path: Path) -> None:
    fired = made(tmp_path, ROUNDS)
    assert sum(play(fired, seed, FAULTS).values()) == FAULTS
    assert len(finished(calm.root)) == RUNS
    assert_same(calm.root, fired.root)
