"""What no experiment needs any more: found, measured, and deleted with the stamps that speak of it."""

import json
import os
from pathlib import Path

import pytest
import yaml

from fedshift.common.files import locked, write_bytes, write_json
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.planfile import Run
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
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
    directory = Workspace(root).run_at(run.directory)
    write_bytes(directory.metrics, b"PAR1PAR1")
    directory.finish({"digest": run.digest})
    return directory.path


@pytest.fixture
def runs(project: Path) -> list[Run]:
    """Three runs that experiment `one` needs."""
    for path in (project / "experiments").rglob("*.yaml"):
        path.unlink()
    (project / "experiments" / "one.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    return planfile.runs(plan(Workspace(project), Request(("one",))))


def test_what_was_trained_again_and_no_experiment_are_told_apart_and_nothing_is_deleted_unasked(
    project: Path, runs: list[Run]
) -> None:
    needed, old = finish(project, runs[0]), finish(project, by(runs[0], "0dd00001"))
    gone = finish(project, runs[1]._replace(directory=runs[1].directory.replace(runs[1].digest, "0" * 16)))
    kept = done(fedshift(project, "gc", "--delete"))
    assert gone.name not in kept and "1 of no experiment" in kept and gone.is_dir() and not old.exists()
    old = finish(project, by(runs[0], "0dd00001"))
    (old / "weights").mkdir()
    (old / "weights" / "round1.safetensors").write_bytes(bytes(2_500_000))
    shown = done(fedshift(project, "gc", "--unused"))
    lines = [line.split() for line in shown.splitlines()]
    below = old.relative_to(project).as_posix()
    assert ["2.5", "MB", "trained", "again", below] in lines
    assert ["0.0", "MB", "of", "no", "experiment", gone.relative_to(project).as_posix()] in lines
    assert "1 trained again: 0.00 GB\n" in shown and "1 of no experiment: 0.00 GB\n" in shown
    assert shown.endswith("Nothing is deleted. To delete them: the same command with --delete.\n")
    assert old.is_dir() and gone.is_dir()
    assert f"{needed.relative_to(project).as_posix()}\n" not in shown

    done(fedshift(project, "gc", "--unused", "--delete"))
    assert not old.exists() and not gone.exists() and needed.is_dir()
    assert done(fedshift(project, "gc")) == "Nothing is left over.\n"


def test_a_stamp_that_names_a_deleted_run_goes_with_it(project: Path, runs: list[Run]) -> None:
    """Else an experiment that has them again would find its pack done and its runs missing. What was trained again has its successor's stamp."""
    gone = [run._replace(digest=digest * 16) for run, digest in zip(runs, "01", strict=False)]
    gone[0] = gone[0]._replace(directory=runs[0].directory.replace(runs[0].digest, gone[0].digest))
    gone[1] = by(gone[1], "0dd00001")  # of an earlier version
    for run in (*gone, runs[2], by(runs[2], "0dd00001")):
        finish(project, run)
    workspace = Workspace(project)
    for name, run in zip("abc", (*gone, runs[2]), strict=True):
        assert workspace.pack(name * 16).write([workspace.run_at(run.directory)])
    done(fedshift(project, "gc", "--unused", "--delete"))
    assert [stamp.digests() for stamp in workspace.packs()] == [{runs[2].digest}]


def test_what_is_being_trained_stays(project: Path, runs: list[Run]) -> None:
    """Also what was set aside."""
    directory = project / by(runs[0], "0dd00001").directory
    directory.mkdir(parents=True)
    with locked(directory / "lock.json"):
        assert json.loads((directory / "lock.json").read_text())["pid"] == os.getpid()
        assert done(fedshift(project, "gc")) == "Nothing is left over.\n"
    (directory / "lock.json").touch()  # of a process that was killed
    assert directory.name in done(fedshift(project, "gc"))


def test_a_run_of_earlier_versions_stays_while_it_stands_in(project: Path, runs: list[Run]) -> None:
    """Of two the newest; and what is begun of a run that is to be trained again is no garbage."""
    only, older = (finish(project, by(runs[0], code)) for code in ("0dd00001", "0dd00002"))
    os.utime(older / "summary.json", (1e9, 1e9))
    aside = finish(project, by(runs[1], "0dd00001"))
    begun = project / runs[1].directory
    begun.mkdir()
    (begun / "checkpoint.safetensors").touch()
    shown = done(fedshift(project, "gc"))
    assert only.name not in shown and older.name in shown and aside.name not in shown
    assert shown.count(f"{begun.name}\n") == 0


def test_what_bears_no_runs_name_is_not_ours_and_a_link_is_removed_alone(
    project: Path, runs: list[Run], tmp_path_factory: pytest.TempPathFactory
) -> None:
    beside = (project / runs[0].directory).parent
    (beside / "my notes").mkdir(parents=True)
    assert done(fedshift(project, "gc")) == "Nothing is left over.\n"
    elsewhere = tmp_path_factory.mktemp("disk") / "run"
    write_json(elsewhere / "summary.json", {})
    link = beside / f"{'0' * 16}-0dd00001"
    link.symlink_to(elsewhere)
    kept, aside = finish(project, runs[2]), finish(project, by(runs[2], "0dd00001"))
    done(fedshift(project, "gc", "--unused", "--delete"))
    assert not link.is_symlink() and (elsewhere / "summary.json").is_file()
    assert not aside.exists() and kept.is_dir() and (beside / "my notes").is_dir()
