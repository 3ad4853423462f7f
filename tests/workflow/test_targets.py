"""Jobs are named by method, data set, held-out domain and seed, and can be requested by these; each reads its part of the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.planning import planfile
from tests.planning.test_plan import MINE, OTHER
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]


def test_runs_and_packs_are_targets(checkout: Checkout) -> None:
    """A run by its path, whatever its configuration; several by the path of their folder."""
    seed = "results/runs/digits/fedprox/plain/seed0"
    assert checkout.to_train(seed) == checkout.to_train(f"./{seed}/") == ["fedprox"]
    assert checkout.to_train(str(checkout.root / "results/runs/digits/local")) == ["local"]
    assert checkout.to_train("results/runs/digits") == ["fedavg", "fedprox", "local"]
    (stamp,) = [run.stamp for run in planfile.runs(checkout.plan) if run.method == "local"]
    assert checkout.to_train(f"results/packs/{stamp}.json") == ["local"]
    for unknown in ("results/runs/digits/fedprox/plain/seed7", "results/packs/digits/fedavg/0123456789abcdef.json"):  # fmt: skip
        refused = checkout.snakemake("--dry-run", unknown)
        assert refused.returncode == 1 and f"{unknown} is not a run or a pack" in refused.stdout
        assert "MissingRuleException" not in refused.stdout and "Traceback" not in refused.stdout


def test_a_table_waits_for_the_experiment_that_its_claims_compare_with(tmp_path: Path) -> None:
    table = "results/tables/mine/table.csv"
    checkout = Checkout.made(tmp_path, {"mine": MINE, "other": OTHER}, "experiments: [mine, other]\n")
    assert checkout.to_train(table) == ["fedavg", "fedprox"]
    (checkout.root / "params.yaml").write_text("experiments: [mine]\n")
    assert checkout.to_train(table) == ["fedprox"]
