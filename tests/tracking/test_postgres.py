"""A follower that writes to PostgreSQL itself, without a server between (with one: test_tracking.py)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tracking.conftest import Trained, complete, finish, stored, track, until
from tests.tracking.postgres import Postgres

pytestmark = pytest.mark.slow


def test_the_database_is_killed_and_every_point_arrives_once(
    trained: Trained, tmp_path: Path, postgres: Postgres
) -> None:
    """Half of the runs finish while it is away. Besides: a sidecar is lost, and its run published again; nothing changes."""
    project, runs = trained.copy(tmp_path), trained.runs
    first, later = runs[::2], runs[1::2]
    for run in later:
        shutil.move(project / run.directory, tmp_path / "away" / run.name)
    follower = track(project, postgres.uri, "seeds", "ablation", "--follow", "--every", "0.2")
    until(lambda: all((project / run.directory / "mlflow.json").exists() for run in first), seconds=240)
    postgres.kill()
    for run in later:
        shutil.move(tmp_path / "away" / run.name, project / run.directory)
    assert follower.stdout is not None
    trouble = next(line for line in follower.stdout if "will try again" in line)
    assert "mlflow@" not in trouble
    postgres.start()
    assert f"{len(runs)} finished, 0 unfinished" in finish(follower)
    there = complete(postgres.uri, project, runs)
    (project / runs[0].directory / "mlflow.json").unlink()
    finish(track(project, postgres.uri, "seeds", "ablation"))
    assert stored(postgres.uri) == there
