"""Sources: which runs of an experiment were trained here, and which are read from the archive."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from fedshift.analysis.collection.columns import ARCHIVE
from fedshift.analysis.collection.uses import Use
from fedshift.archive.store import stand_in
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

MARK = "§"  # beside a mean of which a run or more are archived


def with_archive(workspace: Workspace, use: Use) -> Use:
    """The use itself where its run is finished here; else that of the archived run, where there is one."""
    run = workspace.run_at(use.directory)
    if run.outcome() is State.FINISHED or (archived := stand_in(workspace, run)) is None:
        return use
    directory = archived.path.relative_to(workspace.root).as_posix()
    return use._replace(name=archived.name, directory=directory, source=ARCHIVE)


def note(runs: pd.DataFrame) -> list[str]:
    """What is said below tables of finished runs that are archived: how many, and of which machines."""
    archived = runs[runs["source"] == ARCHIVE]
    if archived.empty:
        return []
    machines = "; ".join(f"{name} ({count})" for name, count in Counter(archived["hardware"]).items())
    text = f"{len(archived)} of {len(runs)} runs, by {machines}"
    return [f"{MARK} From the archive (results-archive/), not trained here: {text}."]
