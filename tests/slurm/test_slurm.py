"""The small experiment through `snakemake --profile slurm`, on a real Slurm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedshift.planning import planfile
from tests.slurm.cluster import Cluster
from tests.slurm.results import assert_same, finished
from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.slurm
HASTE = ["--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "5"]
EXPERIMENT = """\
title: "Small"
protocol: digits
spec: {federation: {rounds: 3}, local: {epochs: 1}}
methods: {fedavg: , fedbn: , scaffold: }
axes: {target: [texture], seed: [0, 1]}
tables: {main: {columns: [target]}}
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The small experiment, trained on this machine one run after the other."""
    made = Checkout.made(tmp_path_factory.mktemp("local"), {"demo": EXPERIMENT}, "experiments: [demo]\n")
    made.run("metrics")
    return made


def test_dry_run_needs_no_slurm(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "which"):
        (programs / name).symlink_to(shutil.which(name) or "")
    clone = Checkout.made(tmp_path, {"demo": EXPERIMENT}, "experiments: [demo]\npack: 2\n")
    done = clone.snakemake("--dry-run", profile="slurm", PATH=str(programs))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("rule train:") == 3


def test_slurm_trains_the_same_numbers(cluster: Cluster, local: Checkout, tmp_path: Path) -> None:
    """Packs of two, both at once: other processes, other nodes, the same weights and metrics."""
    there = Checkout.made(tmp_path, {"demo": EXPERIMENT}, "experiments: [demo]\npack: 2\nparallel: 2\n")
    shutil.copy(there.root / "slurm" / "cluster.example.yaml", there.root / "slurm" / "cluster.yaml")
    done = there.snakemake("metrics", *HASTE, profile="slurm", **cluster.environment)
    assert done.returncode == 0, done.stdout
    assert len(finished(there.root)) == 6
    assert_same(local.root, there.root)
    environments = [
        json.loads((run / "environment.json").read_text()) for run in finished(there.root).values()
    ]
    assert {environment["threads"] for environment in environments} == {1}
    told = [line.split() for line in (cluster.folder / "plans").read_text().splitlines()]
    assert {Path(plan) for _, plan in told} == {there.plan}
    assert len({job for job, _ in told}) == 4  # three packs and the images
    assert len(list((there.root / "results" / "plan").glob("*.db"))) == 1  # no job made a plan of its own
    assert all(planfile.outcome(there.root, run)[0] == "finished" for run in planfile.runs(there.plan))
