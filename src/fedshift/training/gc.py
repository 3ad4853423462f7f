"""Garbage below results/: runs that were trained again, or that no experiment uses any more."""

import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.common.registry import get
from fedshift.planning.planfile import Run
from fedshift.spec import RunSpec
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace
from fedshift.training.provide import of_other_images

NAME = re.compile(r"[0-9a-f]{16}(-[0-9a-f]{8})?")  # with a code: set aside, or of earlier versions
AGAIN = "trained again"
OTHER_IMAGES = "of other images"


@dataclass(frozen=True)
class Garbage:
    """A run's directory that no experiment needs."""

    path: Path
    why: str  # AGAIN, "of no experiment", or OTHER_IMAGES: a user's tree was decoded again, with other files
    size: int  # of its files, in bytes


def garbage(workspace: Workspace, wanted: Collection[Run]) -> Iterator[Garbage]:
    """Directories of runs that are not `wanted`, in order; before them, those of other images.

    Not included: runs that a process trains now, directories without a run's name, and a finished run until
    its successor has finished.
    """
    yield from (Garbage(path, OTHER_IMAGES, _size(path)) for path in _of_other_images(workspace, wanted))
    current = {run.digest: workspace.run_at(run.directory) for run in wanted}
    for run in workspace.runs():
        successor = current.get(run.digest, run)
        finished, needed = (one.outcome() is State.FINISHED for one in (run, successor))
        if run in current.values() or (finished and not needed) or run.writer():
            continue
        if NAME.fullmatch(run.name):
            yield Garbage(run.path, "of no experiment" if successor == run else AGAIN, _size(run.path))


def _of_other_images(workspace: Workspace, wanted: Iterable[Run]) -> Iterator[Path]:
    """Wanted runs on a tree of the user whose images have changed since; published ones do not change."""
    by_images: dict[str, list[Run]] = defaultdict(list)
    for run in wanted:
        by_images[run.prepared].append(run)
    for prepared, runs in by_images.items():
        data, folder = RunSpec.model_validate_json(runs[0].spec).data, workspace.root / prepared
        if folder.exists() and get("datasets", data.dataset)().release(data.release).manifest is None:
            directories = [workspace.run_at(run.directory) for run in runs]
            yield from (run.path for run in of_other_images(folder, directories) if not run.writer())


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def delete(directories: Collection[Garbage]) -> Iterator[Garbage]:
    """Delete directories one by one, except those of runs that a process has begun to train meanwhile."""
    for directory in directories:
        if not RunDirectory(directory.path).writer():
            if directory.path.is_symlink():
                directory.path.unlink()
            else:
                shutil.rmtree(directory.path)
        yield directory
