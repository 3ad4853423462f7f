"""Runs that the verbs have trained, the follower, and what MLflow's database holds."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from sqlalchemy import create_engine, text

from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from tests.conftest import ROOT, link_images
from tests.tracking.server import Postgres, Server, programs
from tests.verbs import done, fedshift

SMALL = {
    "partition": {"fractions": [0.2, 0.1, 0.7]},
    "local": {"lr": 0.05, "batch": 32, "epochs": 1},
    "federation": {"rounds": 4},
}
SAME = {"protocol": "digits", "spec": SMALL, "tables": {}}
SEEDS = SAME | {
    "title": "Seeds",
    "methods": {"fedavg": None, "fedbn": None, "hfedf": None},
    "axes": {"target": ["plain"], "seed": [0, 1]},
    "only": {"hfedf": {"seed": [0]}},
}
MU = {"key": "method.params.mu", "values": [0.01, 0.1, 1.0]}
ABLATION = SAME | {
    "title": "Ablation",
    "methods": {"fedprox": None},
    "axes": {"target": ["plain"], "seed": [0], "mu": MU},
}
Stored = list[tuple[str, str, int, int, float]]
MODELS = {  # which (model, stage) of its clients a method is shown by: docs/share-results.md, docs/reproducibility.md
    "fedavg": ("global", "post_agg"),
    "fedprox": ("global", "post_agg"),
    "fedbn": ("personal", "post_train"),
    "hfedf": ("personal", "post_agg"),
}
FINAL = ("acc_final/", "acc_best/", "cost/total_")
NAMED = (ROOT / "docs" / "share-results.md").read_text().partition("Names are")[2].partition("Tables with")[0]
METRICS = frozenset(re.findall(r"`([a-z_]+/[a-z_]+)`", NAMED))


@dataclass(frozen=True)
class Trained:
    """A project folder whose experiments `seeds` and `ablation` are finished."""

    root: Path
    runs: list[Run]

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.root, to, symlinks=True, dirs_exist_ok=True)
        return to


@pytest.fixture(scope="session")
def trained(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    root = tmp_path_factory.mktemp("trained")
    shutil.copytree(ROOT / "experiments", root / "experiments")
    for name in ("reference", "params.yaml"):
        (root / name).symlink_to(ROOT / name)
    link_images(digits, root)
    return Trained(root, train(root, "seeds", SEEDS) + train(root, "ablation", ABLATION))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server; who kills it starts it again."""
    with Server(tmp_path_factory.mktemp("server")) as one:
        yield one


def train(project: Path, name: str, experiment: dict[str, object]) -> list[Run]:
    """Train an experiment by the verbs, with a segment of records for every round."""
    (project / "experiments" / f"{name}.yaml").write_text(yaml.safe_dump(experiment))
    path = project / done(fedshift(project, "plan", name, "--print", "path")).strip()
    runs = planfile.runs(path)
    done(fedshift(project, "partition", "--plan", str(path)))
    digests = [run.digest for run in runs]
    done(fedshift(project, "train-pack", "--plan", str(path), "--checkpoint-seconds", "0", *digests))
    return runs


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """A cluster; who kills it starts it again."""
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install 'fedshift[postgresql]'")
    if programs() is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with Postgres() as cluster:
        yield cluster


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def each_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A server on SQLite, then one on PostgreSQL."""
    if request.param == "sqlite":
        yield request.getfixturevalue("server")
    else:
        with Server(tmp_path, request.getfixturevalue("postgres").uri) as one:
            yield one


def rows(store: Path | str, query: str) -> list[tuple[Any, ...]]:
    """What a query of MLflow's database gives; store: its address, or an SQLite file."""
    engine = create_engine(store if isinstance(store, str) else f"sqlite:///{store}")
    with engine.connect() as opened:
        found = [tuple(row) for row in opened.execute(text(query))]
    engine.dispose()
    return found


def stored(database: Path | str) -> Stored:
    """Every point in MLflow's database, sorted: (digest, metric, step, time, value)."""
    query = """SELECT tags.value, metrics.key, metrics.step, metrics.timestamp, metrics.value
               FROM metrics JOIN tags ON tags.run_uuid = metrics.run_uuid AND tags.key = 'digest'"""
    return sorted(rows(database, query))


