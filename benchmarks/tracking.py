"""Are runs slowed by the follower, does each point arrive once, and how late? Many processes write while `fedshift track` publishes.

A writer stands for a training run. For each round it sleeps `--pause` seconds (the device's work; `--spin` burns CPU besides), then
does what `fedshift train` does: add the round's records (the rows of `--clients` clients that keep no model of their own), close a
segment each `--segment` seconds (default: that of `fedshift train`), and at last merge the segments and write a summary. Writers
close their segments at different times, as runs do. Four calls measure, each appends a line to FILE; the fifth prints what FILE holds:

  python benchmarks/tracking.py alone FILE       writers without a follower
  python benchmarks/tracking.py followed FILE    with a follower and, but for --store sqlite, an MLflow server, on the same machine
  python benchmarks/tracking.py killed FILE      the server is killed -9 when half is written and started again after --away seconds
  python benchmarks/tracking.py summary FILE     slowing of each writer, with its noise; delays

The delay of a point is the time at which it is seen in MLflow's database (looked at twice a second) less the time of its record;
besides, less the time at which its segment was closed, before which nobody can see it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, nullcontext
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.common.files import atomic_path, write_bytes, write_json
from fedshift.federation.records import Records
from fedshift.planning import planfile
from fedshift.planning.planfile import Cell, Run
from fedshift.tracking.points import final_points, points

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.tracking.server import SETTINGS, Server

PARTITION = {"split": "random", "fractions": [0.8, 0.1, 0.1]}
SUMMARY = {
    "spec": {"partition": PARTITION},
    "best_round": {},
    "clients": [],
    "costs": {"seconds": 1.0},
    "environment": {"device": "cpu"},
    "hashes": {},
    "policy": {"bn": "none"},
}
Times = tuple[float, float, float]

barrier: Barrier


def prepare(shared: Barrier) -> None:
    global barrier
    barrier = shared


# ---- a writer


def write(directory: Path, options: argparse.Namespace, k: int) -> Times:
    """One run; returns its wall seconds, those of them not asleep, and its CPU seconds."""
    barrier.wait()
    records, first, asleep = Records(), 1, 0.0
    began, cpu = time.monotonic(), time.process_time()
    saved = began - options.segment * k / options.writers
    for finished in range(1, options.rounds + 1):
        rest = time.monotonic()
        time.sleep(options.pause)
        asleep += time.monotonic() - rest
        for _ in range(options.spin):
            pass
        add(records, finished, k, options)
        if time.monotonic() - saved >= options.segment or finished == options.rounds:
            write_bytes(directory / "segments" / f"{first:06d}-{finished:06d}.parquet", records.pack())
            records.rows, first, saved = [], finished + 1, time.monotonic()
    segments = [pq.read_table(path) for path in sorted(directory.glob("segments/*.parquet"))]
    with atomic_path(directory / "metrics.parquet") as temporary:
        pq.write_table(pa.concat_tables(segments), temporary, compression="zstd")
    write_json(directory / "summary.json", SUMMARY)
    wall = time.monotonic() - began
    return wall, wall - asleep, time.process_time() - cpu


def add(records: Records, finished: int, k: int, options: argparse.Namespace) -> None:
    """A round's rows, as the round loop records them."""
    value = k + 1 / finished
    scores = {"accuracy": value, "loss": -value}
    for client in range(options.clients):
        records.add(finished, "train", "", client, "train", {"loss": value + client}, n=1)
    records.add(finished, "cost", "", -1, "", {"bytes_down": value, "bytes_up": value, "images": value})
    for client, split in itertools.product(range(options.clients), ("val", "test")):
        records.add(finished, "post_agg", "global", client, split, scores, n=1)
    records.add(finished, "post_agg", "global", -1, "target", scores, n=1)
    records.add(finished, "machine", "", -1, "", {"seconds": options.pause, "peak_memory_mb": value})


# ---- one measurement


def planned(root: Path, options: argparse.Namespace) -> tuple[Path, list[Run]]:
    """A plan of runs that nobody trains: the follower reads it."""
    runs = [
        Run(**{
            **dict.fromkeys(Run._fields, 0),
            "digest": f"{k:016x}", "code": "0" * 8, "directory": f"results/runs/{k}", "dataset": "digits", "method": "fedavg",
            "target": "plain", "seed": k, "spec": json.dumps({"partition": PARTITION}), "pack": "0" * 16, "rounds": options.rounds,
        })
        for k in range(options.writers)
    ]  # fmt: skip
    cells = [Cell("benchmark", "fedavg", json.dumps({"seed": run.seed}), run.digest) for run in runs]
    planfile.write(root / "plan.json", planfile.Plan({}, runs, cells, []))
    return root / "plan.json", runs


def start_follower(root: Path, plan: Path, uri: str) -> subprocess.Popen[bytes]:
    """A follower that has read the plan."""
    command = [
        sys.executable,
        "-m",
        "fedshift",
        "--root",
        str(root),
        "track",
        "--follow",
        "--plan",
        str(plan),
    ]
    with open(root / "track.log", "wb") as log:
        follower = subprocess.Popen(
            command, env={**os.environ, **SETTINGS, "MLFLOW_TRACKING_URI": uri}, stdout=log, stderr=log
        )
    while not (root / "results" / ".track.lock").exists():
        time.sleep(0.1)
    return follower


def look(database: Path, after: int) -> list[tuple[Any, ...]]:
    """New points since row `after`: (row, digest, metric, round, ms, value)."""
    query = """SELECT metrics.rowid, tags.value, metrics.key, metrics.step, metrics.timestamp, metrics.value
               FROM metrics JOIN tags ON tags.run_uuid = metrics.run_uuid AND tags.key = 'digest'
               WHERE metrics.rowid > ? ORDER BY metrics.rowid"""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)) as opened:
            return opened.execute(query, (after,)).fetchall()
    except sqlite3.OperationalError:
        return []  # not there yet, or being restored after a kill


