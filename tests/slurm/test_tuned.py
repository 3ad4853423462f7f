"""A tuned experiment through `snakemake --profile slurm`: the search, the choice made here, the final runs of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fedshift.planning import planfile
from tests.slurm.cluster import Cluster
from tests.slurm.results import assert_same
from tests.slurm.test_slurm import HASTE
from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.slurm
TUNED = """\
title: "Tuned"
protocol: digits
spec: {federation: {rounds: 2}, local: {epochs: 1}}
tune: {budget: 2, seeds: [100], spec: {federation: {rounds: 1}}}
methods: {fedavg: , fedprox: }
axes: {target: [texture], seed: [0]}
tables: {main: {columns: [target]}}
"""


def test_jobs_of_both_stages_train_what_one_machine_trains(cluster: Cluster, tmp_path: Path) -> None:
    """The final runs' jobs follow the plan that was made after the choice, under way."""
    here, there = (
        Checkout.made(tmp_path / name, {"tuned": TUNED}, "experiments: [tuned]\npack: 2\n")
        for name in ("here", "there")
    )
    (cluster.folder / "plans").unlink(missing_ok=True)
    here.run("all")
    done = there.snakemake("all", *HASTE, profile="slurm", **cluster.environment)
    assert done.returncode == 0, done.stdout
    assert there.choices() == here.choices() and len(there.choices()) == 1
    assert_same(here.root, there.root, searched="seed100")
    runs = planfile.runs(there.plan)
    assert Counter(run.seed for run in runs) == {100: 4, 0: 2}
    asked = {Path(line.split()[1]) for line in (cluster.folder / "plans").read_text().splitlines()}
    assert len(asked) == 2 and there.plan in asked  # the plan of the search, and that of both stages
