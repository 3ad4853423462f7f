"""What no experiment needs any more: found, measured, and deleted with the stamps that speak of it."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
import yaml

from fedshift.files import write_json
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.planfile import Request, Run
from fedshift.training.claim import claimed
from fedshift.workspace import Workspace
from tests.verbs import done, fedshift

EXPERIMENT = {
    "title": "One",
    "protocol": "digits",
    "methods": {"fedavg": None},
    "axes": {"target": ["plain"], "seed": [0, 1, 2]},
}


def by(run: Run, code: str) -> Run:
    return run._replace(code=code, directory=f"{Path(run.directory).parent}/{run.digest}-{code}")


def finish(root: Path, run: Run) -> Path:
    write_json(root / run.directory / "summary.json", {"digest": run.digest})
    return root / run.directory


@pytest.fixture
def runs(project: Path) -> list[Run]:
    """Three runs that experiment `one` needs."""
    for path in (project / "experiments").rglob("*.yaml"):
        path.unlink()
    (project / "experiments" / "one.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    return planfile.runs(plan(Workspace(project), Request(("one",))))


def test_other_code_and_no_experiment_are_told_apart_and_nothing_is_deleted_unasked(
    project: Path, runs: list[Run]
) -> None:
    needed, old = finish(project, runs[0]), finish(project, by(runs[0], "0ther001"))
    gone = finish(project, runs[1]._replace(directory=runs[1].directory.replace(runs[1].digest, "0" * 16)))
    write_json(project / "results" / "adapted" / old.name / "fedbn-1.json", {})
    write_json(project / "results" / "adapted" / needed.name / "fedbn-1.json", {})
    (old / "weights").mkdir()
    (old / "weights" / "round1.safetensors").write_bytes(bytes(2_500_000))
    shown = done(fedshift(project, "gc"))
    lines = [line.split() for line in shown.splitlines()]
    below = old.relative_to(project).as_posix()
    assert ["2.5", "MB", "of", "other", "code", below] in lines
    assert ["0.0", "MB", "of", "no", "experiment", gone.relative_to(project).as_posix()] in lines
    assert f"results/adapted/{old.name}" in shown and f"results/adapted/{needed.name}" not in shown
    assert "2 of other code: 0.00 GB\n" in shown and "1 of no experiment: 0.00 GB\n" in shown
    assert shown.endswith("Nothing is deleted. To delete them: the same command with --delete.\n")
    assert old.is_dir() and gone.is_dir()
    assert needed.relative_to(project).as_posix() not in shown

    done(fedshift(project, "gc", "--delete"))
    assert (
        not old.exists() and not gone.exists() and not (project / "results" / "adapted" / old.name).exists()
    )
    assert needed.is_dir() and (project / "results" / "adapted" / needed.name).is_dir()
    assert done(fedshift(project, "gc")) == "Nothing is left over.\n"


def test_a_stamp_that_names_a_deleted_run_goes_with_it(project: Path, runs: list[Run]) -> None:
    """Else going back to that code would find its pack done and its runs missing."""
    before = [by(run, "0ther001") for run in runs[:2]]
    for run in (*before, runs[2]):
        finish(project, run)
    assert planfile.stamp(project, "a" * 16, before) and planfile.stamp(project, "b" * 16, [runs[2]])
    done(fedshift(project, "gc", "--delete"))
    assert [path.stem for path in (project / "results" / "packs").iterdir()] == ["b" * 16]


def test_what_is_being_trained_stays(project: Path, runs: list[Run]) -> None:
    """By whatever code."""
    directory = project / by(runs[0], "0ther001").directory
    directory.mkdir(parents=True)
    with claimed(directory):
        assert json.loads((directory / "claim.json").read_text())["pid"] == os.getpid()
        assert done(fedshift(project, "gc")) == "Nothing is left over.\n"
    write_json(
        directory / "claim.json", {"host": socket.gethostname(), "pid": 2**22 + 1, "born": "1", "job": None}
    )
    assert directory.name in done(fedshift(project, "gc"))


def test_by_version_a_run_that_stands_in_stays(project: Path, runs: list[Run]) -> None:
    stands_in, done_twice = finish(project, by(runs[0], "0ther001")), finish(project, by(runs[1], "0ther001"))
    finish(project, runs[1])
    shown = done(fedshift(project, "gc", "--rerun", "version"))
    assert stands_in.name not in shown and done_twice.name in shown
    assert stands_in.name in done(fedshift(project, "gc"))


def test_naming_experiments_asks_what_these_do_not_need(project: Path, runs: list[Run]) -> None:
    (project / "experiments" / "two.yaml").write_text(
        yaml.safe_dump({**EXPERIMENT, "axes": {"target": ["ink"], "seed": [0]}})
    )
    (other,) = planfile.runs(plan(Workspace(project), Request(("two",))))
    finish(project, other), finish(project, runs[0])
    assert done(fedshift(project, "gc")) == "Nothing is left over.\n"
    assert "1 of no experiment" in done(fedshift(project, "gc", "one"))
