"""Which files of a run stay, which counts, and what git makes of two contributors."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from fedshift.archive import file, store
from fedshift.archive.file import Archived, check
from fedshift.common.files import write_json
from fedshift.storage.workspace import Workspace
from tests.archive.conftest import later, of_earlier_version, with_summary


def other_machine(summary: dict[str, Any]) -> None:
    summary["environment"] |= {"capability": "another", "host": "elsewhere"}


def run_of(workspace: Workspace, method: str) -> Any:
    return next(run for run in workspace.runs() if method in run.path.parts)


def trained_elsewhere(workspace: Workspace, archived: Archived) -> Archived:
    """The same run by another machine, in the archive beside the first."""
    data = archived.path.read_bytes()
    other = with_summary(archived, other_machine)
    archived.path.write_bytes(data)
    assert other.path != archived.path
    return other


def test_a_run_is_archived_once_and_machines_stand_side_by_side(here: Workspace, archived: Archived) -> None:
    other, before = trained_elsewhere(here, archived), archived.path.stat().st_mtime_ns
    assert store.superseded(store.files(here)) == []
    assert store.add(here, run_of(here, "fedbn")) == (None, [])
    assert archived.path.stat().st_mtime_ns == before
    found = store.of_run(here, archived.index.run)
    assert {one.path for one in found} == {archived.path, other.path}
    model = f" ({other.machine.model})" * bool(other.machine.model)  # where the system tells it
    assert str(other.machine).startswith(f"cpu another{model}, threads: 1, torch ")


def test_the_newest_takes_the_place_of_the_same_machine(here: Workspace, archived: Archived) -> None:
    """The run is trained again, a minute later."""
    first = archived.path.read_bytes()
    run = run_of(here, "fedbn")
    later(run)
    new, replaced = store.add(here, run)
    assert new and [one.path for one in replaced] == [archived.path] and not archived.path.exists()

    archived.path.write_bytes(first)  # as a merge may bring it back
    assert [one.path for one in store.superseded(store.files(here))] == [archived.path]
    assert store.of_run(here, new.index.run)[0].path == new.path
    assert store.add(here, run)[0] is None and not archived.path.exists()


def test_of_a_changed_method_it_takes_the_place_of_all_machines(here: Workspace, archived: Archived) -> None:
    other = trained_elsewhere(here, archived)
    run = run_of(here, "fedbn")
    later(run)
    write_json(run.summary_file, {**(run.summary() or {}), "method_code": "0ther001"})
    new, replaced = store.add(here, run)
    assert new and {one.path for one in replaced} == {archived.path, other.path}
    assert [one.path for one in store.files(here)] == [new.path]


def test_a_file_of_an_earlier_version_is_read_listed_and_found_by_its_digest(
    here: Workspace, archived: Archived
) -> None:
    """Its name has the code, its summary no fingerprint of the method. A newer file takes its place."""
    data = archived.path.read_bytes()
    old = of_earlier_version(archived)
    check(here, file.read(old.path))
    assert old.path.name.startswith(f"{archived.digest}-0dd00001-") and old.digest == archived.digest
    assert store.unpacked(here, old).name == f"{archived.digest}-0dd00001"
    archived.path.write_bytes(data)
    assert {one.path for one in store.files(here)} == {old.path, archived.path}
    assert {row[4] for row in store.listed([old, archived])[:-1]} == {archived.digest}
    for name in (archived.index.run, old.index.run):
        assert {one.path for one in store.of_run(here, name)} == {old.path, archived.path}
    assert store.superseded(store.files(here)) == []  # as old as the other

    run = run_of(here, "fedbn")
    later(run)
    new, replaced = store.add(here, run)
    assert new and {one.path for one in replaced} == {old.path, archived.path}
    assert store.of_run(here, old.index.run)[0].path == new.path


def git(root: Path, *words: str) -> str:
    options = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *options, *words], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_contributors_merge_without_conflict(here: Workspace, tmp_path: Path) -> None:
    """One archives fedavg and fedbn, the other fedbn of another machine; both from one commit."""
    (here.root / ".gitignore").write_text("results/\ndata\n")
    git(here.root, "init")
    git(here.root, "add", "-A")
    git(here.root, "commit", "-m", "experiment")
    git(tmp_path, "clone", str(here.root), "there")
    there = Workspace(tmp_path / "there")
    shutil.copytree(here.results, there.results)

    for run in here.runs():
        store.add(here, run)
    git(here.root, "add", "-A")
    git(here.root, "commit", "-m", "archive: here")
    new, _ = store.add(there, run_of(there, "fedbn"))
    assert new
    with_summary(new, other_machine)
    git(there.root, "add", "-A")
    git(there.root, "commit", "-m", "archive: there")

    git(here.root, "fetch", str(there.root), "main")
    git(here.root, "merge", "FETCH_HEAD", "-m", "merge")
    merged = store.files(here)
    assert sorted(one.index.run.split("/")[1] for one in merged) == ["fedavg", "fedbn", "fedbn"]
    for one in merged:
        check(here, one)
    assert len({one.machine for one in merged}) == 2
