"""Training transforms: seconds per batch in batch on the device, beside torchvision's v2 image by image."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from fedshift.data.augment import DRAWS, JITTER, NORMALISE, Augment


def images(batch: int, px: int) -> tuple[Tensor, str]:
    """Photographs of PACS where FEDSHIFT_SHARED has them, else noise: uint8 [batch, px, px, 3]."""
    folder = Path(os.environ.get("FEDSHIFT_SHARED", "../shared"), "data/pacs/photo")
    paths = list(islice(sorted(folder.glob("*/*")), batch))
    if len(paths) < batch:
        return torch.randint(0, 256, (batch, px, px, 3), dtype=torch.uint8), "noise"
    decoded = [np.asarray(Image.open(path).convert("RGB").resize((px, px))) for path in paths]
    return torch.from_numpy(np.stack(decoded)), "PACS photo"


def torchvision_transform(name: str, px: int, normalise: str) -> Callable[[Tensor], Tensor]:
    moved = v2.Compose([v2.Resize(round(px * 9 / 8)), v2.RandomCrop(px)])
    parts = {
        "none": [v2.Resize((px, px))],
        "flip": [v2.Resize((px, px)), v2.RandomHorizontalFlip()],
        "translate": [v2.RandomHorizontalFlip(), v2.RandomChoice([moved, v2.Resize((px, px))])],
    }
    for jittered, strength in JITTER.items():
        crop = [v2.RandomResizedCrop(px, scale=(0.7, 1.0)), v2.RandomHorizontalFlip()]
        parts[jittered] = [*crop, v2.ColorJitter(*[strength] * 4), v2.RandomGrayscale(0.1)]
    end = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(*NORMALISE[normalise])]
    return v2.Compose([*parts[name], *end])


def milliseconds(work: Callable[[], object], repeats: int, device: torch.device) -> tuple[float, float]:
    """Least and median time of a call."""
    times = []
    for _ in range(repeats + 3):
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times[3:]), float(np.median(times[3:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--px", type=int, nargs="+", default=[32, 64], help="sides of the prepared images")
    parser.add_argument("--input-px", type=int, default=32)
    parser.add_argument("--normalise", choices=NORMALISE, default="imagenet")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(
        "| augment | px | images | ms/batch, least | median | images/s | torchvision v2, images/s | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in DRAWS:
        for px in options.px:
            batch, source = images(options.batch, px)
            augment = Augment(name, px, options.input_px, options.normalise)
            draws = augment.draw(len(batch), torch.Generator().manual_seed(0)).to(options.device)
            on_device = batch.to(options.device)

            def ours(
                augment: Augment = augment, on_device: Tensor = on_device, draws: Tensor = draws
            ) -> Tensor:
                return augment(on_device, draws)

            transform = torchvision_transform(name, options.input_px, options.normalise)

            def theirs(
                transform: Callable[[Tensor], Tensor] = transform, batch: Tensor = batch
            ) -> list[Tensor]:
                return [transform(image) for image in batch.permute(0, 3, 1, 2)]

            least, median = milliseconds(ours, options.repeats, options.device)
            _, slow = milliseconds(theirs, 5, torch.device("cpu"))
            rates = 1e3 * len(batch) / median, 1e3 * len(batch) / slow
            print(
                f"| {name} | {px} | {source} | {least:.2f} | {median:.2f} | {rates[0]:,.0f} | {rates[1]:,.0f}"
                f" | {rates[0] / rates[1]:.1f} |"
            )


if __name__ == "__main__":
    main()
