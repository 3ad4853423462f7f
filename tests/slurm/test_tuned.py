"""A tuned experiment through `snakemake --profile slurm`: search, choice and final runs in one call."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.planning import planfile
from tests.slurm.cluster import Cluster
from tests.slurm.results import assert_same, finished
from tests.slurm.test_slurm import HASTE
from tests.workflow.checkout import TUNED, Checkout

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1800)]


def test_slurm_chooses_and_trains_the_same(cluster: Cluster, tmp_path: Path) -> None:
    here = Checkout.made(tmp_path / "here", {"tuned": TUNED}, "experiments: [tuned]\n")
    there = Checkout.made(tmp_path / "there", {"tuned": TUNED}, "experiments: [tuned]\n")
    here.run("all")
    done = there.snakemake("all", *HASTE, profile="slurm", **cluster.environment)
    assert done.returncode == 0, done.stdout
    assert there.choices() == here.choices() and len(there.choices()) == 1
    assert_same(here.root, there.root)
    final = planfile.runs(there.plan, experiments=("tuned",))
    assert len(finished(there.root)) == 4 + 2 and len(final) == 2
    # The final runs were sent with the plan that the choice made, the search with the one before it.
    plans = {line.split()[1] for line in (cluster.folder / "plans").read_text().splitlines()}
    assert {Path(plan) for plan in plans if str(there.root) in plan} >= {there.plan}
    tables = [(root / "results/tables/tuned/table.csv").read_text() for root in (here.root, there.root)]
    assert tables[0] == tables[1]
