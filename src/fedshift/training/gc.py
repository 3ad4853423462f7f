"""Garbage below results/: runs that were trained again, are of other images, or of no experiment."""

import contextlib
import re
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.planning.planfile import Run
from fedshift.spec import RunSpec, parse
from fedshift.spec.settings import Source
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace
from fedshift.training.provide import of_other_images

NAME = re.compile(r"[0-9a-f]{16}(-[0-9a-f]{8})?")  # with a code: set aside, or of earlier versions
AGAIN = "trained again"
OTHER_IMAGES = "of other images"  # a user's tree was decoded again, with other files
UNUSED = "of no experiment"  # also what `fedshift train` and `fedshift.run` made


@dataclass(frozen=True)
class Garbage:
    """A run's directory that no experiment needs."""

    path: Path
    why: str  # AGAIN, OTHER_IMAGES or UNUSED
    size: int  # of its files, in bytes


def garbage(workspace: Workspace, wanted: Collection[Run]) -> Iterator[Garbage]:
    """Directories of runs that are not `wanted`, in order; before them, those of other images.

    Runs that a process trains now are left out, as are directories without a run's name.
    """
    taken = {workspace.run_at(run.directory).path for run in wanted}
    digests = {run.digest for run in wanted}
    unfinished = (run for run in wanted if workspace.run_at(run.directory).outcome() is not State.FINISHED)
    begun = {run.digest for run in unfinished}
    yield from (Garbage(path, OTHER_IMAGES, _size(path)) for path in _of_other_images(workspace, wanted))
    for run in workspace.runs():
        if NAME.fullmatch(run.path.name) and run.path not in taken and not run.writer():
            why = AGAIN if run.digest in digests else _why_unwanted(workspace, run)
            if run.digest in begun and run.outcome() is State.FINISHED:
                continue  # until its successor has finished
            yield Garbage(run.path, why, _size(run.path))


def _of_other_images(workspace: Workspace, wanted: Iterable[Run]) -> Iterator[Path]:
    """Wanted runs on a tree of the user whose images have changed since.

    Published images do not change. If another Pillow decodes them differently, runs stay valid.
    """
    by_images: dict[str, list[Run]] = defaultdict(list)
    for run in wanted:
        by_images[run.prepared].append(run)
    for runs in by_images.values():
        if folder := _own_images(workspace, RunSpec.model_validate_json(runs[0].spec).data):
            directories = [workspace.run_at(run.directory) for run in runs]
            yield from (run.path for run in of_other_images(folder, directories) if not run.writer())


def _own_images(workspace: Workspace, data: Source) -> Path | None:
    """The decoded images of a tree of the user, if they are here; None for published images."""
    published = get("datasets", data.dataset)().release(data.release).manifest
    folder = workspace.prepared(data.prepared_name)
    return folder if published is None and folder.exists() else None


def _why_unwanted(workspace: Workspace, run: RunDirectory) -> str:
    """OTHER_IMAGES or UNUSED, for a run of no experiment."""
    with contextlib.suppress(FedshiftError, KeyError):  # of an earlier version
        data = parse((run.summary() or {})["spec"], str(run.summary_file)).data
        if (folder := _own_images(workspace, data)) and of_other_images(folder, [run]):
            return OTHER_IMAGES
    return UNUSED


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def delete(workspace: Workspace, directories: Collection[Garbage]) -> Iterator[Garbage]:
    """Delete directories one by one, each after the stamps of packs that name its run.

    A stamp means that nothing is left to train, so stamps stay if the run was trained again. A run that a
    process has begun to train meanwhile is not deleted.
    """
    digests = {stamp: stamp.digests() for stamp in workspace.packs()}
    for directory in directories:
        path, run = directory.path, RunDirectory(directory.path)
        if not run.writer():
            named = directory.why != AGAIN
            for stamp in [stamp for stamp, runs in digests.items() if named and run.digest in runs]:
                stamp.delete()
                del digests[stamp]
            if path.is_symlink():
                path.unlink()
            else:
                shutil.rmtree(path)
        yield directory
