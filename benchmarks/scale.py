"""What each verb costs at thousands of finished runs: python benchmarks/scale.py [--runs 6000 30000] [--verbs plan status ..].

A row is a process of its own, as a user starts it, one after the other in one fresh project. One run a method is trained (`--rounds`);
all others are hard links to its records and statistics, each with a summary of its own under its own planned name.
Four held-out domains, `--rates` learning rates, and as many seeds as make up the number of runs. Before `gc` a method is taken out of the experiment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))
from snakemake_scale import METHODS, PLAN, environment, measure  # noqa: E402

from fedshift.planning import planfile  # noqa: E402
from fedshift.planning.planfile import Run  # noqa: E402
from tests.workflow.checkout import Checkout  # noqa: E402

EXPERIMENT = """\
title: "Scale"
protocol: digits
spec: {{data: {{prepare: {{px: 16}}, input_px: 16}}, federation: {{rounds: {rounds}}}, local: {{epochs: 1}}}}
methods: {{fedavg: , fedbn: , fedprox: , scaffold: , ditto: }}
axes: {{target: {targets}, lr: {{key: local.lr, values: {rates}}}, seed: {seeds}}}
tables:
  main: {{columns: [target], metrics: [id, ood, ece.ood, balanced_accuracy.pooled]}}
  rates: {{columns: [target, lr], metrics: [ood]}}
"""
TARGETS = ["plain", "ink", "texture", "outline"]
RECORDS = ("metrics.parquet", "statistics.parquet")
VERBS = {  # name in the table -> what a user writes
    "plan": ["plan"],
    "status": ["status"],
    "collect": ["collect", "scale"],
    "table": ["table", "scale"],
    "figure": ["figure", "scale"],
    "report": ["report"],
    "track": ["track"],
    "track again": ["track"],
    "gc": ["gc", "--unused"],
    "gc --delete": ["gc", "--unused", "--delete"],
}


def fedshift(root: Path, *words: str) -> None:
    """Run a verb."""
    command = [sys.executable, "-m", "fedshift", *words]
    done = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def experiment(runs: int, rates: int, rounds: int) -> str:
    """The text of an experiment of so many runs."""
    seeds = max(1, round(runs / (METHODS * len(TARGETS) * rates)))
    values = [round(0.01 * (place + 1), 4) for place in range(rates)]
    return EXPERIMENT.format(rounds=rounds, targets=TARGETS, rates=values, seeds=list(range(seeds)))


def finish(root: Path, plan: Path) -> None:
    """Train one run of each method, and finish all others like it; of partitions there are those of these runs, and those of the
    first seed, which a report shows.
    """
    planned = planfile.runs(plan)
    trained = {run.method: run for run in planned}
    for verb, paths in (
        ("prepare", [planned[0].prepared]),
        ("partition", list({run.partition for run in planned if run.seed == planned[0].seed})),
    ):
        names = ["/".join(Path(path).with_suffix("").parts[2:]) for path in paths]
        fedshift(root, verb, *names, "--plan", str(plan))
    fedshift(root, "train-pack", *(run.digest for run in trained.values()), "--plan", str(plan))
    for run in planned:
        if run is not trained[run.method]:
            _finish_like(root, run, root / trained[run.method].directory)


def _finish_like(root: Path, run: Run, like: Path) -> None:
    directory, spec = root / run.directory, json.loads(run.spec)
    directory.mkdir(parents=True)
    own = {"spec": spec, "seed": run.seed, "digest": run.digest, "method_code": run.code}
    (directory / "summary.json").write_text(json.dumps(json.loads((like / "summary.json").read_text()) | own))
    (directory / "spec.json").write_text(run.spec)
    for name in RECORDS:
        os.link(like / name, directory / name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, nargs="+", default=[6000])
    parser.add_argument("--rates", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=[*VERBS])
    parser.add_argument(
        "--keep", type=Path, help="leave the project in this new folder, without what verbs wrote"
    )
    options = parser.parse_args()
    print("| runs | verb | wall, s | CPU, s | MB at the highest |\n|---|---|---|---|---|")
    for runs in options.runs:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            texts = {"scale": experiment(runs, options.rates, options.rounds)}
            Checkout.made(root, texts, "experiments: [scale]\n")
            first = measure(PLAN, root)
            print(
                f"| {runs:,} | plan, nothing finished | {first.wall:.1f} | {first.cpu:.1f} | {first.memory} |",
                flush=True,
            )
            finish(root, root / (root / "output").read_text().strip())
            if options.keep:
                shutil.copytree(root, options.keep / str(runs), copy_function=os.link)
            for verb in options.verbs:
                if verb == "gc":  # without FedProx a fifth of the runs is left over
                    path = root / "experiments" / "scale.yaml"
                    path.write_text(path.read_text().replace("fedprox: ,", ""))
                step = measure([sys.executable, "-m", "fedshift", *VERBS[verb]], root)
                print(f"| {runs:,} | {verb} | {step.wall:.1f} | {step.cpu:.1f} | {step.memory} |", flush=True)
            path = root / "results" / "metrics" / "scale.parquet"
            for file in path, path.with_suffix(".statistics.parquet"):
                if file.is_file():
                    rows, size = pq.read_metadata(file).num_rows, file.stat().st_size / 1e6
                    print(f"{file.name}: {rows:,} rows, {size:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
