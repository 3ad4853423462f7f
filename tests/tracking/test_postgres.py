"""A follower that writes to PostgreSQL itself, without a server between (with one: test_tracking.py)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.tracking.conftest import Trained, complete, finish, stored, track, until
from tests.tracking.postgres import Postgres

pytestmark = pytest.mark.slow


def test_the_database_is_killed_and_every_point_arrives_once(
    trained: Trained, tmp_path: Path, postgres: Postgres
) -> None:
    """Besides: a sidecar is lost, and its run published again; nothing changes."""
    project, runs = trained.copy(tmp_path), trained.runs
    follower = track(project, postgres.uri, "seeds", "ablation", "--follow", "--every", "0.2")
    until(lambda: any(project.rglob("mlflow.json")))
    postgres.kill()
    assert len(list(project.rglob("mlflow.json"))) < len(runs)
    time.sleep(1)
    postgres.start()
    output = finish(follower)
    assert "will try again" in output and f"{len(runs)} finished, 0 unfinished" in output
    assert "mlflow@" not in output
    there = complete(postgres.uri, project, runs)
    (project / runs[0].directory / "mlflow.json").unlink()
    finish(track(project, postgres.uri, "seeds", "ablation"))
    assert stored(postgres.uri) == there
