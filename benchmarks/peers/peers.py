"""Seconds of a FedAvg round in fedshift, in a bare PyTorch loop and in other frameworks, on the same work.

PACS at 32 px (`--px`), photo held out, a client for each other domain; hFedF's network, 2 epochs of Adam on batches of 64,
no augmentation; after each round the global model is evaluated on the three validation sets and on photo. All on
one thread, each in a process of its own, one at a time; every turn plays all rows once, and a row's ratio is the
median over turns of its seconds beside the bare loop's in fp32 of the same turn. The first round of a process is
not counted. Every framework gets the images decoded and in memory, which is kinder than most examples of theirs.

A framework is played from its own installation, with the interpreter that has it and torch:

    python benchmarks/peers/peers.py --flower ~/flower/bin/python --flgo ~/flgo/bin/python

Images come from FEDSHIFT_SHARED (default ../shared).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from round import ROOT, TARGET, declared
from work import MARK, Work

from fedshift.data.fetch import fetch
from fedshift.data.partition import partition
from fedshift.data.prepare import prepare
from fedshift.spec.settings import Prepare
from fedshift.storage.workspace import Workspace

HERE = Path(__file__).parent
BARE = "bare loop, fp32"


@dataclass
class Job:
    """What one process did: seconds to the first round, seconds of the counted rounds, the most memory of all its
    processes, and the accuracies at the end."""

    start: float
    rounds: list[float]
    gigabytes: float
    accuracies: dict[str, float]

    @property
    def seconds(self) -> float:
        return median(self.rounds)


def rows(options: argparse.Namespace) -> dict[str, list[str]]:
    """The rows that can be played: interpreter, script and arguments of each."""
    chosen = {BARE: [sys.executable, "of_bare.py", "fp32"]}
    chosen["fedshift, fp32"] = [sys.executable, "of_ours.py", "fp32"]
    if options.bf16:
        chosen["fedshift, bf16"] = [sys.executable, "of_ours.py", "bf16"]
    if options.flower:
        chosen["Flower, simulation"] = [options.flower, "of_flower.py"]
    if options.flgo:
        chosen["FLGo"] = [options.flgo, "of_flgo.py"]
    return chosen


def prepared(folder: Path, px: int, rounds: int) -> Work:
    """Prepare PACS below the folder, and write the same images and division for the frameworks."""
    workspace, spec = Workspace(folder), declared(px, rounds, "fp32", augment="none", input_px=px)
    shared = Path(os.environ.get("FEDSHIFT_SHARED", ROOT.parent / "shared"))
    fetch(workspace, "pacs", source=shared / "data" / "pacs")
    prepare(workspace, "pacs", options=Prepare(px=px))
    partition(workspace, spec)
    images = workspace.prepared(spec.data.prepared_name)
    index = pd.read_parquet(images / "index.parquet")
    np.save(folder / "images.npy", np.load(images / "images.npy").transpose(0, 3, 1, 2).copy())
    np.save(folder / "labels.npy", index["label"].to_numpy("int64"))
    divided = pd.read_parquet(workspace.partition(spec.partition_name))
    positions = divided.groupby(["client", "split"])["sample"].apply(list)
    domains = divided.groupby("client")["domain"].first()
    clients = {domains[k]: (positions[k, "train"], positions[k, "val"]) for k in domains.index if k >= 0}
    test = np.flatnonzero(index["domain"] == TARGET).tolist()
    work = Work(folder, clients, test, int(index["label"].nunique()), px, rounds)
    work.write()
    return work


def play(row: list[str], work: Work) -> Job:
    """One process of a row, from start to end."""
    command = [row[0], str(HERE / row[1]), str(work.folder.absolute()), *row[2:]]
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PYTHONPATH": str(HERE),
    }  # fmt: skip
    began = time.perf_counter()
    with TemporaryDirectory() as scratch, open(Path(scratch) / "stderr", "w+") as stderr:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment, cwd=scratch
        )
        peak = [0.0]
        threading.Thread(target=_watch, args=(process.pid, peak), daemon=True).start()
        started, lines = None, []
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(MARK):
                lines.append(json.loads(line.removeprefix(MARK)))
                started = started or time.perf_counter() - began
        if process.wait() or len(lines) < work.rounds:
            stderr.seek(0)
            raise SystemExit(f"{row[1]} failed: {' '.join(command)}\n{stderr.read()[-3000:]}")
    counted = [line["seconds"] for line in lines[1 : work.rounds]]
    start = (started or 0.0) - lines[0]["seconds"]
    return Job(start, counted, peak[0], lines[work.rounds - 1]["accuracies"])


def _watch(pid: int, peak: list[float]) -> None:
    """Keep the most memory, in GB, that a process and its children held at once (the sum of what is not shared)."""
    try:
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            total = 0.0
            for member in (process, *process.children(recursive=True)):
                try:
                    total += member.memory_full_info().uss / 1e9
                except psutil.Error:
                    continue
            peak[0] = max(peak[0], total)
            time.sleep(0.5)
    except psutil.Error:
        return


def report(jobs: dict[str, list[Job]]) -> None:
    """The table: medians over turns."""
    print(
        "\n| row | s/round | beside bare | least to most | start, s | memory, GB "
        "| clients, last round | held out, last round |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, played in jobs.items():
        ratios = [job.seconds / bare.seconds for job, bare in zip(played, jobs[BARE], strict=True)]
        held, own = ([score for job in played for score in _scores(job, out)] for out in (True, False))
        print(
            f"| {name} | {median(job.seconds for job in played):.1f} | **{median(ratios):.2f}** "
            f"| {min(ratios):.2f} to {max(ratios):.2f} | {median(job.start for job in played):.1f} "
            f"| {max(job.gigabytes for job in played):.1f} | {100 * mean(own):.1f} | {100 * mean(held):.1f} |"
        )


def _scores(job: Job, held_out: bool) -> list[float]:
    """The accuracies on the held-out domain, or on the clients' validation sets."""
    return [value for name, value in job.accuracies.items() if (name in ("held out", TARGET)) == held_out]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flower", metavar="PYTHON", help="interpreter with flwr[simulation] and torch")
    parser.add_argument("--flgo", metavar="PYTHON", help="interpreter with flgo and torch")
    parser.add_argument("--bf16", action="store_true", help="a row of fedshift in bf16, too")
    parser.add_argument("--turns", type=int, default=5, help="times that every row is played (default 5)")
    parser.add_argument("--rounds", type=int, default=3, help="of one job; the first does not count")
    parser.add_argument("--px", type=int, default=32, help="side of the images (default 32)")
    parser.add_argument("--workspace", type=Path, help="prepare the images in this folder, and only once")
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error("--rounds: at least 2, for the first does not count")
    chosen = rows(options)
    jobs: dict[str, list[Job]] = defaultdict(list)
    with TemporaryDirectory() as temporary:
        work = prepared(options.workspace or Path(temporary), options.px, options.rounds)
        for turn in range(options.turns):
            for name, row in chosen.items() if turn % 2 == 0 else reversed(chosen.items()):
                job = play(row, work)
                jobs[name].append(job)
                print(
                    f"turn {turn + 1}: {name}: {job.seconds:.1f} s a round, start {job.start:.1f} s, "
                    f"{job.gigabytes:.1f} GB, load {os.getloadavg()[0]:.1f}",
                    flush=True,
                )
    report({name: jobs[name] for name in chosen})


if __name__ == "__main__":
    main()
