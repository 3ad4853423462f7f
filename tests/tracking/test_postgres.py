"""A follower that writes to PostgreSQL itself, without a server between (with one: test_tracking.py)."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from sqlalchemy.exc import SQLAlchemyError

from tests.tracking.conftest import Trained, complete, finish, names, track, until
from tests.tracking.postgres import Postgres

pytestmark = pytest.mark.slow


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
