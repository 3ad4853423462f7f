"""Everything arrives, once, whatever happens to the store."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pandas as pd
import pytest

from tests.tracking.conftest import Trained, complete, finish, names, stored, track, until
from tests.tracking.server import Server
from tests.verbs import done, fedshift, refused


@pytest.mark.slow
def test_everything_arrives_once_though_the_server_is_down_at_first_and_killed_later(
    trained: Trained, tmp_path: Path, each_server: Server
) -> None:
    """Segments appear while the follower works; then sidecars are lost, and all is published again: nothing changes."""
    server = each_server
    project, runs = trained.copy(tmp_path), trained.runs
    away = project / "away"
    for run in runs:
        shutil.move(project / run.directory, away / run.name)
        shutil.copytree(away / run.name / "segments", project / run.directory / "parts")
        (project / run.directory / "segments").mkdir()
    server.kill()
    follower = track(project, server.uri, "seeds", "ablation", "--follow", "--every", "0.2")
    parts = sorted({part.name for run in runs for part in (project / run.directory / "parts").iterdir()})
    assert len(parts) >= 4
    for place, part in enumerate(parts):
        for run in runs:
            if (
                away_part := project / run.directory / "parts" / part
            ).exists():  # not every method has diagnostics
                os.replace(away_part, project / run.directory / "segments" / part)
        if place == 0:
            server.start()
        if place == 2:
            until(lambda: any(project.rglob("mlflow.json")))
            server.kill()
            time.sleep(1)
            server.start()
    for run in runs:
        for name in ("metrics.parquet", "summary.json"):
            os.replace(away / run.name / name, project / run.directory / name)
    assert f"{len(runs)} finished, 0 unfinished" in finish(follower)
    there = complete(server.store, project, runs)
    assert all(metric.count("/") == 1 for _, metric, *_ in there)
    last = {digest: value for digest, metric, _, _, value in there if metric == "final/ood_acc"}
    frame = pd.read_parquet(project / runs[0].directory / "metrics.parquet").query("split == 'target'")
    target = frame[frame["round"] == frame["round"].max()].query("metric == 'accuracy'")
    assert last[runs[0].digest] == target["value"].mean()
    for run in runs[:3]:
        (project / run.directory / "mlflow.json").unlink()
    half = project / runs[-1].directory / "mlflow.json"
    half.write_text(json.dumps({**json.loads(half.read_text()), "rounds": 3, "status": "RUNNING"}))
    finish(track(project, server.uri, "seeds", "ablation"))
    assert stored(server.store) == there


class Broken(BaseHTTPRequestHandler):
    """What a proxy answers whose server is ill."""

    def do_GET(self) -> None:
        self.send_error(500, "ill")

    do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.mark.slow
def test_parameters_at_their_default_are_parameters(trained: Trained, tmp_path: Path) -> None:
    """hFedF's alpha stands in no declaration, FedProx's mu on an axis."""
    project = trained.copy(tmp_path)
    done(fedshift(project, "track", "seeds", "ablation"))
    query = """SELECT method.value, params.key, params.value FROM params
               JOIN params method ON method.run_uuid = params.run_uuid AND method.key = 'method'"""
    with closing(sqlite3.connect(project / "mlflow.db")) as opened:
        there = opened.execute(query).fetchall()
    assert ("hfedf", "method.params.ema", "0.95") in there
    assert ("fedbn", "local.lr", "0.05") in there
    assert {value for method, key, value in there if (method, key) == ("fedprox", "mu")} == {
        "0.01",
        "0.1",
        "1.0",
    }
    assert not any(method == "fedprox" and key == "method.params.mu" for method, key, _ in there)


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["absent", "500", "hangs"])
def test_a_store_in_trouble_is_told_within_seconds_and_nothing_is_lost(
    trained: Trained, tmp_path: Path, server: Server, trouble: str
) -> None:
    project, runs = trained.copy(tmp_path), [run for run in trained.runs if run.method == "fedprox"]
    uri, broken = server.uri, HTTPServer(("127.0.0.1", 0), Broken)
    if trouble == "500":
        Thread(target=broken.serve_forever, daemon=True).start()
        uri = f"http://127.0.0.1:{broken.server_port}"
    if trouble == "absent":
        uri = "http://127.0.0.1:9"
    if trouble == "hangs":
        assert server.process is not None
        os.killpg(server.process.pid, signal.SIGSTOP)
    began = time.monotonic()
    output = finish(track(project, uri, "ablation", MLFLOW_HTTP_REQUEST_TIMEOUT="2"), code=2)
    assert time.monotonic() - began < 100  # MLflow by itself waits for more than two minutes
    assert "Nothing is lost" in output and "fedshift track" in output
    assert {"absent": "refused", "500": "500", "hangs": "timed out"}[trouble] in output
    assert not list(project.rglob("mlflow.json"))
    if trouble == "500":
        broken.shutdown()
    if trouble == "hangs":
        assert server.process is not None
        os.killpg(server.process.pid, signal.SIGCONT)
        finish(track(project, server.uri, "ablation"))
        complete(server.database, project, runs)


def test_a_failed_run_is_failed_with_its_reason_until_a_retry_finishes_it(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides: an empty double that a server made after it had hung is deleted, and publishing twice changes nothing."""
    from mlflow import MlflowClient

    project, runs = trained.copy(tmp_path), [run for run in trained.runs if run.method == "fedprox"]
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    place, database = project / runs[0].directory, project / "mlflow.db"
    (place / "summary.json").rename(place / "later.json")
    (place / "failure.json").write_text(json.dumps({"kind": "OSError", "text": "disk full", "retry": True}))
    assert "2 finished, 0 unfinished and 1 failed of 3" in done(fedshift(project, "track", "ablation"))
    assert (runs[0].name, "FAILED", "OSError: disk full") in names(database)
    client = MlflowClient(f"sqlite:///{database}")
    page = client.get_experiment_by_name("digits/ablation").experiment_id
    client.create_run(page, tags={"digest": runs[0].digest, "code": runs[0].code})
    (place / "failure.json").unlink()
    (place / "later.json").rename(place / "summary.json")
    assert "3 finished" in done(fedshift(project, "track", "ablation"))
    assert names(database) == sorted((run.name, "FINISHED", "") for run in runs)
    there = complete(database, project, runs)
    done(fedshift(project, "track", "ablation"))
    assert stored(database) == there


def test_a_second_follower_is_refused(project: Path) -> None:
    shutil.copy(project / "experiments" / "demo.yaml", project / "experiments" / "one.yaml")
    (project / "results").mkdir()
    with open(project / "results" / ".track.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused(fedshift(project, "track", "one"), "another follower is at work")


def test_a_process_of_another_user_is_not_the_workflow() -> None:
    code = (
        "import os; from fedshift.cli.track import _alive; os.getuid() or os.setuid(65534); print(_alive(1))"
    )
    asked = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert asked.stdout == "False\n"
