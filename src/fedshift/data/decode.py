"""Decode images, in parallel, straight to their place in images.npy: memory holds one chunk a process,
whatever the data set's size.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from pathlib import Path

import numpy as np
from PIL import Image

from fedshift.data.dataset import Dataset
from fedshift.spec import Prepare

CHUNK = 64
IMAGES_PER_PROCESS = 1000  # a process takes half a second to start
RESAMPLING = {"bilinear": Image.Resampling.BILINEAR}
Task = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Decoder:
    """Which images of a raw tree become which rows of `file`, whose pixels begin at byte `offset`."""

    dataset: Dataset
    raw: Path
    options: Prepare
    file: Path
    offset: int

    def __call__(self, task: Task) -> list[str]:
        """Write the images `task` = (first row, paths); returns a line for each that cannot be read. Raises
        OSError on a full disk.
        """
        first, paths = task
        px = self.options.px
        pixels = np.zeros((len(paths), px, px, 3), dtype=np.uint8)
        broken = []
        for row, path in enumerate(paths):
            try:
                image = self.dataset.image(self.raw, path)
            except Exception as error:  # a decoder may raise anything when a file is damaged
                broken.append(f"{path}: {error}")
            else:
                resized = image.resize((px, px), RESAMPLING[self.options.resample], reducing_gap=None)
                pixels[row] = np.asarray(resized)
        with open(self.file, "r+b") as file:
            file.seek(self.offset + first * px * px * 3)
            file.write(pixels.data)
        return broken


def decode(
    decoder: Decoder, paths: Sequence[str], done: int, jobs: int | None
) -> Iterator[tuple[int, list[str]]]:
    """Write the images of all `paths` from number `done` on; yields, in their order, how many a chunk held
    and which of them could not be read.

    `jobs`: processes, default the cores that this process may use. When it is killed they end too.
    """
    tasks = [(first, paths[first : first + CHUNK]) for first in range(done, len(paths), CHUNK)]
    workers = min(jobs or _cores(), max(1, (len(paths) - done) // IMAGES_PER_PROCESS))
    sizes = [len(chunk) for _, chunk in tasks]
    if workers == 1:
        yield from zip(sizes, map(decoder, tasks), strict=True)
        return
    # spawned: a process that has threads (torch's) must not be forked
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_leave_with_parent)
    try:
        yield from zip(sizes, pool.map(decoder, tasks), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)


def _cores() -> int:
    # macOS has no affinity
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()