def measure(options: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Play writers, and follower and server where asked for."""
    plan, runs = planned(root, options)
    served = options.mode != "alone" and options.store == "server"
    context = get_context("forkserver")
    context.set_forkserver_preload(["tracking"])
    together = context.Barrier(options.writers + 1)
    with (
        Server(root) if served else nullcontext() as server,
        context.Pool(options.writers, prepare, (together,)) as pool,
    ):
        uri = server.uri if server else f"sqlite:///{root}/mlflow.db"
        follower = start_follower(root, plan, uri) if options.mode != "alone" else None
        pending = pool.starmap_async(
            write, [(root / run.directory, options, run.seed) for run in runs], chunksize=1
        )
        together.wait()
        kill_at = (
            time.monotonic() + options.rounds * options.pause / 2
            if options.mode == "killed"
            else float("inf")
        )
        start_at = float("inf")
        seen: list[tuple[Any, ...]] = []
        while not pending.ready() or (follower and follower.poll() is None):
            time.sleep(0.5)
            if time.monotonic() > kill_at and server:
                server.kill()
                kill_at, start_at = float("inf"), time.monotonic() + options.away
            if time.monotonic() > start_at and server:
                server.launch()
                start_at = float("inf")
            if follower:
                now = time.time()
                seen += [(now, *row) for row in look(root / "mlflow.db", seen[-1][1] if seen else 0)]
        times = pending.get()
    writers = {
        "wall": [seconds[0] for seconds in times],
        "busy": [seconds[1] for seconds in times],
        "cpu": [seconds[2] for seconds in times],
    }
    return {**writers, **(arrived(root, runs, seen) if follower else {})}


def arrived(root: Path, runs: list[Run], seen: list[tuple[Any, ...]]) -> dict[str, Any]:
    """What came, against what was written; how late."""
    wanted: Counter[tuple[Any, ...]] = Counter()
    closed: dict[tuple[str, int], float] = {}
    for run in runs:
        table = pq.read_table(root / run.directory / "metrics.parquet")
        points_of = [*points(table, partition=PARTITION), *final_points(SUMMARY, table)]
        wanted.update((run.digest, point.name, point.round, point.time, point.value) for point in points_of)
        for path in (root / run.directory / "segments").iterdir():
            first, last = map(int, path.stem.split("-"))
            closed |= {(run.digest, finished): path.stat().st_mtime for finished in range(first, last + 1)}
    seen_points = Counter(tuple(row) for _, _, *row in seen)
    rounds = [point for point in seen if not point[3].startswith(("acc_final/", "acc_best/", "cost/total_"))]
    return {
        "points": seen_points.total(),
        "wanted": wanted.total(),
        "each_once": seen_points == wanted and max(seen_points.values()) == 1,
        "tried_again": (root / "track.log").read_text().count("will try again"),
        "since_record": spread([now - ms / 1000 for now, _, _, _, _, ms, _ in rounds]),
        "since_segment": spread([now - closed[digest, step] for now, _, digest, _, step, _, _ in rounds]),
    }


def spread(delays: list[float]) -> dict[str, float]:
    delays = sorted(delays)
    return {"median": statistics.median(delays), "p99": delays[int(0.99 * len(delays))], "max": delays[-1]}


# ---- what was measured


def summary(lines: list[dict[str, Any]]) -> None:
    """Each writer against the mean of its own walls alone; the noise is that of each `alone` against the other ones."""
    alone = [line["wall"] for line in lines if line["mode"] == "alone"]
    for place, line in enumerate(lines):
        others = [walls for walls in alone if walls is not line["wall"]] or alone
        base = [statistics.mean(walls) for walls in zip(*others, strict=True)]
        slowed = [100 * (wall / least - 1) for wall, least in zip(line["wall"], base, strict=True)]
        print(
            f"{place} {line['mode']:8} wall {statistics.median(line['wall']):.2f} s, busy {statistics.median(line['busy']):.2f}, "
            f"CPU {statistics.median(line['cpu']):.2f} | slowed: median {statistics.median(slowed):+.3f}%, "
            f"writers {min(slowed):+.3f} to {max(slowed):+.3f}% | load {line['load']:.1f}"
        )
        if "points" in line:
            once = "each once" if line["each_once"] else "WRONG"
            print(
                f"           points: {line['points']} of {line['wanted']}, {once}; tried again: {line['tried_again']}"
            )
            for since in ("record", "segment"):
                late = ", ".join(f"{name} {value:.1f}" for name, value in line[f"since_{since}"].items())
                print(f"           delay since the {since}, s: {late}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("mode", choices=["alone", "followed", "killed", "summary"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.4, help="seconds of a round")
    parser.add_argument("--spin", type=int, default=0, help="turns of an empty loop in a round")
    parser.add_argument("--segment", type=float, default=30.0, help="least seconds between segments")
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--store", choices=["sqlite", "server"], default="server")
    parser.add_argument("--away", type=float, default=25.0, help="seconds until it is started again")
    options = parser.parse_args()
    if options.mode == "killed" and options.store != "server":
        parser.error("there is no server to kill in --store sqlite")
    if options.mode == "summary":
        summary([json.loads(line) for line in options.file.read_text().splitlines()])
        return
    with TemporaryDirectory() as folder:
        line = {"mode": options.mode, **measure(options, Path(folder)), "load": os.getloadavg()[0]}
    with open(options.file, "a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
