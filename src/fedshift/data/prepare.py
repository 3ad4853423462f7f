"""Prepare: decode and resize every image once, into one uint8 memory map and one index.

Resizing gives exact squares, without the aspect ratio, by Pillow's bilinear filter, which is antialiased when
it shrinks. No shortcut is taken (no reducing gap, no JPEG draft mode), so the pixels only depend on the file
and on Pillow. EXIF rotation is applied, and grey and palette images become RGB. Transparent images get a
white background, or black if nothing could be seen on white.

Unfinished work is in a hidden folder next to the final one. Every few seconds the number of images on disk is
noted, so that a killed `prepare` resumes from there.
"""

import functools
import logging
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import PIL
from numpy.typing import NDArray
from PIL import Image
from tqdm import tqdm

from fedshift.common.errors import Damaged, FedshiftError
from fedshift.common.files import built_once, cure_of, read_json, read_whole, sha256, sha256_file, write_json
from fedshift.common.parquet import read_columns, write_columns
from fedshift.common.processes import spread, usable_cores
from fedshift.common.registry import get, module
from fedshift.data.dataset import Dataset
from fedshift.data.verify import manifest, verified
from fedshift.identity import fingerprint
from fedshift.spec.settings import Prepare, Source, short
from fedshift.storage.workspace import Workspace

log = logging.getLogger(__name__)
SAVE_SECONDS = 2.0
CHUNK = 64
IMAGES_PER_PROCESS = 1000  # a process takes half a second to start


def prepare(
    workspace: Workspace,
    name: str,
    release: str = "original",
    options: Prepare | None = None,
    jobs: int | None = None,
) -> Path:
    """Decode a data set into data/prepared/<dataset>/<px>-<recipe>/ and return that folder.

    It contains images.npy, index.parquet and prepared.json. A folder that exists is complete and returned at
    once (`load_prepared` checks its hashes before training). `jobs`: processes, default the cores that this
    process may use. Concurrent calls for the same folder wait for the first.

    Raises FedshiftError that names every image that cannot be read; nothing is left behind then. After a full
    disk or a kill, decoded images stay, and the next call resumes from them.
    """
    options = options or Prepare()
    folder = workspace.prepared(Source(dataset=name, release=release, prepare=options).prepared_name)
    raw = manifest(workspace, name, release)["hash"]
    if not folder.exists():
        verified(workspace, name, release)
        facts = {"dataset": name, "release": release, "prepare": options.model_dump(), "raw": raw}
        with built_once(folder) as part:
            if part is not None:
                _write(part, get("datasets", name)(), workspace.raw(name, release), facts, jobs)
    if prepared_facts(folder)["raw"] != raw:
        what = f"was made from another state of {name} {release}"
        raise FedshiftError(folder, what, f"Remove {folder} or name a new release.")
    return folder


@dataclass(frozen=True)
class Prepared:
    """The content of a prepared folder, compared with its hashes.

    - pixels: read-only memory map uint8 [n, px, px, 3] in RGB
    - index: row i describes image i: sample, path, domain, class, label, split, group
    - facts: content of prepared.json: dataset, release, prepare, raw (hash of the raw tree), version,
      domains, classes, pillow, images and index (hashes), code (fingerprint of the data set's module)
    """

    pixels: NDArray[np.uint8]
    index: pd.DataFrame
    facts: dict[str, Any]


def load_prepared(folder: Path) -> Prepared:
    """The images of a folder that `prepare` made; pixels are hashed once per process while size and time
    stay.

    Raises Damaged if they or the index do not match prepared.json.
    """
    facts, cure, images = prepared_facts(folder), _cure(folder), folder / "images.npy"
    if facts.get("code", now := fingerprint(module("datasets", facts["dataset"]))) != now:
        log.warning(
            "warning: %s was decoded before the file of data set %s changed. If that changes images or "
            "index, raise `version` in it.", folder, facts["dataset"],
        )  # fmt: skip
    index, header = read_columns(folder / "index.parquet", cure)
    if header["hash"] != facts["index"]:
        raise Damaged(folder / "index.parquet", "does not match prepared.json", cure)
    state = images.stat() if images.is_file() else None
    if state is None or _hash_once(images, state.st_size, state.st_mtime_ns) != facts["images"]:
        raise Damaged(images, "does not match prepared.json", cure)
    # Not "c": Linux rejects a private writable map that is larger than the machine's memory.
    return Prepared(np.load(images, mmap_mode="r", allow_pickle=False), index, facts)


def load_index(folder: Path) -> pd.DataFrame:
    """The index of `Prepared`. Raises FedshiftError if it is absent or damaged."""
    return read_columns(folder / "index.parquet", _cure(folder))[0]


def prepared_hash(facts: dict[str, Any]) -> str:
    """SHA-256 of pixels and index, which runs record; `facts`: those of a prepared folder."""
    return sha256(facts["images"] + facts["index"])


