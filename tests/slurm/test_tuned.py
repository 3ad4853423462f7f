"""A tuned experiment through `snakemake --profile slurm`: search, choice and final runs in one call."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from fedshift.planning import planfile
from tests.slurm.cluster import Cluster
from tests.slurm.results import finished, metrics
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
    ours, theirs = finished(here.root), finished(there.root)
    assert ours.keys() == theirs.keys() and len(ours) == 4 + 2
    for name, run in ours.items():  # a search keeps no weights
        pd.testing.assert_frame_equal(metrics(run), metrics(theirs[name]), check_exact=True)
    assert len(planfile.runs(there.plan, experiments=("tuned",))) == 2
