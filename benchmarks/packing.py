"""Wall time of small runs in one pack, k of them at once, against one job each: python benchmarks/packing.py [--runs 12] [--rounds 5].

Each row is the same runs from nothing through real snakemake, images prepared and planned beforehand; each run has one thread.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))
from fedshift.planning import planfile  # noqa: E402
from tests.workflow.checkout import Checkout  # noqa: E402

EXPERIMENT = """\
title: "Packing"
protocol: digits
spec: {{federation: {{rounds: {rounds}}}, local: {{epochs: 1}}, evaluation: {{every: 5}}}}
methods: {{fedavg: }}
axes: {{target: [texture], seed: {seeds}}}
tables: {{main: {{columns: [target]}}}}
"""


def measure(checkout: Checkout, pack: int, parallel: int, cores: int) -> float:
    """Seconds that all runs take in this layout."""
    for name in ("results", ".snakemake"):
        shutil.rmtree(checkout.root / name, ignore_errors=True)
    (checkout.root / "params.yaml").write_text(f"experiments: [demo]\npack: {pack}\nparallel: {parallel}\n")
    checkout.run("--dry-run", "metrics")
    packs = sorted({f"results/packs/{run.stamp}.json" for run in planfile.runs(checkout.plan)})
    began = time.monotonic()
    checkout.run("--cores", str(cores), *packs)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    layouts = {
        "one job a run, one after the other": (1, 1, 1),
        "one job a run, two jobs at once": (1, 1, 2),
        "one pack, one run at a time": (options.runs, 1, 1),
        "one pack, two at once": (options.runs, 2, 2),
        "one pack, four at once": (options.runs, 4, 4),
    }
    with tempfile.TemporaryDirectory() as folder:
        text = EXPERIMENT.format(rounds=options.rounds, seeds=list(range(options.runs)))
        checkout = Checkout.made(Path(folder, "project"), {"demo": text}, "experiments: [demo]\n")
        checkout.run("partitions")
        print(f"{options.runs} runs of {options.rounds} rounds | seconds\n---|---")
        for name, (pack, parallel, cores) in layouts.items():
            print(f"{name} | {measure(checkout, pack, parallel, cores):.1f}", flush=True)


if __name__ == "__main__":
    main()
