"""Which experiments must be collected before the claims of another are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.experiments.load import available, load
from fedshift.planning import planfile
from fedshift.planning.plan import compared, plan
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

REAL = Workspace(ROOT)
MINE = """\
title: Mine
protocol: digits
methods: {fedprox: }
axes: {target: [plain], seed: [0]}
claims:
  SF-C18.1:
    metric: ood
    rows: {StableFDG (larger size): fedprox, StableFDG (smaller size): {row: fedavg, experiment: other}}
"""
OTHER = """\
title: Other
protocol: digits
methods: {fedavg: }
axes: {target: [plain], seed: [0]}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.yaml").write_text(MINE)
    (tmp_path / "experiments" / "other.yaml").write_text(OTHER)
    return Workspace(tmp_path)


def test_claims_that_name_another_experiment(workspace: Workspace) -> None:
    both = planfile.load(plan(workspace, Request(("mine", "other")))).compared
    assert both == {"mine": ["other"]}
    assert planfile.load(plan(workspace, Request(("mine",)))).compared == {}


def test_claims_on_two_printed_tables() -> None:
    """As the claims themselves are made: every cell of another experiment is of one of these."""
    from fedshift.analysis.claims.comparison import comparisons

    names = [name for name in available(REAL) if name.startswith("stablefdg/table")]
    experiments = [load(REAL, name) for name in names]
    pairs = {*compared(REAL, experiments)}
    used = {
        (one.name, cell.experiment)
        for one in experiments
        for comparison in comparisons(REAL, one)
        for cell in comparison.cells
        if cell.experiment not in (one.name, "stablefdg/figure4")
    }
    assert used and used == pairs