def prepared_facts(folder: Path) -> dict[str, Any]:
    """The content of prepared.json. Raises FedshiftError if there is none."""
    facts = read_json(folder / "prepared.json", _cure(folder))
    if facts is None:
        raise FedshiftError(folder, "is not prepared", _cure(folder))
    return facts


def _cure(folder: Path) -> str:
    px = folder.name.partition("-")[0]
    again = f"fedshift prepare {folder.parent.name} --px {px}"
    return f"Remove {folder} if it is there, and run: {again} (with --release, if yours is not the original)"


@functools.lru_cache(maxsize=16)
def _hash_once(path: Path, size: int, time: int) -> str:
    return sha256_file(path)


def _decode_chunk(dataset: Dataset, raw: Path, images: Path, task: tuple[int, Sequence[str]]) -> list[str]:
    """Decode images, (first row, paths), into their rows of a file; a line for each that cannot be read."""
    (first, paths), rows = task, np.load(images, mmap_mode="r")
    pixels = np.zeros((len(paths), *rows.shape[1:]), dtype=np.uint8)
    broken = []
    for row, path in enumerate(paths):
        try:
            image = dataset.image(raw, path)
        except Exception as error:  # a decoder may raise anything when a file is damaged
            broken.append(f"{path}: {error}")
        else:
            resized = image.resize(rows.shape[1:3], Image.Resampling.BILINEAR, reducing_gap=None)
            pixels[row] = np.asarray(resized)
    with open(images, "r+b") as file:  # not by the map: on a full disk, the process would be killed
        file.seek(rows.offset + first * rows[0].nbytes)
        file.write(pixels.data)
    return broken


def _write(part: Path, dataset: Dataset, raw: Path, facts: dict[str, Any], jobs: int | None) -> None:
    """Decode all images of a data set into an unfinished folder, with their index and facts."""
    index = dataset.index(raw)
    index.insert(0, "sample", np.arange(len(index), dtype=np.int32))
    code = fingerprint(module("datasets", dataset.name))
    facts |= {"version": dataset.version, "pillow": PIL.__version__, "code": code}
    images = part / "images.npy"
    try:
        broken = _decode(dataset, raw, list(index["path"]), images, facts, jobs)
    except OSError as error:
        cure = cure_of(error) or "Free space, then run it again."
        raise FedshiftError(images, f"cannot be written: {error}", cure, retry=True) from error
    if broken:
        what = "\n  ".join([f"{len(broken)} images cannot be read:", *broken])
        skip = f"fedshift fetch {dataset.name} --release {raw.name} --skip-broken"
        cure = "Replace them and verify, or fetch the data set again; leave them out of your tree:"
        raise FedshiftError(raw, what, f"{cure} {skip}")
    domains, classes = dataset.domains_and_classes(raw)
    hashes = {"images": sha256_file(images), "index": write_columns(part / "index.parquet", index, {})}
    write_json(part / "prepared.json", {**facts, **hashes, "domains": domains, "classes": classes})
    (part / "progress.json").unlink()


def _decode(
    dataset: Dataset, raw: Path, paths: list[str], images: Path, facts: dict[str, Any], jobs: int | None
) -> list[str]:
    """Decode the images that are not yet in the file `images`; returns a line for each unreadable one.

    progress.json contains the number of images on disk and the `work` that they belong to. If that is other
    work, or their file is shorter than all images, decoding starts from scratch.
    """
    progress, work, px = images.with_name("progress.json"), short(facts), facts["prepare"]["px"]
    broken, saved = list[str](), time.monotonic()
    noted = read_whole(progress) or {}
    whole = images.is_file() and images.stat().st_size > len(paths) * px * px * 3
    done: int = noted["done"] if whole and noted.get("work") == work else 0
    tasks = [(first, paths[first : first + CHUNK]) for first in range(done, len(paths), CHUNK)]
    needed, free = (len(paths) - done) * px * px * 3, shutil.disk_usage(images.parent).free
    if free < needed:
        what = f"needs {needed / 1e9:.1f} GB more, {free / 1e9:.1f} GB are free"
        raise FedshiftError(images, what, "Free space, then run it again.", retry=True)
    np.lib.format.open_memmap(images, "r+" if done else "w+", np.uint8, (len(paths), px, px, 3))
    decode = functools.partial(_decode_chunk, dataset, raw, images)
    bar = tqdm(total=len(paths), initial=done, unit=" images", desc=f"prepare {dataset.name}", disable=None)
    processes = spread((len(paths) - done) // IMAGES_PER_PROCESS, jobs or usable_cores())
    with bar, open(images, "r+b") as file, processes as each:
        for (first, chunk), failed in zip(tasks, each(decode, tasks), strict=True):
            broken += failed
            done = first + len(chunk)
            bar.update(len(chunk))
            if not broken and (done == len(paths) or time.monotonic() - saved >= SAVE_SECONDS):
                os.fsync(file.fileno())  # the pixels reach the disk before the number does
                write_json(progress, {"work": work, "done": done})
                saved = time.monotonic()
    return broken
