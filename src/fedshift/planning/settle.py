"""Settle stamps and marks: make them agree with run directories, which alone determine what is left to train.

Snakemake, `fedshift plan` and `fedshift status` settle first. This module also finds finished runs whose
method or model has changed since. Standard library only: the Snakefile needs it.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator

from fedshift.common.errors import FedshiftError
from fedshift.planning.planfile import Cell, Run
from fedshift.storage.workspace import Workspace


def settle(workspace: Workspace, runs: Iterable[Run], cells: Iterable[Cell]) -> None:
    """Settle the stamps of planned runs, and delete the mark of each experiment with a missing stamp.

    Snakemake does not request a missing stamp while a file made from it exists. cells: uses of the runs.
    """
    packs: dict[str, list[Run]] = {}
    for run in runs:
        packs.setdefault(run.stamp, []).append(run)
    left: set[str] = set()
    for stamp, members in packs.items():
        if not workspace.pack(stamp).settle(workspace.run_at(run.directory) for run in members):
            left.update(run.digest for run in members)
    for experiment in {cell.experiment for cell in cells if cell.digest in left}:
        workspace.collected(experiment).unlink(missing_ok=True)


def restore_pulled(workspace: Workspace) -> None:
    """Restore the directories of stamped runs from collected metrics, if no run has one (a clone after `dvc
    pull`).

    If some directories exist, a lost one is trained again. Raises FedshiftError if the restore fails.
    """
    if not workspace.has_runs() and workspace.packs():
        program = [sys.executable, "-m", "fedshift", "--root", str(workspace.root), "pull", "--restore"]
        if subprocess.run(program, stdout=sys.stderr, check=False).returncode:
            what = "is empty, and the runs of results/packs could not be restored: see above"
            raise FedshiftError(
                workspace.results / "runs", what, "To train them again, delete results/packs."
            )


SHOWN = 3  # runs of a method that a warning names


def changed(workspace: Workspace, runs: Iterable[Run]) -> list[Run]:
    """The finished runs among `runs` whose method or model had other files than the installed ones.

    Runs of earlier versions have no fingerprint and are left out.
    """
    known = ((run, workspace.run_at(run.directory).summary()) for run in runs)
    return [run for run, summary in known if summary and summary.get("method_code", run.code) != run.code]


def warnings(changed: Iterable[Run]) -> Iterator[str]:
    """A line for each method that has changed since runs of it were trained, with the names of some of
    these runs.
    """
    by_method: dict[str, list[Run]] = {}
    for run in changed:
        by_method.setdefault(run.method, []).append(run)
    for method, runs in by_method.items():
        named = ", ".join(run.directory for run in runs[:SHOWN])
        named += f" and {len(runs) - SHOWN} more" * (len(runs) > SHOWN)
        yield (
            f"The file of method {method} or its model has changed since {len(runs)} runs were trained: "
            f"{named}. If that changes no number, ignore this. Otherwise: fedshift plan --retrain-changed"
        )


def retrain(workspace: Workspace, runs: Iterable[Run]) -> None:
    """Set aside the directories of finished runs as `<digest>-<code>`, so that the runs are trained again.

    They stay until `fedshift gc --delete`. An older directory of the same name is deleted, as are stamps of
    packs that name these runs.
    """
    runs = list(runs)
    digests = {run.digest for run in runs}
    for stamp in workspace.packs() if runs else ():
        if stamp.digests() & digests:
            stamp.delete()
    for run in runs:
        directory, planned = workspace.run_at(run.directory), workspace.root / run.directory
        if directory.path == planned:
            code = (directory.summary() or {})["method_code"]
            aside = planned.with_name(f"{run.digest}-{code}")
            shutil.rmtree(aside, ignore_errors=True)
            planned.rename(aside)
        planned.mkdir()  # while it exists, the directory set aside does not replace it
