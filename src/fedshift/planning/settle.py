"""Stamps and marks made to agree with run directories, which alone decide what is left to train. Whoever asks
(snakemake, `fedshift plan`, `fedshift status`) settles first. Standard library only: the Snakefile needs it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

from fedshift.common.errors import FedshiftError
from fedshift.planning.planfile import Cell, Run
from fedshift.storage.workspace import Workspace


def settle(workspace: Workspace, runs: Iterable[Run], cells: Iterable[Cell]) -> None:
    """Settle the stamps of planned runs, and delete the mark of each experiment (cells) that lacks a stamp:
    Snakemake does not ask for a missing stamp while what was made from it exists.
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
    """Write the directories of stamped runs from collected metrics where no run has one, as in a clone after
    `dvc pull`. Where some exist, a lost one is trained again.
    """
    if not workspace.has_runs() and workspace.packs():
        program = [sys.executable, "-m", "fedshift", "--root", str(workspace.root), "pull", "--restore"]
        if subprocess.run(program, stdout=sys.stderr, check=False).returncode:
            what = "is empty, and the runs of results/packs could not be restored: see above"
            raise FedshiftError(
                workspace.results / "runs", what, "To train them again, delete results/packs."
            )
