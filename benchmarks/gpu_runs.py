"""The files of gpu_minutes.py: runs and what they read, packed for another machine; what comes back from there."""

from __future__ import annotations

import argparse
import io
import json
import shutil
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedshift.archive import file, store
from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_json
from fedshift.common.version import commit
from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from fedshift.spec import RunSpec
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace

FACTS, STRIP = "campaign.json", 16383  # of a packed file; the most rows of a WebP image
FILES, LARGEST, ALL = 7, 15 << 20, 60 << 20  # that come back; bytes of one, and of all


def pack(options: argparse.Namespace) -> None:
    """Write the runs that are left to do, and what they read, to one file."""
    from fedshift.cli.plan import read_request
    from fedshift.planning.plan import plan

    workspace = Workspace(options.root)
    planned = plan(workspace, read_request(workspace, tuple(options.experiments), device="cuda"))
    left, packed = ordered(workspace, planned, options.experiments), list[Run]()
    free, known = options.mib << 20, dict[str, bool]()  # folders of images, and whether they had room
    options.file.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(options.file, "w") as tar:
        for run in left[: options.runs]:
            if known.get(run.prepared, True):
                try:
                    files = needed(workspace, run, free, known)
                except FedshiftError as error:
                    print(f"left out: {error}")
                    continue
                free -= sum(len(data) for name, data in files.items() if name.startswith(run.prepared))
                for name, data in files.items():
                    if name not in known:
                        member(tar, name, data)
                known |= dict.fromkeys([run.prepared, *files], True)
                packed.append(run)
        facts = {"commit": commit(), "sources": planfile.sources_key()}
        runs = [run._asdict() for run in packed]
        member(tar, FACTS, json.dumps({**facts, "runs": runs}).encode())
    print(f"{options.file}: {len(packed)} of {len(left)} runs, {options.file.stat().st_size / 2**20:.1f} MiB")


def ordered(workspace: Workspace, plan: Path, named: list[str]) -> list[Run]:
    """Runs that are neither finished nor archived. The first seed of all comes first; of a seed the experiment that is
    named first; of that whole rows of its tables (all held-out domains), those first that take the fewest minutes.
    """
    rows, runs = dict[str, tuple[int, str]](), planfile.runs(plan)
    experiments = [*named, *planfile.request(workspace, plan).experiments]
    for use in planfile.cells(plan):
        axes = {key: value for key, value in json.loads(use.axes).items() if key not in ("target", "seed")}
        row = experiments.index(use.experiment), f"{use.label} {axes}"
        rows[use.digest] = min(row, rows.get(use.digest, row))
    left = [
        run
        for run in runs
        if workspace.run_at(run.directory).outcome() is not State.FINISHED
        and not store.archived(workspace, [run.directory])
    ]
    minutes = defaultdict[tuple[int, tuple[int, str]], float](float)
    for run in left:
        minutes[run.seed, rows[run.digest]] += run.minutes

    def value(run: Run) -> tuple[Any, ...]:
        row = rows[run.digest]
        return run.seed, row[0], minutes[run.seed, row], row, run.minutes

    return sorted(left, key=value)


def needed(workspace: Workspace, run: Run, free: int, known: dict[str, bool]) -> dict[str, bytes]:
    """What a run reads, but for images in `known`: by place below the root. Raises FedshiftError for what
    cannot be had here, and for images of more than `free` bytes, which are then known to have no room.
    """
    from fedshift.planning.lacking import lacking
    from fedshift.training.provide import divide, images

    spec, files = RunSpec.model_validate_json(run.spec), dict[str, bytes]()
    for lack in lacking(workspace, [spec]):
        raise FedshiftError(run.directory, f"lacks {lack.what}", lack.cure)
    if run.prepared not in known:
        known[run.prepared] = False
        folder = images(workspace, spec)
        for name, data in compressed(folder):
            files[f"{run.prepared}/{name}"] = data
            if (free := free - len(data)) < 0:
                raise FedshiftError(folder, "its images do not fit", "Allow more: --mib.")
    files[run.partition] = divide(workspace, spec).read_bytes()
    return files | checkpointed(workspace, workspace.run_at(run.directory))


