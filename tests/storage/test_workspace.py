"""What the Snakefile imports: paths, run directories and plans, by the standard library alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.common.files import write_bytes
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

HEAVY = {"torch", "pydantic", "numpy", "pandas", "pyarrow", "click"}


@pytest.mark.parametrize(
    "module",
    ["storage.workspace", "storage.rundir", "planning.planfile", "planning.job"],
)
def test_what_the_snakefile_imports_is_of_the_standard_library_alone(module: str) -> None:
    program = f"import sys, fedshift.{module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not HEAVY & {name.partition(".")[0] for name in done.stdout.split()}


def test_runs_are_those_that_are_here_in_order(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    assert list(workspace.runs()) == [] and workspace.packs() == []
    names = ["digits/fedavg/ink/seed0/1", "digits/fedavg/ink/seed1/0"]
    for name in reversed(names):
        workspace.run(name).path.mkdir(parents=True)
    assert list(workspace.runs()) == [workspace.run(name) for name in names]
    assert workspace.run_at(f"results/runs/{names[0]}") == workspace.run(names[0])


def test_manifests_are_the_projects_and_those_beside_raw_folders(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    theirs = workspace.reference / "datasets" / "pacs.json"
    mine = workspace.raw("folder", "mine").with_name("mine.manifest.json")
    for path in (theirs, mine, workspace.raw("folder", "mine") / "a.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert workspace.manifests() == sorted([theirs, mine])


def finish(run: RunDirectory, at: float) -> RunDirectory:
    """Make it a run that was finished at this time."""
    write_bytes(run.metrics, b"PAR1PAR1")
    run.finish({"at": at})
    os.utime(run.summary_file, (at, at))
    return run


def test_the_newest_finished_run_of_earlier_versions_stands_in_for_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    workspace, name = Workspace(tmp_path), "digits/fedavg/ink/seed0/d1ce"
    path = workspace.results / "runs" / name

    def both() -> RunDirectory:
        assert workspace.run_at(f"results/runs/{name}") == workspace.run(name)
        return workspace.run(name)

    begun, old, newer, other = (
        RunDirectory(path.with_name(name)) for name in ("d1ce-3", "d1ce-2", "d1ce-1", "d1cf-1")
    )
    begun.path.mkdir(parents=True)
    begun.checkpoint.touch()
    finish(other, 4e9)
    assert both().path == path
    finish(old, 1e9)
    assert both() == old
    finish(newer, 2e9)
    assert both() == newer
    newer.summary_file.write_bytes(b"")  # torn
    assert both() == old
    path.mkdir()  # as it is trained again
    assert both().path == path
    assert finish(both(), 0.5e9).path == both().path == path
