"""A real MLflow server on SQLite that tests may kill, and runs that the verbs have trained."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from fedshift import planfile
from fedshift.cli import main
from fedshift.planfile import Run

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
SMALL = {"local": {"lr": 0.05, "epochs": 1}, "federation": {"rounds": 5}}
SEEDS = {
    "title": "Seeds",
    "protocol": "digits",
    "spec": SMALL,
    "methods": {"fedavg": None, "fedbn": None},
    "axes": {"target": ["plain"], "seed": [0, 1]},
    "tables": {},
}
ABLATION = {
    "title": "Ablation",
    "protocol": "digits",
    "spec": SMALL,
    "methods": {"fedprox": None},
    "axes": {"target": ["plain"], "seed": [0], "method.params.mu": [0.001, 0.1, 10.0]},
    "tables": {},
}


class Server:
    """`mlflow server` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.database = folder, folder / "mlflow.db"
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
        command = [
            sys.executable,
            "-m",
            "mlflow",
            "server",
            "--backend-store-uri",
            f"sqlite:///{self.database}",
        ]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.uri}/health", timeout=2).read()
                return
            except OSError:
                time.sleep(0.3)
        pytest.fail(f"no MLflow server within 120 s: {(self.folder / 'server.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """kill -9, its workers too."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


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
    (root / "data" / "prepared").mkdir(parents=True)
    (root / "data" / "prepared" / "digits").symlink_to(digits / "data" / "prepared" / "digits")
    return Trained(root, train(root, "seeds", SEEDS) + train(root, "ablation", ABLATION))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("server"))
    one.start()
    yield one
    one.kill()


def fedshift(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["--root", str(root), *arguments])


def train(project: Path, name: str, experiment: dict[str, object]) -> list[Run]:
    """Train an experiment by the verbs, with a segment of records for every round."""
    (project / "experiments" / f"{name}.yaml").write_text(yaml.safe_dump(experiment))
    path = project / fedshift(project, "plan", name, "--print", "path").output.strip()
    runs = planfile.runs(path)
    for seed in sorted({run.seed for run in runs}):
        made = fedshift(
            project,
            "partition",
            "digits",
            "--target",
            "plain",
            "--fractions",
            ".8,.1,.1",
            "--seed",
            str(seed),
        )
        assert made.exit_code == 0, made.output
    digests = [run.digest for run in runs]
    done = fedshift(project, "train", "--plan", str(path), "--checkpoint-seconds", "0", *digests)
    assert done.exit_code == 0, done.output
    return runs


def stored(database: Path) -> list[tuple[str, str, int, int, float]]:
    """Every point in MLflow's database, sorted: (digest, metric, step, time, value)."""
    query = """SELECT tags.value, metrics.key, metrics.step, metrics.timestamp, metrics.value
               FROM metrics JOIN tags ON tags.run_uuid = metrics.run_uuid AND tags.key = 'digest'"""
    with closing(sqlite3.connect(database)) as opened:
        return sorted(opened.execute(query).fetchall())


def track(root: Path, uri: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC), "MLFLOW_TRACKING_URI": uri}
    command = [sys.executable, "-m", "fedshift", "--root", str(root), "track", *arguments]
    return subprocess.Popen(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == code, output
    return output
