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
from collections.abc import Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy.exc import SQLAlchemyError

from fedshift.planning.planfile import Cell, Run
from fedshift.storage.workspace import Workspace
from fedshift.tracking.pages import Followed, followed
from fedshift.tracking.publish import Follower
from tests.tracking.conftest import Trained, complete, finish, names, rows, stored, track, until
from tests.tracking.server import Postgres, Server
from tests.verbs import done, fedshift, refused

pytestmark = pytest.mark.slow


def test_everything_arrives_once_though_the_server_is_down_at_first_and_killed_later(
    trained: Trained, tmp_path: Path, each_server: Server
) -> None:
    """Segments appear while the follower works; then a run counts as half sent, and is sent again: nothing changes."""
    from mlflow import MlflowClient

    server = each_server
    project, runs = trained.copy(tmp_path), trained.runs
    away = project / "away"
    for run in runs:
        shutil.move(project / run.directory, away / run.digest)
        shutil.copytree(away / run.digest / "segments", project / run.directory / "parts")
        (project / run.directory / "segments").mkdir()
    server.kill()
    follower = track(project, server.uri, "seeds", "ablation", "--follow", "--every", "0.2")
    parts = sorted({part.name for run in runs for part in (project / run.directory / "parts").iterdir()})
    assert len(parts) >= 4
    for place, part in enumerate(parts):
        for run in runs:
            away_part = project / run.directory / "parts" / part
            if away_part.exists():  # not every method has diagnostics
                os.replace(away_part, project / run.directory / "segments" / part)
        if place == 0:
            server.start()
        if place == 2:
            until(lambda: bool(stored(server.store)))
            server.kill()
            time.sleep(1)
            server.start()
    for run in runs:
        for name in ("spec.json", "metrics.parquet", "timings.parquet", "summary.json"):
            os.replace(away / run.digest / name, project / run.directory / name)
    assert f"{len(runs)} finished, 0 unfinished" in finish(follower)
    there = complete(server.store, project, runs)
    assert all(metric.count("/") == 1 for _, metric, *_ in there)
    client, half = MlflowClient(server.uri), run_id(server.store, runs[-1])
    client.update_run(half, "RUNNING")
    client.set_tag(half, "rounds", "1")
    finish(track(project, server.uri, "seeds", "ablation"))
    assert stored(server.store) == there
    assert names(server.store) == sorted((run.digest, "FINISHED", "") for run in runs)


class Broken(BaseHTTPRequestHandler):
    """What a proxy answers whose server is ill."""

    def do_GET(self) -> None:
        self.send_error(500, "ill")

    do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_parameters_at_their_default_are_parameters(trained: Trained, tmp_path: Path) -> None:
    """hFedF's alpha stands in no declaration, FedProx's mu on an axis."""
    project = trained.copy(tmp_path)
    done(fedshift(project, "track", "seeds", "ablation"))
    query = """SELECT method.value, params.key, params.value FROM params
               JOIN params method ON method.run_uuid = params.run_uuid AND method.key = 'method'"""
    there = rows(project / "mlflow.db", query)
    assert ("hfedf", "method.params.ema", "0.95") in there
    assert ("fedbn", "local.lr", "0.05") in there
    mus = {value for method, key, value in there if (method, key) == ("fedprox", "mu")}
    assert mus == {"0.01", "0.1", "1.0"}
    assert not any(method == "fedprox" and key == "method.params.mu" for method, key, _ in there)


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
    """Besides: an empty double that a server made after it had hung is deleted, publishing twice changes nothing, and a method that is edited in between makes no second run."""
    from mlflow import MlflowClient

    project, runs = trained.copy(tmp_path), [run for run in trained.runs if run.method == "fedprox"]
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    place, database = project / runs[0].directory, project / "mlflow.db"
    (place / "summary.json").rename(place / "later.json")
    (place / "failure.json").write_text(json.dumps({"kind": "OSError", "text": "disk full", "retry": True}))
    assert "2 finished, 0 unfinished and 1 failed of 3" in done(fedshift(project, "track", "ablation"))
    assert (runs[0].digest, "FAILED", "OSError: disk full") in names(database)
    client = MlflowClient(f"sqlite:///{database}")
    page = client.get_experiment_by_name("digits/ablation").experiment_id
    client.create_run(page, tags={"digest": runs[0].digest, "code": runs[0].code})
    (place / "failure.json").unlink()
    edited = {**json.loads((place / "later.json").read_text()), "method_code": "ed17ed00"}
    (place / "summary.json").write_text(json.dumps(edited))
    assert "3 finished" in done(fedshift(project, "track", "ablation"))
    assert names(database) == sorted((run.digest, "FINISHED", "") for run in runs)
    there = complete(database, project, runs)
    done(fedshift(project, "track", "ablation"))
    assert stored(database) == there
    summary = place / "summary.json"  # trained again by a changed method it is another one
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "method_code": "0dd0c0de"}))
    for _ in range(2):
        assert "3 finished" in done(fedshift(project, "track", "ablation"))
        digests = [digest for digest, *_ in names(database)]
        assert [digests.count(run.digest) for run in runs] == [2, 1, 1]


