"""Seconds and memory of `snakemake -n` for experiments of many runs: python benchmarks/snakemake_scale.py [--runs 1000 6000 30000]."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))
from tests.workflow.checkout import Checkout  # noqa: E402

EXPERIMENT = """\
title: "Scale"
protocol: digits
methods: {{fedavg: , fedbn: , fedprox: , scaffold: , ditto: }}
axes: {{target: [texture], seed: {seeds}}}
tables: {{main: {{columns: [target]}}}}
"""
METHODS = 5


def measure(command: list[str], root: Path) -> tuple[float, float, int, str]:
    """Seconds of wall time and of CPU, and the largest process in MB, of one command and its children; its output."""
    began = time.perf_counter()
    with open(root / "output", "w+") as output:
        process = subprocess.Popen(
            command, cwd=root, stdout=output, stderr=subprocess.STDOUT, env=_environment()
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise SystemExit(text[-2000:])
    wall = time.perf_counter() - began
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, text


def _environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "FEDSHIFT_PLAN"} | {
        "PYTHONPATH": str(REPOSITORY / "src")
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 6000])
    parser.add_argument("--packs", type=int, nargs="+", default=[1, 10])
    chosen = parser.parse_args()
    print("| runs | pack | plan, s (CPU) | snakemake -n, s (CPU) | MB |\n|---|---|---|---|---|")
    for runs in chosen.runs:
        for pack in chosen.packs:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                text = EXPERIMENT.format(seeds=list(range(runs // METHODS)))
                Checkout.made(root, {"scale": text}, f"experiments: [scale]\npack: {pack}\n")
                plan = measure([sys.executable, "-m", "fedshift", "plan", "--print", "path"], root)
                dry = [
                    sys.executable,
                    "-m",
                    "snakemake",
                    "--profile",
                    "profiles/ci",
                    "-n",
                    "--quiet",
                    "all",
                    "--",
                    "metrics",
                ]
                wall, cpu, memory, output = measure(dry, root)
                assert "Nothing to be done" not in output
                print(
                    f"| {runs} | {pack} | {plan[0]:.1f} ({plan[1]:.1f}) | {wall:.1f} ({cpu:.1f}) | {memory} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
