"""A metric is added to finished runs in real snakemake: nothing is trained, the table shows it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.documents import python_block
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
TABLE = "results/tables/demo/table.csv"


def runs(checkout: Checkout) -> dict[Path, int]:
    return {
        path: path.stat().st_mtime_ns for path in checkout.root.glob("results/runs/**/*") if path.is_file()
    }


def test_a_new_metric_trains_nothing(finished: Checkout) -> None:
    """The file that docs/extend.md prints."""
    before = runs(finished)
    assert {path.name for path in before} >= {"summary.json", "statistics.parquet"}
    (finished.root / "src/fedshift/analysis/metrics/overconfidence.py").write_text(
        python_block("extend.md", "class Overconfidence(")
    )
    finished.edit(
        "experiments/demo.yaml",
        "{columns: [target]}",
        "{columns: [target], metrics: [ood, overconfidence.ood, ece.worst]}",
    )
    assert finished.to_train(TABLE) == []
    output = finished.run(TABLE)
    assert "rule train:" not in output and "rule table:" in output
    table = pd.read_csv(finished.root / TABLE).set_index(["method", "metric"])["mean"]
    assert {metric for _, metric in table.index} == {"ood", "overconfidence.ood", "ece.worst"}
    assert table.notna().all() and table[("fedavg", "ece.worst")] >= 0
    assert runs(finished) == before
    assert finished.to_train("all") == []