def names(database: Path | str) -> list[tuple[str, str, str]]:
    """Every run in MLflow's database that is not deleted: (digest, status, reason of a failure)."""
    query = """SELECT digest.value, status, coalesce(failure.value, '') FROM runs
               JOIN tags digest ON digest.run_uuid = runs.run_uuid AND digest.key = 'digest'
               LEFT JOIN tags failure ON failure.run_uuid = runs.run_uuid AND failure.key = 'failure'
               WHERE lifecycle_stage = 'active'"""
    return sorted(rows(database, query))


def complete(database: Path | str, root: Path, runs: list[Run]) -> Stored:
    """What the database holds, which must be every point of these finished runs, each once."""
    there = [one for one in stored(database) if one[0] in {run.digest for run in runs}]
    rounds = Counter((*one[:4], to_a_digit(one[4])) for one in there if not one[1].startswith(FINAL))
    wanted: Counter[tuple[str, str, int, int, float]] = Counter()
    for run in runs:
        wanted.update((run.digest, *point) for point in by_hand(root, run))
        values = {(metric, step): value for digest, metric, step, _, value in there if digest == run.digest}
        assert {metric for metric, _ in values if not metric.startswith("acc_final/id.")} == METRICS
        best = json.loads((root / run.directory / "summary.json").read_text())["best_round"]["first"]
        for place, finished in (("acc_final", max(step for _, step in values)), ("acc_best", best)):
            for short in ("id", "ood"):
                assert values[f"{place}/{short}", 0] == values[f"acc/{short}", finished]
    assert wanted and rounds == wanted
    assert max(rounds.values()) == 1
    final = Counter((digest, metric) for digest, metric, *_ in there if metric.startswith(FINAL))
    assert {digest for digest, _ in final} == {run.digest for run in runs}
    assert max(final.values()) == 1
    found = [name for name, *_ in names(database)]
    assert [found.count(run.digest) for run in runs] == [1] * len(runs)
    return there


def to_a_digit(value: float) -> float:
    """Sums in another order may differ in their last bits."""
    return float(f"{value:.12g}")


def by_hand(root: Path, run: Run) -> Iterator[tuple[str, int, int, float]]:
    """What docs/share-results.md promises of a run's rounds, out of its Parquet file: (metric, step, time, value)."""
    frame, machine = (
        pd.read_parquet(root / run.directory / f"{name}.parquet") for name in ("metrics", "timings")
    )
    ended = machine.groupby("round")["time"].max()
    frame["time"] = frame["round"].clip(lower=1).map(ended)  # the untrained model: when the first round ended
    frame = pd.concat([frame, machine])
    frame["metric"] = frame["metric"].replace({"accuracy": "acc"})
    model, stage = MODELS[run.method]
    own = frame[(frame["model"] == model) & (frame["stage"] == stage) & (frame["client"] >= 0)]
    cost = frame[frame["stage"] == "cost"].replace({"metric": {"bytes_up": "bytes", "bytes_down": "bytes"}})
    splits = {name: own[own["split"] == split] for name, split in (("id", "test"), ("val", "val"))}
    stages = {name: frame[frame["stage"] == name] for name in ("train", "machine")}
    parts = splits | stages | {"ood": frame[frame["split"] == "target"], "cost": cost}
    for name, part in parts.items():
        for (metric, finished), group in part.groupby(["metric", "round"]):
            total = math.fsum(group["value"])
            value = total if name == "cost" else total / len(group)
            called = f"{name}/{metric}" if name in ("machine", "cost") else f"{metric}/{name}"
            yield called, finished, round(1000 * group["time"].max()), to_a_digit(value)


def track(root: Path, uri: str, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    """`fedshift track` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MLFLOW_TRACKING_URI": uri, **settings}
    command = [sys.executable, "-m", "fedshift", "--root", str(root), "track", *arguments]
    return subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    output, _ = process.communicate(timeout=400)
    assert process.returncode == code, output
    return output


def until(happened: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)
