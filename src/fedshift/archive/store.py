"""The archive as a folder: which run is where, which file counts, and how it is read as a run.

A file lies where its run lies below results/runs: results-archive/<data set>/<method>/<target>/seed<seed>/.
What two experiments share is archived once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from pathlib import Path

from fedshift.archive.check import check
from fedshift.archive.file import Archived, read
from fedshift.archive.pack import pack
from fedshift.common.files import built_once, write_bytes
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace


def files(workspace: Workspace) -> list[Archived]:
    """All archived runs, in order. Raises FedshiftError for the first that is not whole."""
    return [read(path) for path in sorted(workspace.archive.rglob("*.zip"))]


def paths(workspace: Workspace, run: str) -> list[Path]:
    """The archived files of a run (RunSpec.run_name); their content is not read."""
    folder, digest = workspace.archived(run), run.rpartition("/")[2].partition("-")[0]
    names = os.listdir(folder) if folder.is_dir() else ()  # glob compiles a pattern for every run
    return sorted(folder / name for name in names if name.startswith(f"{digest}-") and name.endswith(".zip"))


def archived(workspace: Workspace, directories: Iterable[str]) -> int:
    """How many of the runs with these directories, below the workspace's root, have an archived file."""
    names = (workspace.name_of(workspace.run_at(directory)) for directory in directories)
    return sum(bool(paths(workspace, name)) for name in names)


def of_run(workspace: Workspace, run: str) -> list[Archived]:
    """The archived files of a run (RunSpec.run_name), of several machines. Tables take the first, the
    newest.
    """
    files = map(read, paths(workspace, run))
    return sorted(files, key=lambda file: (-file.index.finished, file.hash))


def add(workspace: Workspace, run: RunDirectory) -> tuple[Archived | None, list[Archived]]:
    """Archive a finished run: return its file, None where that or a newer one is present; and the superseded
    files of the run, which are removed. Raises FedshiftError for a run that `check` would refuse.
    """
    check(workspace, new := pack(workspace, run))
    present = {file.path: file for file in of_run(workspace, new.index.run)}
    removed = [file for file in superseded({**present, new.path: new}.values()) if file.path in present]
    written = new.path not in present and not any(outdated(new, file) for file in present.values())
    if written:
        write_bytes(new.path, new.data)
    for file in removed:
        file.path.unlink()
    return (new if written else None), removed


def outdated(file: Archived, other: Archived) -> bool:
    """Whether `other` is a newer file of the same run and takes the place of `file`: of the same class of
    machine, or by a changed method. Files of other machines stay beside each other.
    """
    changed = file.summary.get("method_code") != other.summary.get("method_code")
    same_run = file.digest == other.digest and (changed or file.machine == other.machine)
    return same_run and file.index.finished < other.index.finished


def superseded(files: Iterable[Archived]) -> list[Archived]:
    """The files that another of `files` supersedes, as a merge of branches may leave them."""
    every = list(files)
    return [file for file in every if any(outdated(file, other) for other in every)]


def stand_in(workspace: Workspace, run: RunDirectory) -> RunDirectory | None:
    """The archived run, unpacked, for a run below results/runs that is not finished; None where there is
    none. Raises FedshiftError for a file that `check` refuses.
    """
    for archived in of_run(workspace, workspace.name_of(run))[:1]:
        _checked(workspace, archived.path)
        return unpacked(workspace, archived)
    return None


@functools.cache
def _checked(workspace: Workspace, path: Path) -> None:
    """Once for several experiments that share a run: the name of a file has the hash of its content, which
    `read` holds it against.
    """
    check(workspace, read(path))


def unpacked(workspace: Workspace, archived: Archived) -> RunDirectory:
    """An archived run as the directory of a finished run, without weights, below results/archived."""
    folder = workspace.unpacked(archived.hash)
    with built_once(folder) as part:
        if part:
            for member, data in archived.content.items():
                write_bytes(part / archived.run / member, data)
    return RunDirectory(folder / archived.run)
