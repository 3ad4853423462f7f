"""Are writers slowed by the follower, and how far is MLflow behind? Many processes write segments while `fedshift track` publishes.

Each writer stands for a training run: it sleeps a round's time, adds the records of a round, and writes a segment at most every
`--segment` seconds, as `fedshift train` does. First without a follower, then with one; `--kill` stops the server in the middle
with kill -9 and starts it again after `--away` seconds. The delay of a point is the time at which it is seen in MLflow's database
(looked at twice a second) less the time of its record: waiting for the segment to be closed is part of it.
Slowing is the median over writers of their wall time with the follower, over that without. CPU time of a writer tells what the
machine's load does not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedshift import planfile
from fedshift.experiments import protocol
from fedshift.files import write_bytes, write_json
from fedshift.planfile import Cell, Run

ROOT = Path(__file__).parents[1]
ENVIRONMENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def write(directory: Path, rounds: int, pause: float, every: float, clients: int) -> tuple[float, float]:
    """One writer; returns its wall and CPU seconds."""
    from fedshift.federation.records import Records

    records, began, cpu, saved = Records(), time.monotonic(), time.process_time(), time.monotonic()
    first = 1
    for finished in range(1, rounds + 1):
        time.sleep(pause)
        for k in range(clients):
            records.add(finished, "train", "", k, "train", {"loss": 1 / finished}, n=1)
            records.add(finished, "post_agg", "global", k, "test", {"accuracy": 1 - 1 / finished}, n=1)
        records.add(finished, "post_agg", "global", -1, "target", {"accuracy": 1 - 2 / finished}, n=1)
        records.add(finished, "cost", "", -1, "", {"bytes_up": 1.0})
        if time.monotonic() - saved >= every or finished == rounds:
            write_bytes(directory / "segments" / f"{first:06d}-{finished:06d}.parquet", records.pack())
            records.rows, first, saved = [], finished + 1, time.monotonic()
    return time.monotonic() - began, time.process_time() - cpu


METRICS = 4  # points a round: train/loss, id/acc, ood/acc, cost/bytes


def finish(directory: Path) -> None:
    """Merge the segments and leave a summary, so that the follower ends."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(
        pa.concat_tables([pq.read_table(path) for path in sorted(directory.glob("segments/*.parquet"))]),
        directory / "metrics.parquet",
    )
    summary = {"best_round": {}, "costs": {}, "environment": {"device": "cpu"}, "policy": {"bn": "none"}}
    write_json(directory / "summary.json", summary)


def planned(root: Path, writers: int, rounds: int) -> tuple[Path, list[Run]]:
    """A plan of runs that nobody trains: the follower reads it."""
    spec = json.dumps(protocol(ROOT, "digits").spec)
    runs = [
        Run(**{
            **dict.fromkeys(Run._fields, 0),
            "digest": f"{k:016x}", "code": "0" * 8, "directory": f"results/runs/{k}", "dataset": "digits", "method": "fedavg",
            "target": "plain", "seed": k, "spec": spec, "pack": "0" * 16, "rounds": rounds,
        })
        for k in range(writers)
    ]  # fmt: skip
    path = root / "plan.db"
    path.unlink(missing_ok=True)
    cells = [
        Cell("benchmark", "fedavg", json.dumps({"target": "plain", "seed": run.seed}), run.digest)
        for run in runs
    ]
    planfile.write(path, {}, runs, cells, [])
    return path, runs


