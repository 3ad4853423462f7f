"""Jobs are named by method, data set, held-out domain and seed, and can be requested by these; each reads its part of the plan."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest

from fedshift.planning import planfile
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


def test_a_dry_run_names_method_data_set_domain_and_seed(checkout: Checkout) -> None:
    told = checkout.snakemake("--dry-run", "metrics", profile="profiles/local").stdout
    assert "fedprox on digits, held out: plain, seed 0" in told, told
    assert "train\\ndataset: digits\\nmethod: fedprox\\npack: " in checkout.run("metrics", "--dag")
    assert "unlisted" not in checkout.run("--list-rules")


def test_a_job_of_a_cluster_reads_its_own_pack_of_the_plan(checkout: Checkout) -> None:
    """Its memory does not grow with the plan: here one with 120 MB of other packs."""
    checkout.run("--dry-run", "metrics")
    run = planfile.runs(checkout.plan)[0]
    (checkout.root / run.prepared).mkdir(parents=True, exist_ok=True)
    job = [sys.executable, "-m", "snakemake", "--profile", "none", "--cores", "1", "--mode", "remote", "--dry-run"]  # fmt: skip
    job += ["--target-jobs", f"train:dataset={run.dataset},method={run.method},pack={run.pack}"]
    environment = {**os.environ, "FEDSHIFT_PLAN": str(checkout.plan.absolute())}

    def peak() -> float:
        """Peak memory of the job's Snakemake in MB."""
        process = subprocess.Popen(job, cwd=checkout.root, env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        assert status == 0
        return used.ru_maxrss / 1024

    before = peak()
    with sqlite3.connect(checkout.plan) as database:
        database.execute(
            "WITH RECURSIVE other(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM other LIMIT 30000) INSERT INTO runs "
            "SELECT n, code, directory, dataset, method, target, seed, printf('%.4000c', 'x'), 'other', rounds, images, "
            "minutes, mem_mb, disk_mb, prepared, partition, kept_mb FROM other, (SELECT * FROM runs LIMIT 1)"
        )
    assert peak() < before + 30
