"""What the follower publishes, and that it arrives once whatever happens to the server."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa

from fedshift.federation.records import SCHEMA
from fedshift.planfile import Run
from fedshift.points import Point, points
from fedshift.tracking import SIDECAR
from tests.tracking.conftest import Server, Trained, fedshift, finish, stored, track


def row(
    finished: int, stage: str, client: int, split: str, metric: str, value: float, model: str = "global"
) -> dict[str, object]:
    place = {"round": finished, "stage": stage, "model": model, "row": 0, "client": client, "split": split}
    return {**place, "metric": metric, "value": value, "n": 1, "time": 1000.0 + finished + client / 10}


def test_points_are_means_over_clients_and_sums_of_bytes() -> None:
    rows = [
        row(3, "post_agg", 0, "test", "accuracy", 0.5),
        row(3, "post_agg", 1, "test", "accuracy", 1.0),
        row(3, "post_agg", 1, "val", "accuracy", 0.25),
        row(3, "post_agg", -1, "target", "accuracy", 0.125),
        row(3, "cost", -1, "", "bytes_up", 7.0),
        row(3, "cost", -1, "", "bytes_down", 8.0),
    ]
    assert set(points(pa.Table.from_pylist(rows, SCHEMA))) == {
        Point("id/acc", 3, 0.75, 1003100),
        Point("val/acc", 3, 0.25, 1003100),
        Point("ood/acc", 3, 0.125, 1002900),
        Point("cost/bytes", 3, 15.0, 1002900),
    }


def test_without_a_test_split_validation_is_in_distribution_and_own_models_go_first() -> None:
    rows = [
        row(1, "post_agg", 0, "val", "accuracy", 0.1),
        row(1, "post_train", 0, "val", "accuracy", 0.9, "personal"),
    ]
    assert points(pa.Table.from_pylist(rows, SCHEMA)) == [Point("id/acc", 1, 0.9, 1001000)]


def expected(root: Path, runs: list[Run]) -> Counter[tuple[str, str]]:
    """Points of each run and metric, counted by pandas from the merged records."""
    counts: Counter[tuple[str, str]] = Counter()
    for run in runs:
        frame = pd.read_parquet(root / run.directory / "metrics.parquet")
        counts[run.digest, "ood/acc"] = frame.query("split == 'target' and metric == 'accuracy'")[
            "round"
        ].nunique()
        counts[run.digest, "train/loss"] = frame.query("stage == 'train'")["round"].nunique()
        counts[run.digest, "cost/bytes"] = frame.query("stage == 'cost'")["round"].nunique()
        counts[run.digest, "machine/seconds"] = frame.query("stage == 'machine'")["round"].nunique()
    return counts


def counted(
    points_there: list[tuple[str, str, int, int, float]], like: Counter[tuple[str, str]]
) -> Counter[tuple[str, str]]:
    return Counter((digest, metric) for digest, metric, *_ in points_there if (digest, metric) in like)


def test_everything_arrives_once_though_the_server_is_killed(
    trained: Trained, tmp_path: Path, server: Server
) -> None:
    """Segments appear while the follower works and the server is killed -9; then sidecars are lost and it all runs again."""
    project, runs = trained.copy(tmp_path), trained.runs
    away = project / "away"
    for run in runs:
        shutil.move(project / run.directory, away / run.name)
        shutil.copytree(away / run.name / "segments", project / run.directory / "parts")
        (project / run.directory / "segments").mkdir()
    follower = track(project, server.uri, "seeds", "ablation", "--follow", "--every", "0.2")
    parts = sorted(part.name for part in (project / runs[0].directory / "parts").iterdir())
    assert len(parts) >= 5
    for place, part in enumerate(parts):
        for run in runs:
            os.replace(project / run.directory / "parts" / part, project / run.directory / "segments" / part)
        time.sleep(0.5)
        if place == 3:
            server.kill()
            time.sleep(2)
            server.start()
    for run in runs:
        for name in ("metrics.parquet", "summary.json"):
            os.replace(away / run.name / name, project / run.directory / name)
    output = finish(follower)
    assert f"{len(runs)} finished, 0 unfinished" in output
    there = stored(server.database)
    wanted = expected(project, runs)
    assert counted(there, wanted) == wanted
    assert all(metric.count("/") == 1 for _, metric, *_ in there)
    last = {digest: value for digest, metric, _, _, value in there if metric == "final/ood_acc"}
    frame = pd.read_parquet(project / runs[0].directory / "metrics.parquet").query(
        "split == 'target' and round == 5"
    )
    assert last[runs[0].digest] == frame.query("metric == 'accuracy'")["value"].mean()
    for run in runs[:3]:
        (project / run.directory / SIDECAR).unlink()
    half = project / runs[-1].directory / SIDECAR
    half.write_text(json.dumps({**json.loads(half.read_text()), "rounds": 3, "status": "RUNNING"}))
    finish(track(project, server.uri, "seeds", "ablation"))
    assert stored(server.database) == there


def test_a_server_that_is_away_is_told_and_costs_nothing(trained: Trained, tmp_path: Path) -> None:
    """Nobody listens: an error within seconds that says what to do. Then, into SQLite, everything is there."""
    project = trained.copy(tmp_path)
    runs = [run for run in trained.runs if run.method == "fedprox"]
    began = time.monotonic()
    output = finish(track(project, "http://127.0.0.1:9", "ablation"), code=2)
    assert time.monotonic() - began < 40
    assert "Nothing is lost" in output and "fedshift track" in output
    assert not list(project.rglob(SIDECAR))
    database = project / "mlflow.db"
    finish(track(project, "", "ablation"))
    wanted = expected(project, runs)
    assert counted(stored(database), wanted) == wanted


def test_a_second_follower_is_refused(project: Path) -> None:
    shutil.copy(project / "experiments" / "demo.yaml", project / "experiments" / "one.yaml")
    (project / "results").mkdir()
    with open(project / "results" / ".track.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = fedshift(project, "track", "one")
    assert refused.exit_code == 2
    assert "another follower is at work" in refused.output
