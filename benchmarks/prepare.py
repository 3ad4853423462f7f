"""Prepare at scale: peak memory and images/s of many generated images, a kill in the middle, and training batches from the memory map.

Makes a tree of small JPEGs once (`--keep FOLDER` to use it again), takes it in as a user's release of `folder`, prepares it with `--jobs`
processes, kills that once half of the images are noted and starts it again. Then gathers random batches from the map as training does.
Memory: anon is what a process holds for itself (RssAnon), shared what it maps of files, which the system may take back at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from fedshift.data.augment import Augment, Evaluate
from fedshift.data.fetch import fetch
from fedshift.data.load import mapped
from fedshift.data.prepare import load_index, map_pixels
from fedshift.data.verify import verified
from fedshift.federation.samples import Samples
from fedshift.spec import Prepare, Source
from fedshift.storage.workspace import Workspace

DOMAINS, CLASSES = 4, 10
PREPARE = """
import sys
from pathlib import Path
from fedshift.data.prepare import prepare
from fedshift.spec import Prepare
from fedshift.storage.workspace import Workspace
if __name__ == "__main__":
    prepare(Workspace(Path(sys.argv[1])), "folder", "many", Prepare(px=int(sys.argv[2])), jobs=int(sys.argv[3]))
"""


def grow(root: Path, first: int, stop: int, side: int) -> None:
    """Write images `first` to `stop` of the tree: noise of 8 x 8 blown up, so that a JPEG is neither empty nor huge."""
    rng = np.random.default_rng(first)
    for number in range(first, stop):
        cell = number % (DOMAINS * CLASSES)
        folder = root / f"domain{cell // CLASSES}" / f"class{cell % CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        noise = Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        noise.resize((side, side), Image.Resampling.BICUBIC).save(folder / f"{number:07d}.jpg", quality=90)


def tree(root: Path, images: int, side: int) -> None:
    """The whole tree, in parallel; kept if it is there."""
    if root.exists():
        return
    bounds = np.linspace(0, images, 17).astype(int).tolist()
    with ProcessPoolExecutor() as pool:
        list(pool.map(grow, [root] * 16, bounds[:-1], bounds[1:], [side] * 16))


class Watch(threading.Thread):
    """The highest anonymous and shared memory, in MB, of a process group's members, and of all of them together."""

    def __init__(self, group: int) -> None:
        super().__init__(daemon=True)
        self.group, self.largest, self.total, self.shared = group, 0.0, 0.0, 0.0
        self.start()

    def run(self) -> None:
        while held := [self._memory(pid) for pid in self._members()]:
            self.largest = max(self.largest, *(anon for anon, _ in held))
            self.total = max(self.total, sum(anon for anon, _ in held))
            self.shared = max(self.shared, *(shared for _, shared in held))
            time.sleep(0.2)

    def _members(self) -> list[int]:
        members = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(path.name)) == self.group:
                    members.append(int(path.name))
            except ProcessLookupError:
                continue
        return members

    def _memory(self, pid: int) -> tuple[float, float]:
        return memory(Path(f"/proc/{pid}/status"))


def memory(status: Path = Path("/proc/self/status")) -> tuple[float, float]:
    """Anonymous and file-backed memory of a process in MB; 0 where it is gone."""
    try:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return tuple(int(lines[key].split()[0]) / 1024 for key in ("RssAnon", "RssFile"))  # type: ignore[return-value]
    except (FileNotFoundError, ProcessLookupError, KeyError):
        return 0.0, 0.0


def start(workspace: Workspace, px: int, jobs: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PREPARE, str(workspace.root), str(px), str(jobs)]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)


def kill_when_half(process: subprocess.Popen[bytes], progress: Path, images: int) -> int:
    """Kill a prepare when it has noted half of the images; returns how many those were."""
    while process.poll() is None:
        done = json.loads(progress.read_text())["done"] if progress.exists() else 0
        if done >= images / 2:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return int(done)
        time.sleep(0.05)
    return images


def batches(folder: Path, px: int, count: int, size: int) -> tuple[float, float, float]:
    """Images/s of random batches from the map, and how much anonymous and shared memory that added, in MB."""
    before = memory()
    pixels, index = map_pixels(folder), load_index(folder)
    evaluate = Evaluate(px, px, "half")
    labels = torch.from_numpy(index["label"].to_numpy().astype("int64"))
    samples = Samples(mapped(pixels), labels, Augment("flip", px, px, "half"), evaluate)
    rng = torch.Generator().manual_seed(0)
    began = time.perf_counter()
    for _ in range(count):
        images, _ = samples.take(torch.randint(len(labels), (size,), generator=rng))
        samples.augment(images, samples.augment.draw(size, rng))
    seconds, after = time.perf_counter() - began, memory()
    return count * size / seconds, after[0] - before[0], after[1] - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--side", type=int, default=48, help="of the generated images")
    parser.add_argument("--px", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for tree and results; a temporary one by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        base = options.keep or Path(temporary)
        began = time.perf_counter()
        tree(base / "tree", options.images, options.side)
        print(f"{options.images:,} images made in {time.perf_counter() - began:.0f} s", flush=True)
        workspace = Workspace(base / "project")
        began = time.perf_counter()
        if not workspace.raw("folder", "many").exists():
            fetch(workspace, "folder", "many", [base / "tree"], say=lambda _: None)
        verified(workspace, "folder", "many")
        print(f"taken in and verified in {time.perf_counter() - began:.0f} s", flush=True)
        folder = workspace.prepared(
            Source(dataset="folder", release="many", prepare=Prepare(px=options.px)).prepared_name
        )
        progress = folder.with_name(f".{folder.name}.part") / "progress.json"
        began = time.perf_counter()
        process = start(workspace, options.px, options.jobs)
        watch = Watch(process.pid)
        done = kill_when_half(process, progress, options.images)
        first = time.perf_counter() - began
        began = time.perf_counter()
        process = start(workspace, options.px, options.jobs)
        again = Watch(process.pid)
        process.wait()
        second = time.perf_counter() - began
        whole = folder.exists()
        size = (folder / "images.npy").stat().st_size / 1e6 if whole else 0
        print(f"killed when {done:,} were noted, after {first:.1f} s ({done / first:.0f} images/s)")
        print(
            f"the rest in {second:.1f} s ({(options.images - done) / second:.0f} images/s), {size:.0f} MB, whole: {whole}"
        )
        peak = max(watch.total, again.total)
        print(
            f"peak anonymous memory: {peak:.0f} MB in all, {max(watch.largest, again.largest):.0f} MB in one process"
        )
        speed, anon, shared = batches(folder, options.px, 500, 64)
        print(
            f"batches of 64 from the map: {speed:.0f} images/s, anonymous {anon:+.0f} MB, mapped {shared:+.0f} MB"
        )


if __name__ == "__main__":
    main()
