"""What lies below results/ and nothing asks for: runs and adaptations of other code, or that no experiment has any more."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.planning.planfile import Run
from fedshift.training.claim import alive, holder
from fedshift.workspace import Workspace

NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")  # <digest>-<code>


@dataclass(frozen=True)
class Leftover:
    """A directory that nothing asks for: why, and its size in bytes."""

    path: Path
    why: str
    size: int


def leftovers(workspace: Workspace, wanted: Collection[Run]) -> Iterator[Leftover]:
    """Directories of runs that are not `wanted`, and of their adaptations, in order.

    What is being trained is none, nor what the installed code has begun of a wanted run; nor is what bears no run's name.
    """
    names = {run.name for run in wanted} | {f"{run.digest}-{run.installed}" for run in wanted}
    digests = {run.digest for run in wanted}
    results = workspace.results
    for path in [*sorted(results.glob("runs/*/*/*/*/*/")), *sorted(results.glob("adapted/*/"))]:
        if NAME.fullmatch(path.name) and path.name not in names and not _trained(path):
            why = "of other code" if path.name.partition("-")[0] in digests else "of no experiment"
            yield Leftover(path, why, sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))


def delete(workspace: Workspace, found: Collection[Leftover]) -> Iterator[Leftover]:
    """Delete directories one by one, each after the stamps of packs that name its run: a stamp says that there is nothing to train.

    What has come to be trained meanwhile stays.
    """
    stamps = {path: _named(path) for path in (workspace.results / "packs").glob("*.json")}
    for one in found:
        if not _trained(one.path):
            for stamp in [path for path, names in stamps.items() if one.path.name in names]:
                stamp.unlink(missing_ok=True)
                del stamps[stamp]
            if one.path.is_symlink():
                one.path.unlink()
            else:
                shutil.rmtree(one.path)
        yield one


def _trained(path: Path) -> bool:
    claim = holder(path / "claim.json")
    return claim is not None and alive(claim)


def _named(stamp: Path) -> set[str]:
    told = json.loads(stamp.read_text())
    return {*told["finished"], *told["failed"]}
