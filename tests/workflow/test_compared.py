"""What is judged beside another experiment waits for it, where both are asked for."""

from __future__ import annotations

import pytest

from tests.planning.test_plan import MINE, OTHER
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
TABLE = "results/tables/mine/table.csv"


def test_a_table_waits_for_the_experiment_that_its_claims_compare_with(tmp_path) -> None:
    checkout = Checkout.made(tmp_path, {"mine": MINE, "other": OTHER}, "experiments: [mine, other]\n")
    assert checkout.to_train(TABLE) == ["fedavg", "fedprox"]
    (checkout.root / "params.yaml").write_text("experiments: [mine]\n")
    assert checkout.to_train(TABLE) == ["fedprox"]
