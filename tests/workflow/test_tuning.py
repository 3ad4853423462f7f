"""A tuned experiment by the commands of docs/tuning.md: its search, the choice, the final runs of what was chosen."""

from __future__ import annotations

import pandas as pd
import pytest

from fedshift.experiments.tuning import read_choice
from fedshift.planning import planfile
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]
# experiments/demo_tuned.yaml with fewer methods, targets and rounds: four runs of the search, two final ones.
TUNED = """\
title: "Tuned"
protocol: digits
spec: {federation: {rounds: 1}, local: {epochs: 1}}
tune: {budget: 2, seeds: [100]}
methods: {fedavg: , fedbn: }
axes: {target: [plain], seed: [0]}
tables: {main: {columns: [target]}}
"""


def test_search_choose_and_train(tmp_path_factory: pytest.TempPathFactory) -> None:
    checkout = Checkout.made(tmp_path_factory.mktemp("tuned"), {"tuned": TUNED}, "experiments: [tuned]\n")
    workspace = Workspace(checkout.root)
    told = checkout.snakemake("all")
    assert told.returncode == 1 and "fedshift run tuned.tuning, then fedshift tune tuned" in told.stdout

    checkout.run("all", "--config", "experiments=[tuned.tuning]")
    assert {run.seed for run in planfile.runs(checkout.plan)} == {100}
    assert "Nothing to be done" in checkout.run("--dry-run", "all", "--config", "experiments=[tuned.tuning]")
    checkout.python("-m", "fedshift", "tune", "tuned")
    first = workspace.tuned("tuned").read_bytes()
    searched = pd.read_csv(workspace.tables("tuned") / "searched.csv")
    best = searched.loc[searched.groupby("method")["validation"].idxmax()]
    assert len(searched) == 4 and best["chosen"].all() and searched["chosen"].sum() == 2

    checkout.run("all")
    assert (workspace.tables("tuned") / "table.csv").stat().st_size
    chosen = {one.row: one.values["local.lr"] for one in read_choice(workspace, "tuned").chosen}
    specs = [RunSpec.model_validate_json(run.spec) for run in planfile.runs(checkout.plan)]
    assert {spec.method.name: spec.local.lr for spec in specs} == chosen
    assert {spec.seed for spec in specs} == {0}
    checkout.python("-m", "fedshift", "tune", "tuned")
    assert workspace.tuned("tuned").read_bytes() == first
    assert "Nothing to be done" in checkout.run("--dry-run", "all")
