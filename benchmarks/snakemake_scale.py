"""Planning and `snakemake -n` for experiments of many runs: python benchmarks/snakemake_scale.py [--runs 1000 6000 30000] [--packs 1 10].

A row is one fresh project. `--first` starts snakemake for real instead (two cores), and ends it when the first pack has been trained.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

REPOSITORY = Path(__file__).parents[1]
sys.path.insert(0, str(REPOSITORY))
from tests.workflow.checkout import Checkout  # noqa: E402

EXPERIMENT = """\
title: "Scale"
protocol: digits
spec: {{federation: {{rounds: 1}}, local: {{epochs: 1}}}}
methods: {{fedavg: , fedbn: , fedprox: , scaffold: , ditto: }}
axes: {{target: [texture], seed: {seeds}}}
tables: {{main: {{columns: [target]}}}}
"""
METHODS = 5
PLAN = [sys.executable, "-m", "fedshift", "plan", "--print", "path"]
SNAKEMAKE = [sys.executable, "-m", "snakemake", "--profile", "profiles/ci", "--quiet", "all"]


class Measured(NamedTuple):
    """Seconds of wall time and of CPU, and the largest process in MB, of a command with its children."""

    wall: float
    cpu: float
    memory: int


def measure(command: list[str], root: Path) -> Measured:
    """Run a command to its end."""
    began = time.perf_counter()
    with open(root / "output", "w+") as output:
        process = subprocess.Popen(
            command, cwd=root, stdout=output, stderr=subprocess.STDOUT, env=environment()
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        if process.returncode:
            raise SystemExit(output.read()[-2000:])
    return Measured(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024)


def first_output(root: Path) -> tuple[float, float]:
    """Seconds from the start of snakemake until the first pack of runs is trained, and CPU seconds of all that ran until then;
    what is not finished then is ended.
    """
    began = time.perf_counter()
    command = [*SNAKEMAKE, "--", "metrics"]
    with open(root / "output", "w") as output:
        process = subprocess.Popen(
            command,
            cwd=root,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(),
            start_new_session=True,
        )
        packs = root / "results" / "packs"
        while not (packs.is_dir() and any(packs.glob("*.json"))):
            if process.poll() is not None:
                raise SystemExit((root / "output").read_text()[-2000:])
            time.sleep(0.05)
    seconds, cpu = time.perf_counter() - began, _cpu(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return seconds, cpu


def _cpu(pid: int) -> float:
    """CPU seconds of a process, and of all below it that live or have been waited for."""
    seconds, above = 0.0, psutil.Process(pid)
    for process in (above, *above.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])  # own, in user and system mode, and those of children
    return seconds


def environment() -> dict[str, str]:
    """Without a plan of somebody else's; with the project's own sources; without MLflow."""
    own = {"PYTHONPATH": "src", "FEDSHIFT_TRACK": "0"}
    return {key: value for key, value in os.environ.items() if key != "FEDSHIFT_PLAN"} | own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 6000])
    parser.add_argument("--packs", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--first", action="store_true", help="time until the first trained pack")
    options = parser.parse_args()
    last = "first pack after, s (CPU)" if options.first else "snakemake -n, s (CPU) | MB"
    print(f"| runs | pack | plan, s (CPU) | {last} |\n|---|---|---|{'---|' * last.count('|')}---|")
    for runs in options.runs:
        for pack in options.packs:
            with tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                text = EXPERIMENT.format(seeds=list(range(runs // METHODS)))
                Checkout.made(root, {"scale": text}, f"experiments: [scale]\npack: {pack}\n")
                plan = measure(PLAN, root)
                if options.first:
                    cells = "{:.1f} ({:.1f})".format(*first_output(root))
                else:
                    dry = measure([*SNAKEMAKE, "--dry-run", "--", "metrics"], root)
                    assert "Nothing to be done" not in (root / "output").read_text()
                    cells = f"{dry.wall:.1f} ({dry.cpu:.1f}) | {dry.memory}"
                print(f"| {runs:,} | {pack} | {plan.wall:.1f} ({plan.cpu:.1f}) | {cells} |", flush=True)


if __name__ == "__main__":
    main()