class Server:
    """`mlflow server` on SQLite, to be killed."""

    def __init__(self, root: Path) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.root, self.uri = root, f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--backend-store-uri",
            f"sqlite:///{self.root}/mlflow.db",
        ]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        with open(self.root / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.root,
                env={**os.environ, **ENVIRONMENT},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> None:
        while True:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=2).read()
                return
            except OSError:
                time.sleep(0.5)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def look(database: Path, after: int) -> list[tuple[int, int, str]]:
    """New points since row `after`: (row, time of the record in ms, metric)."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=5)) as opened:
            query = "SELECT rowid, timestamp, key FROM metrics WHERE rowid > ? ORDER BY rowid"
            return opened.execute(query, (after,)).fetchall()
    except sqlite3.OperationalError:
        return []


def measure(
    given: argparse.Namespace, root: Path, follow: bool
) -> tuple[list[tuple[float, float]], dict[str, Any]]:
    """Wall and CPU seconds of the writers; with a follower, what arrived and when."""
    plan, runs = planned(root, given.writers, given.rounds)
    server, follower = Server(root), None
    if follow and given.store == "server":
        server.start()
        server.wait()
    uri = server.uri if given.store == "server" else f"sqlite:///{root}/mlflow.db"
    if follow:
        environment = {**os.environ, **ENVIRONMENT, "MLFLOW_TRACKING_URI": uri}
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
            follower = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        while not (root / "results" / ".track.lock").exists():
            time.sleep(0.1)
    delays: list[float] = []
    row, began, state = 0, time.time(), "up"
    half = given.rounds * given.pause / 2
    with get_context("spawn").Pool(given.writers) as pool:
        tasks = [
            (root / run.directory, given.rounds, given.pause, given.segment, given.clients) for run in runs
        ]
        pending = pool.starmap_async(write, tasks, chunksize=1)
        while not pending.ready() or (follower and follower.poll() is None):
            if pending.ready():
                for run in runs:
                    if not (root / run.directory / "summary.json").exists():
                        finish(root / run.directory)
            if follow and given.kill and state == "up" and time.time() - began > half:
                server.kill()
                state, back = "down", time.time() + given.away
            if state == "down" and time.time() > back:
                server.start()
                state = "back"
            if follow:
                for place, stamp, key in look(root / "mlflow.db", row):
                    row = place
                    if not key.startswith("final/"):
                        delays.append(time.time() - stamp / 1000)
            time.sleep(0.5)
        walls = pending.get()
    if follow and given.store == "server":
        server.kill()
    return walls, {
        "delays": delays,
        "errors": (root / "track.log").read_text().count("tried again") if follow else 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writers", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.3, help="seconds of a round")
    parser.add_argument("--segment", type=float, default=5.0, help="least seconds between segments")
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--store", choices=["sqlite", "server"], default="server")
    parser.add_argument("--kill", action="store_true", help="kill -9 the server in the middle")
    parser.add_argument("--away", type=float, default=25.0, help="seconds until it is started again")
    given = parser.parse_args()
    if given.kill and given.store != "server":
        parser.error("--kill needs --store server")
    with TemporaryDirectory() as bare, TemporaryDirectory() as followed:
        (before, _), (after, seen) = measure(given, Path(bare), False), measure(given, Path(followed), True)
    walls = [statistics.median(wall for wall, _ in side) for side in (before, after)]
    cpus = [statistics.median(cpu for _, cpu in side) for side in (before, after)]
    delays, wanted = sorted(seen["delays"]), given.writers * given.rounds * METRICS
    print(
        f"writers' wall s, median: {walls[0]:.2f} alone, {walls[1]:.2f} with the follower: {walls[1] / walls[0] - 1:+.2%}"
    )
    print(f"writers' wall s, worst:  {max(before)[0]:.2f} alone, {max(after)[0]:.2f} with the follower")
    print(f"writers' CPU s, median:  {cpus[0]:.3f} alone, {cpus[1]:.3f} with the follower")
    print(
        f"points: {len(delays)} of {wanted} ({'each once' if len(delays) == wanted else 'WRONG'}), soft errors: {seen['errors']}"
    )
    print(
        f"delay s: median {statistics.median(delays):.1f}, p99 {delays[int(0.99 * len(delays))]:.1f}, max {delays[-1]:.1f}"
    )
    print(f"load: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
