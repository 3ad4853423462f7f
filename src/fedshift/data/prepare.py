"""Prepare: decode and resize every image once, into one uint8 memory map and one index.

Resizing gives exact squares, the aspect ratio is not kept; Pillow's bilinear filter, which is antialiased
when it shrinks. No shortcut is taken (`reducing_gap=None`, no JPEG draft mode), so the pixels depend on the
file and Pillow alone. EXIF rotation is applied, grey and palette images become RGB, an alpha channel is
dropped.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from fedshift.data.columns import read_columns, write_columns
from fedshift.data.dataset import Dataset
from fedshift.data.verify import manifest, verified
from fedshift.errors import FedshiftError
from fedshift.files import sha256_file, write_json
from fedshift.registry import get
from fedshift.spec import Prepare
from fedshift.workspace import Workspace

CHUNK = 64
IMAGES_PER_PROCESS = 1000  # a process takes half a second to start
RESAMPLING = {"bilinear": Image.Resampling.BILINEAR}
Decoded = tuple[NDArray[np.uint8], list[str]]
Work = Callable[[list[str]], Decoded]


def prepare(
    workspace: Workspace,
    name: str,
    release: str = "original",
    options: Prepare | None = None,
    jobs: int | None = None,
) -> Path:
    """Decode a data set into data/prepared/<dataset>/<px>-<recipe>/ and return that folder.

    It holds images.npy, index.parquet and prepared.json. A folder that exists is whole and returned at once
    (`verify_prepared` checks its hashes before training). `jobs`: processes, default the cores that this
    process may use. Raises FedshiftError naming every image that cannot be read; nothing is left behind then.
    """
    options = options or Prepare()
    folder = workspace.prepared_at(name, release, options)
    raw = manifest(workspace, name, release)["hash"]
    if not folder.exists():
        verified(workspace, name, release)
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        temporary.mkdir(parents=True)
        try:
            facts = {"dataset": name, "release": release, "prepare": options.model_dump(), "raw": raw}
            _write(temporary, get("datasets", name)(), workspace.raw(name, release), facts, options, jobs)
            _publish(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    if _facts(folder)["raw"] != raw:
        what, cure = (
            f"was made from another state of {name} {release}",
            f"Remove {folder} or name a new release.",
        )
        raise FedshiftError(folder, what, cure)
    return folder


def load(folder: Path) -> tuple[NDArray[np.uint8], pd.DataFrame]:
    """The images, a memory map uint8 [n, px, px, 3] in RGB, and the index: row i describes image i."""
    index = load_index(folder)
    return np.load(folder / "images.npy", mmap_mode="c", allow_pickle=False), index


def load_index(folder: Path) -> pd.DataFrame:
    """One row per image: sample, path, domain, class, label, split, group.

    Raises FedshiftError where it is absent or damaged.
    """
    return read_columns(folder / "index.parquet", f"Run: fedshift prepare {folder.parent.name}")[0]


def verify_prepared(folder: Path) -> dict[str, Any]:
    """Compare a prepared folder with the hashes in its prepared.json, and return that.

    Keys: dataset, release, prepare, raw (hash of the raw tree), version, domains, classes, images and index
    (hashes), pillow. The pixels are hashed once per process as long as size and time stay. Raises
    FedshiftError where they differ.
    """
    facts, cure = _facts(folder), _cure(folder)
    images = folder / "images.npy"
    _, index = read_columns(folder / "index.parquet", cure)
    if index["hash"] != facts["index"]:
        raise FedshiftError(folder / "index.parquet", "does not match prepared.json", cure)
    state = images.stat() if images.is_file() else None
    if state is None or _hash_once(images, state.st_size, state.st_mtime_ns) != facts["images"]:
        raise FedshiftError(images, "does not match prepared.json", cure)
    return facts


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "prepared.json"
    if not path.is_file():
        raise FedshiftError(folder, "is not prepared", _cure(folder))
    facts: dict[str, Any] = json.loads(path.read_text())
    return facts


def _cure(folder: Path) -> str:
    return f"Remove {folder} if it is there, and run: fedshift prepare {folder.parent.name}"


@functools.lru_cache(maxsize=16)
def _hash_once(path: Path, size: int, time: int) -> str:
    return sha256_file(path)


def _write(
    folder: Path, dataset: Dataset, raw: Path, facts: dict[str, Any], options: Prepare, jobs: int | None
) -> None:
    index = dataset.index(raw)
    index.insert(0, "sample", np.arange(len(index), dtype=np.int32))
    images, shape = folder / "images.npy", (len(index), options.px, options.px, 3)
    work = functools.partial(_decode, dataset, raw, options)
    tasks = [list(index["path"][start : start + CHUNK]) for start in range(0, len(index), CHUNK)]
    broken = []
    bar = tqdm(total=len(index), unit=" images", desc=f"prepare {dataset.name}", disable=None)
    try:
        with bar, open(images, "wb") as file:
            header = {"shape": shape, "fortran_order": False, "descr": "|u1"}
            np.lib.format.write_array_header_1_0(file, header)
            for pixels, failed in _parallel(work, tasks, len(index), jobs):
                file.write(pixels.data)
                broken += failed
                bar.update(len(pixels))
            os.fsync(file.fileno())
    except OSError as error:
        raise FedshiftError(
            images, f"cannot be written: {error}", "Free space, then run it again.", retry=True
        ) from error
    if broken:
        what = "\n  ".join([f"{len(broken)} images cannot be read:", *broken])
        raise FedshiftError(raw, what, "Replace them and verify, or fetch the data set anew.")
    domains, classes = dataset.domains_and_classes(raw)
    hashes = {"images": sha256_file(images), "index": write_columns(folder / "index.parquet", index, {})}
    made = {"version": dataset.version, "pillow": PIL.__version__, "domains": domains, "classes": classes}
    write_json(folder / "prepared.json", {**facts, **hashes, **made})


def _parallel(work: Work, tasks: list[list[str]], images: int, jobs: int | None) -> Iterator[Decoded]:
    workers = min(jobs or _cores(), max(1, images // IMAGES_PER_PROCESS))
    if workers == 1:
        yield from map(work, tasks)
    else:
        # spawned: a process that has threads (torch's) must not be forked
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            yield from pool.map(work, tasks)


def _cores() -> int:
    # macOS has no affinity
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _decode(dataset: Dataset, raw: Path, options: Prepare, paths: list[str]) -> Decoded:
    """Pixels [len(paths), px, px, 3], and a line per image that cannot be read."""
    size = (options.px, options.px)
    pixels = np.zeros((len(paths), *size, 3), dtype=np.uint8)
    broken = []
    for row, path in enumerate(paths):
        try:
            image = dataset.image(raw, path)
        except Exception as error:  # a decoder may raise anything when a file is damaged
            broken.append(f"{path}: {error}")
        else:
            resized = image.resize(size, RESAMPLING[options.resample], reducing_gap=None)
            pixels[row] = np.asarray(resized)
    return pixels, broken


def _publish(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.exists():  # else another process has just finished the same
            raise
