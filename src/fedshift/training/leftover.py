"""What lies below results/ and nothing asks for: runs and adaptations of other code, or that no experiment has any more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.planning.planfile import Run
from fedshift.training.claim import alive, holder
from fedshift.workspace import Workspace


@dataclass(frozen=True)
class Leftover:
    """A directory that nothing asks for: why, and its size in bytes."""

    path: Path
    why: str
    size: int


def leftovers(workspace: Workspace, wanted: Collection[Run]) -> Iterator[Leftover]:
    """Directories of runs that are not `wanted`, and of their adaptations, in order. What is being trained is none."""
    names, digests = {run.name for run in wanted}, {run.digest for run in wanted}
    results = workspace.results
    for path in [*sorted(results.glob("runs/*/*/*/*/*/")), *sorted(results.glob("adapted/*/"))]:
        claim = holder(path / "claim.json")
        if path.name not in names and not (claim and alive(claim)):
            asked_for = path.name.partition("-")[0] in digests
            why = "of other code" if asked_for else "of no experiment"
            yield Leftover(path, why, sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))


def delete(workspace: Workspace, found: Collection[Leftover]) -> Iterator[Leftover]:
    """Delete directories one by one, after the stamps of packs that name their runs: a stamp says that there is nothing to train."""
    names = {one.path.name for one in found}
    for stamp in (workspace.results / "packs").glob("*.json"):
        told = json.loads(stamp.read_text())
        if names & {*told["finished"], *told["failed"]}:
            stamp.unlink()
    for one in found:
        shutil.rmtree(one.path)
        yield one
