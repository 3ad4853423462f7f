"""Collecting many run directories into one file, first, with nothing new, with one new run: python benchmarks/collect.py [--runs 6000 30000].

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
tables: {{main: {{columns: [target]}}}}
"""


def fedshift(root: Path, *words: str) -> str:
    """Run a verb; its output."""
    command = [sys.executable, "-m", "fedshift", *words]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def collected(root: Path, plan: Path) -> Measured:
    """`fedshift collect`."""
    return measure([sys.executable, "-m", "fedshift", "collect", "scale", "--plan", str(plan)], root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[6000])
    parser.add_argument("--rounds", type=int, default=20)
    chosen = parser.parse_args()
    print("| runs | records | MB | first, s (CPU) | nothing new | one new run | peak MB |\n|" + "---|" * 7)
    for runs in chosen.runs:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            text = EXPERIMENT.format(rounds=chosen.rounds, seeds=list(range(runs // METHODS)))
            Checkout.made(root, {"scale": text}, "experiments: [scale]\n")
            plan = root / subprocess.check_output(PLAN, cwd=root, env=environment(), text=True).strip()
            planned = planfile.runs(plan)
            one = min(planned, key=lambda run: (run.method, run.seed))
            for verb, made in (("prepare", one.prepared), ("partition", one.partition)):
                fedshift(root, verb, "/".join(Path(made).with_suffix("").parts[2:]), "--plan", str(plan))
            fedshift(root, "train", one.digest, "--plan", str(plan))
            done = root / one.directory
            for run in planned:
                if run != one:
                    (root / run.directory).mkdir(parents=True)
                    for name in ("summary.json", "metrics.parquet"):
                        shutil.copyfile(done / name, root / run.directory / name)
            late = root / planned[runs // 2].directory / "summary.json"
            late.rename(root / "late")
            first, nothing = collected(root, plan), collected(root, plan)
            (root / "late").rename(late)
            new, path = collected(root, plan), root / "results" / "metrics" / "scale.parquet"
            records, size = pq.read_metadata(path).num_rows, path.stat().st_size / 1e6
            times = " | ".join(f"{one.wall:.1f} ({one.cpu:.1f})" for one in (first, nothing, new))
            memory = max(first.memory, nothing.memory, new.memory)
            print(f"| {runs:,} | {records:,} | {size:.0f} | {times} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
