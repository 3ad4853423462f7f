"""The archive as a folder: which run is where, which of several counts, and how one is read as a run.

A file lies where its run lies below results/runs: results-archive/<data set>/<method>/<target>/seed<seed>/.
What two experiments share is archived once.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedshift.archive.check import check
from fedshift.archive.file import Archived, read
from fedshift.archive.pack import pack
from fedshift.files import built_once, write_bytes
from fedshift.rundir import RunDirectory
from fedshift.workspace import Workspace


def files(workspace: Workspace) -> list[Archived]:
    """All archived runs, in order. Raises FedshiftError for the first that is not whole."""
    return [read(path) for path in sorted(workspace.archive.rglob("*.zip"))]


def paths(workspace: Workspace, run: str) -> list[Path]:
    """The files of a run (identity.run_name), trained by any code; they are not read."""
    digest = run.rpartition("/")[2].partition("-")[0]
    return sorted(workspace.archived(run).glob(f"{digest}-*.zip"))


def found(workspace: Workspace, run: str) -> list[Archived]:
    """What is archived of a run (identity.run_name), trained by any code and on any machine; that which
    counts is the first: of the code in the name, else the newest.
    """
    code = run.rpartition("-")[2]
    return sorted(
        map(read, paths(workspace, run)), key=lambda one: (one.code != code, -one.index.finished, one.hash)
    )


def add(workspace: Workspace, run: RunDirectory) -> tuple[Archived | None, list[Archived]]:
    """Archive a finished run: return its file, None where there is one already or a newer one; and the files
    of the run that are no longer the newest, which are removed. Raises FedshiftError for a run that `check`
    would refuse.
    """
    check(workspace, new := pack(workspace, run))
    there = {one.path: one for one in found(workspace, new.index.run)}
    old = superseded({**there, new.path: new}.values())
    for one in old:
        one.path.unlink(missing_ok=True)
    if new.path in there or new in old:
        return None, [one for one in old if one is not new]
    write_bytes(new.path, new.data)
    return new, old


def outdated(one: Archived, other: Archived) -> bool:
    """Whether `other` is a newer file of the same run and takes the place of `one`: by other code, or by the
    same class of machine. Files of other machines stay beside each other.
    """
    alike = one.digest == other.digest and (one.code != other.code or one.machine == other.machine)
    return alike and one.index.finished < other.index.finished


def superseded(archived: Iterable[Archived]) -> list[Archived]:
    """Those that another one takes the place of, as a merge may leave them."""
    everything = list(archived)
    return [one for one in everything if any(outdated(one, other) for other in everything)]


def stand_in(workspace: Workspace, run: RunDirectory) -> RunDirectory | None:
    """The archived run, unpacked, for a run below results/runs that is not finished; None where there is
    none. Raises FedshiftError for a file that `check` refuses.
    """
    for archived in found(workspace, workspace.name_of(run))[:1]:
        check(workspace, archived)
        return unpacked(workspace, archived)
    return None


def unpacked(workspace: Workspace, archived: Archived) -> RunDirectory:
    """An archived run as the directory of a finished run, without weights, below results/archived."""
    folder = workspace.unpacked(archived.hash)
    name = f"{archived.digest}-{archived.code}"
    with built_once(folder) as part:
        if part:
            for member, data in archived.content.items():
                write_bytes(part / name / member, data)
    return RunDirectory(folder / name)
