"""The follower that snakemake starts, while another process locks the store; then `make ui` on the same folder."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from fedshift.planning import planfile
from tests.conftest import ROOT
from tests.tracking.conftest import complete, finish, names, stored, track, until
from tests.tracking.server import Server
from tests.workflow.checkout import Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


@pytest.fixture(scope="module")
def checkout(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """fedavg and fedprox on digits, one round; fedprox fails."""
    experiments = {"demo": tiny("Demo", "fedavg", "fedprox")}
    made = Checkout.made(tmp_path_factory.mktemp("tracked"), experiments, "experiments: [demo]\npack: 2\n")
    made.edit(
        "src/fedshift/methods/fedprox.py",
        "proximal(g, C.w - C.w0, self.hp.mu)",
        'raise ValueError("mu is broken")',
    )
    (made.root / "data" / "prepared").mkdir(parents=True)
    shutil.copytree(digits / "data" / "prepared" / "digits", made.root / "data" / "prepared" / "digits")
    return made


def test_fedshift_track_0_starts_no_follower(checkout: Checkout) -> None:
    done = checkout.snakemake("partitions", FEDSHIFT_TRACK="0")
    assert done.returncode == 0, done.stdout
    assert "rule partitions:" in done.stdout  # so that onstart was met
    assert not (checkout.root / "logs" / "track.log").exists()
    assert not (checkout.root / "mlflow.db").exists()


@pytest.fixture(scope="module")
def published(checkout: Checkout) -> str:
    """What the follower of a whole snakemake has said; the store was locked until it had complained of that."""
    database, log = checkout.root / "mlflow.db", checkout.root / "logs" / "track.log"
    with closing(sqlite3.connect(database, isolation_level=None)) as holder:
        holder.execute("PRAGMA user_version = 1")
        holder.execute("BEGIN EXCLUSIVE")
        done = checkout.snakemake("metrics", FEDSHIFT_TRACK="1", MLFLOW_TRACKING_URI="")
        fedavg = next(run for run in planfile.runs(checkout.plan) if run.method == "fedavg")
        assert (checkout.root / fedavg.directory / "summary.json").is_file(), done.stdout
        until(lambda: "will try again" in log.read_text(), 60)
        holder.execute("ROLLBACK")
    with open(checkout.root / "results" / ".track.lock") as lock:
        until(lambda: _free(lock.fileno()), 90)  # the follower has ended
    return log.read_text()


def test_a_locked_store_stops_no_run_and_gets_everything_later(checkout: Checkout, published: str) -> None:
    assert "locked" in published
    database = checkout.root / "mlflow.db"
    fedavg, fedprox = sorted(planfile.runs(checkout.plan), key=lambda run: run.method)
    assert names(database) == sorted(
        [(fedavg.digest, "FINISHED", ""), (fedprox.digest, "FAILED", "ValueError: mu is broken")]
    )
    there = complete(database, checkout.root, [fedavg])
    assert stored(database) == there
    again = track(checkout.root, "", "demo", PYTHONPATH=str(checkout.root / "src"))  # its own, broken fedprox
    assert "1 finished, 0 unfinished and 1 failed of 2" in finish(again)
    assert stored(database) == there
    assert len(names(database)) == 2


def _free(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


@pytest.mark.usefixtures("published")
def test_make_ui_serves_this_machine_and_ends_with_make(checkout: Checkout) -> None:
    """On a port of choice; what the follower has published is there; one SIGTERM ends all of it."""
    from mlflow import MlflowClient

    if shutil.which("make") is None:
        pytest.skip("make is not on PATH")
    shutil.copy2(ROOT / "Makefile", checkout.root)
    served = Server(checkout.root)  # not started: for its port alone
    at = [f"VENV={sys.prefix}", f"PORT={served.port}"]
    command = ["make", "-o", f"{sys.prefix}/.installed", "ui", *at]
    environment = {key: value for key, value in os.environ.items() if key != "MLFLOW_TRACKING_URI"}
    with open(checkout.root / "ui.log", "wb") as log:
        make = subprocess.Popen(
            command, cwd=checkout.root, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until(lambda: make.poll() is not None or served.answers())
        with urllib.request.urlopen(f"{served.uri}/", timeout=10) as page:
            assert page.status == 200 and b"<html" in page.read()
        assert MlflowClient(served.uri).get_experiment_by_name("digits/demo") is not None
        make.send_signal(signal.SIGTERM)
        make.wait(timeout=20)
        until(lambda: not served.answers(), 10)
    finally:
        if make.poll() is None or served.answers():
            os.killpg(make.pid, signal.SIGKILL)
