"""Do training steps wait for images that do not fit into memory? python benchmarks/gather.py [--gb 36 --px 224 --steps 40]

Steps of one network (forward, backward, fused Adam) on batches drawn at random from a map of made-up images, in turns of `--steps`:

resident: from a small map that lies in memory;
in turn: from a map of `--gb` gigabytes, larger than memory, where each step gathers its own batch;
ahead: from the same map, gathered by `Samples.stream`'s thread.

No image is drawn twice, so that hardly one comes from the file cache. Prints the median milliseconds of a step and their ratio to resident.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.registry import get
from fedshift.data.augment import Augment, Evaluate
from fedshift.data.load import mapped
from fedshift.federation.samples import Samples
from fedshift.models.base import Model

CHUNK = 1 << 28  # bytes written at once
SMALL = 512  # images of the resident map


def written(path: Path, images: int, px: int) -> np.ndarray:
    """A map of so many random images."""
    row = 3 * px * px
    noise = np.random.default_rng(0).integers(256, size=CHUNK // row * row, dtype=np.uint8)
    with path.open("wb") as file:
        for start in range(0, images * row, len(noise)):
            file.write(noise[: images * row - start].data)
        os.fsync(file.fileno())
    return np.memmap(path, np.uint8, "r", shape=(images, px, px, 3))


def samples(pixels: np.ndarray, px: int, resident: bool) -> Samples:
    transforms = Augment("flip", px, px, "imagenet"), Evaluate(px, px, "imagenet")
    labels = torch.arange(len(pixels)) % 10
    return Samples(mapped(pixels), labels, *transforms, resident_bytes=pixels.nbytes if resident else 0)


class Trainer:
    """A network and its optimiser; `steps` times what comes."""

    def __init__(self, name: str, px: int) -> None:
        self.model: Model = get("models", name)(10, px).to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.model.parameters(), fused=True)

    def step(self, given: Samples, pixels: Tensor, y: Tensor) -> None:
        x = given.augment(pixels, given.augment.draw(len(y), torch.default_generator))
        F.cross_entropy(self.model(x).logits, y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def steps(self, given: Samples, indices: list[Tensor], ahead: bool) -> list[float]:
        """Milliseconds of each step, its images included."""
        batches = given.stream(indices) if ahead else map(given.take, indices)
        times, began = [], time.perf_counter()
        for pixels, y in batches:
            self.step(given, pixels, y)
            now = time.perf_counter()
            times.append(1000 * (now - began))
            began = now
        return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gb", type=float, default=36)
    parser.add_argument("--px", type=int, default=224)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20, help="of each kind in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the map is written (a disk with room for --gb)")
    asked = parser.parse_args()
    images = int(asked.gb * 1e9 / (3 * asked.px**2))
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        large = written(Path(folder) / "large", images, asked.px)
        small = written(Path(folder) / "small", SMALL, asked.px)
        order = torch.randperm(images)
        fresh = iter(order.split(asked.batch))
        trainer, sets = (
            Trainer(asked.model, asked.px),
            (samples(small, asked.px, True), samples(large, asked.px, False)),
        )
        times: dict[str, list[float]] = {"resident": [], "in turn": [], "ahead": []}
        for turn in range(asked.turns + 1):
            for kind, measured in times.items():
                given = sets[kind != "resident"]
                indices = [next(fresh) for _ in range(asked.steps)] if kind != "resident" else []
                indices = indices or [torch.randint(SMALL, (asked.batch,)) for _ in range(asked.steps)]
                taken = trainer.steps(given, indices, kind == "ahead")
                measured += taken if turn else []  # the first turn warms up
    load, resident = os.getloadavg()[0], statistics.median(times["resident"])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    print(f"{images} images of {asked.px} px, {asked.gb:.0f} GB on {memory:.0f} GB of memory; {asked.model}, batch {asked.batch}; "
          f"{torch.get_num_threads()} threads, load {load:.1f}")  # fmt: skip
    for kind, measured in times.items():
        median, worst = statistics.median(measured), max(measured)
        print(f"| {kind} | {median:.1f} | {median / resident:.3f} | {worst:.1f} |")


if __name__ == "__main__":
    main()