def compressed(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The files of decoded images by name, pixels as lossless WebP."""
    pixels = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False)
    rows = STRIP // (px := pixels.shape[1])
    for number, first in enumerate(range(0, len(pixels), rows)):
        sink = io.BytesIO()
        strip = np.ascontiguousarray(pixels[first : first + rows]).reshape(-1, px, 3)
        Image.fromarray(strip).save(sink, "WEBP", lossless=True, quality=50, method=3)
        yield f"{number:05}.webp", sink.getvalue()
    for name in ("index.parquet", "prepared.json"):
        yield name, (folder / name).read_bytes()


def unpacked(data: Path, workspace: Workspace) -> list[Run]:
    """The packed runs, with what they read below the workspace."""
    with tarfile.open(data) as tar:
        tar.extractall(workspace.root, filter="data")
    for folder in {path.parent for path in (workspace.root / "data" / "prepared").rglob("*.webp")}:
        strips = sorted(folder.glob("*.webp"))
        pixels = [np.asarray(Image.open(path).convert("RGB")) for path in strips]
        px = pixels[0].shape[1]
        np.save(folder / "images.npy", np.concatenate(pixels).reshape(-1, px, px, 3), allow_pickle=False)
        for path in strips:
            path.unlink()
    return [Run(**run) for run in facts(workspace)["runs"]]


def facts(workspace: Workspace) -> dict[str, Any]:
    """What was packed: `runs`, the `commit` of the sources, and their hash (`sources`)."""
    return read_json(workspace.root / FACTS, "") or {}


def checkpointed(workspace: Workspace, run: RunDirectory) -> dict[str, bytes]:
    """The files of a run that has a checkpoint, by place below the root; of another one none."""
    if run.state() is not State.INTERRUPTED:
        return {}
    paths = sorted(path for path in run.path.rglob("*") if path.is_file() and path != run.lock)
    return {path.relative_to(workspace.root).as_posix(): path.read_bytes() for path in paths}


def add(out: Path, kind: str, files: dict[str, bytes]) -> None:
    """Append files to the last archive of a kind, or to a new one where it has no room for them."""
    size = sum(map(len, files.values()))
    path = max(out.glob(f"{kind}-*.tar"), default=out / f"{kind}-0.tar")
    if path.exists() and path.stat().st_size + size > LARGEST:
        path = out / f"{kind}-{int(path.stem[-1]) + 1}.tar"
    there = [*out.iterdir()]
    full = len(there) + (path not in there) > FILES or size + sum(one.stat().st_size for one in there) > ALL
    if full or size > LARGEST:
        raise OSError(f"{size >> 20} MiB have no room")
    with tarfile.open(path, "a") as tar:
        for name, data in files.items():
            member(tar, name, data)


def member(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def take(options: argparse.Namespace) -> None:
    """Bring what came back into the archive, and unfinished runs below results/runs."""
    workspace, taken, resumed = Workspace(options.root), 0, 0
    for path in options.files:
        with tarfile.open(path) as tar, tempfile.TemporaryDirectory() as folder:
            tar.extractall(folder, filter="data")
            for found in sorted(Path(folder).glob("results-archive/**/*.zip")):
                archived = file.read(found)
                new = replace(archived, path=workspace.archived(archived.index.run) / found.name)
                taken += store.keep(workspace, new)[0] is not None
            for found in Path(folder).glob("results/runs/*/*/*/*/*"):
                run = workspace.run_at(found.relative_to(folder).as_posix())
                if run.state() is State.MISSING:
                    shutil.copytree(found, run.path, dirs_exist_ok=True)
                    resumed += 1
    print(f"{taken} archived runs are new, {resumed} unfinished ones are below {workspace.results}/runs.")