def run_id(store: Path | str, run: Run) -> str:
    """MLflow's id of a run."""
    query = f"SELECT run_uuid FROM tags WHERE key = 'digest' AND value = '{run.digest}'"
    return str(rows(store, query)[0][0])


def test_what_is_not_in_the_store_is_sent_again(trained: Trained, tmp_path: Path) -> None:
    """The database removed, a run deleted in MLflow, an experiment deleted there: what is said is what the store has."""
    from mlflow import MlflowClient

    project, runs = trained.copy(tmp_path), [run for run in trained.runs if run.method == "fedprox"]
    database, said = project / "mlflow.db", "3 finished, 0 unfinished and 0 failed of 3 runs"
    assert said in finish(track(project, "", "ablation"))
    there = complete(database, project, runs)
    for path in project.glob("mlflow.db*"):
        path.unlink()
    for folder in (project / runs[0].directory, project / runs[1].directory):
        shutil.move(folder, project / folder.name)
    assert "1 finished, 0 unfinished and 0 failed of 3 runs" in finish(track(project, "", "ablation"))
    for run in runs[:2]:
        shutil.move(project / run.digest, project / run.directory)
    assert said in finish(track(project, "", "ablation"))
    assert complete(database, project, runs) == there
    client = MlflowClient(f"sqlite:///{database}")
    client.delete_run(run_id(database, runs[0]))
    assert said in finish(track(project, "", "ablation"))
    assert names(database) == sorted((run.digest, "FINISHED", "") for run in runs)
    client.delete_experiment(client.get_experiment_by_name("digits/ablation").experiment_id)
    assert said in finish(track(project, "", "ablation"))
    assert names(database) == sorted((run.digest, "FINISHED", "") for run in runs)


