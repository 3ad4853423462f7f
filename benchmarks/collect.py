"""Collecting many run directories, and writing a table of them: python benchmarks/collect.py [--runs 6000 30000].

The runs are copies of one that is trained for this (`--rounds`, FedAvg on digits), each under its own planned name.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))
from benchmarks.snakemake_scale import METHODS, PLAN, Measured, environment, measure  # noqa: E402
from fedshift.planning import planfile  # noqa: E402
from tests.workflow.checkout import Checkout  # noqa: E402

EXPERIMENT = """\
title: "Scale"
protocol: digits
spec: {{federation: {{rounds: {rounds}}}, local: {{epochs: 1}}}}
methods: {{fedavg: , fedbn: , fedprox: , scaffold: , ditto: }}
axes: {{target: [texture], seed: {seeds}}}
tables: {{main: {{columns: [target], metrics: [id, ood, ece.ood, balanced_accuracy.pooled]}}}}
"""


def fedshift(root: Path, *words: str) -> str:
    """Run a verb; its output."""
    command = [sys.executable, "-m", "fedshift", *words]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def measured(root: Path, *words: str) -> Measured:
    """A verb of the experiment."""
    return measure([sys.executable, "-m", "fedshift", words[0], "scale", *words[1:]], root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[6000])
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    print(
        "| runs | records | MB | sets with statistics | MB | collect, s (CPU) | table | peak MB |\n|"
        + "---|" * 8
    )
    for runs in options.runs:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            text = EXPERIMENT.format(rounds=options.rounds, seeds=list(range(runs // METHODS)))
            Checkout.made(root, {"scale": text}, "experiments: [scale]\n")
            plan = root / subprocess.check_output(PLAN, cwd=root, env=environment(), text=True).strip()
            planned = planfile.runs(plan)
            trained = min(planned, key=lambda run: (run.method, run.seed))
            for verb, path_of in (("prepare", trained.prepared), ("partition", trained.partition)):
                fedshift(root, verb, "/".join(Path(path_of).with_suffix("").parts[2:]), "--plan", str(plan))
            fedshift(root, "train", trained.digest, "--plan", str(plan))
            done = root / trained.directory
            for run in planned:
                if run != trained:
                    (root / run.directory).mkdir(parents=True)
                    for name in ("summary.json", "metrics.parquet", "statistics.parquet"):
                        shutil.copyfile(done / name, root / run.directory / name)
            steps = measured(root, "collect", "--plan", str(plan)), measured(root, "table")
            path = root / "results" / "metrics" / "scale.parquet"
            files = path, path.with_suffix(".statistics.parquet")
            sizes = " | ".join(
                f"{pq.read_metadata(file).num_rows:,} | {file.stat().st_size / 1e6:.0f}" for file in files
            )
            times = " | ".join(f"{step.wall:.1f} ({step.cpu:.1f})" for step in steps)
            print(f"| {runs:,} | {sizes} | {times} | {max(step.memory for step in steps)} |", flush=True)


if __name__ == "__main__":
    main()