def locked(database: Path) -> sqlite3.Connection:
    holder = sqlite3.connect(database, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    return holder


def read_only(database: Path) -> None:
    """Of a folder in which nothing can be made, root's neither."""
    database.unlink()
    database.symlink_to("/proc/mlflow.db")


def other_schema(database: Path) -> None:
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("UPDATE alembic_version SET version_num = 'feedfacecafe'")


def in_its_place(database: Path) -> None:
    database.unlink()
    database.mkdir()


TROUBLES: dict[str, tuple[Callable[[Path], object], str, str]] = {  # what is done, what is said, and advised
    "locked": (locked, "locked", "Nothing is lost"),
    "no database": (lambda path: path.write_bytes(os.urandom(4096)), "not a database", "Move it away"),
    "torn": (lambda path: os.truncate(path, path.stat().st_size // 8), "malformed", "Move it away"),
    "schema": (other_schema, "schema", "mlflow db upgrade"),
    "directory": (in_its_place, "unable to open", "MLFLOW_TRACKING_URI"),
    "read-only": (read_only, "unable to open", "MLFLOW_TRACKING_URI"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_database_in_trouble_is_told_in_its_own_words(
    database: bytes, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """One line with the cause, one with what helps; after that everything is sent."""
    monkeypatch.setattr("fedshift.tracking.store.LOCKED", 1)
    runs = [followed for followed in planned(trained.runs) if followed.run.method == "fedprox"]
    path = tmp_path / "mlflow.db"
    path.write_bytes(database)
    spoil, said, advice = TROUBLES[trouble]
    held = spoil(path)
    follower = Follower(Workspace(trained.root), runs, f"sqlite:///{path}")
    assert list(follower.sweep()) == [] and follower.describe() == {}
    problem = str(follower.problem)
    assert said in problem and advice in problem and str(path) in problem
    assert problem.count("\n") == 1 and "sqlalche.me" not in problem
    if isinstance(held, sqlite3.Connection):
        held.close()
    elif path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    assert sum(follower.sweep()) == sum(followed.run.rounds for followed in runs)
    assert follower.problem is None
    assert {follower.status(followed) for followed in runs} == {"FINISHED"}


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store without runs."""
    from mlflow import MlflowClient

    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path.read_bytes()


def test_inputs_source_user_commit_and_files_of_a_run(trained: Trained, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    runs = planned(trained.runs)[:1]
    uri, place = f"sqlite:///{tmp_path / 'mlflow.db'}", trained.root / runs[0].run.directory
    list(Follower(Workspace(trained.root), runs, uri).sweep())
    client, summary = MlflowClient(uri), json.loads((place / "summary.json").read_text())
    run = client.get_run(run_id(tmp_path / "mlflow.db", runs[0].run))
    read = {one.dataset.name: one.dataset.digest for one in run.inputs.dataset_inputs}
    hashes = summary["hashes"]
    assert read == {"digits images": hashes["prepared"][:36], "digits partition": hashes["partition"][:36]}
    tags = run.data.tags
    assert tags["mlflow.source.name"] == "experiments/seeds.yaml"
    assert tags["mlflow.user"] == place.owner()
    assert tags.get("mlflow.source.git.commit", "") == summary["environment"]["commit"].partition(" ")[0]
    (spec,) = client.list_artifacts(run.info.run_id)
    saved = client.download_artifacts(run.info.run_id, spec.path, str(tmp_path))
    assert Path(saved).read_text() == (place / "spec.json").read_text()


def test_a_pulled_run_has_no_specification_of_its_own(trained: Trained, tmp_path: Path) -> None:
    """The planned one is logged, and the run is finished in the store."""
    from mlflow import MlflowClient

    project = trained.copy(tmp_path / "project")
    (one,) = planned(trained.runs)[:1]
    (project / one.run.directory / "spec.json").unlink()
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    list(Follower(Workspace(project), [one], uri).sweep())
    client = MlflowClient(uri)
    run = client.get_run(run_id(tmp_path / "mlflow.db", one.run))
    assert run.info.status == "FINISHED"
    saved = client.download_artifacts(run.info.run_id, "spec.json", str(tmp_path))
    assert json.loads(Path(saved).read_text()) == json.loads(one.run.spec)


def planned(runs: list[Run]) -> list[Followed]:
    """Runs of the experiments of `trained`, under their names."""
    label = {"fedprox": "ablation"}
    cells = [
        Cell(label.get(run.method, "seeds"), run.method, json.dumps({"seed": run.seed}), run.digest)
        for run in runs
    ]
    return followed(runs, cells)


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


# ---- a follower that writes to PostgreSQL itself, without a server between


def test_the_database_is_killed_and_every_point_arrives_once(
    trained: Trained, tmp_path: Path, postgres: Postgres
) -> None:
    """Half of the runs finish while it is away."""
    project, runs = trained.copy(tmp_path), trained.runs
    first, later = runs[::2], runs[1::2]
    for run in later:
        shutil.move(project / run.directory, tmp_path / "away" / run.digest)
    follower = track(project, postgres.uri, "seeds", "ablation", "--follow", "--every", "0.2")
    until(lambda: len(finished(postgres.uri)) == len(first), seconds=240)
    postgres.kill()
    for run in later:
        shutil.move(tmp_path / "away" / run.digest, project / run.directory)
    assert follower.stdout is not None
    trouble = next(line for line in follower.stdout if "will try again" in line)
    assert "mlflow@" not in trouble
    postgres.start()
    assert f"{len(runs)} finished, 0 unfinished" in finish(follower)
    complete(postgres.uri, project, runs)


@pytest.mark.parametrize("refusal", ["no such role", "no such database", "away"])
def test_a_database_that_refuses_is_told_in_its_own_words(
    trained: Trained, tmp_path: Path, postgres: Postgres, refusal: str
) -> None:
    project, uri, said = trained.copy(tmp_path), postgres.uri, "does not exist"
    if refusal == "no such role":
        uri = uri.replace("mlflow@", "nobody:secret@")
    elif refusal == "no such database":
        uri = uri.replace("/postgres", "/absent")
    else:
        postgres.kill()
        said = "refused"
    began = time.monotonic()
    output = finish(track(project, uri, "ablation"), code=2)
    assert time.monotonic() - began < 100  # MLflow by itself tries for two minutes
    assert said in output and "Nothing is lost" in output
    assert not any(word in output for word in ("Traceback", "sqlalche.me", "secret"))


def finished(store: str) -> list[tuple[str, str, str]]:
    """Runs in the store that are finished; none where it has no tables yet."""
    try:
        return [run for run in names(store) if run[1] == "FINISHED"]
    except SQLAlchemyError:
        return []
