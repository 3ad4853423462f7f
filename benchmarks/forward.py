"""Seconds that images take through a network in evaluation, by how many go together: python benchmarks/forward.py [--model alexnet_bn] [--px 256]."""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

from fedshift.common.registry import get

SIZES = (250, 100, 50, 25, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="alexnet_bn")
    parser.add_argument("--px", type=int, default=256)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--turns", type=int, default=3, help="all sizes take turns (default 3)")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = get("models", options.model)(10, options.px).to(memory_format=torch.channels_last).eval()
    x = torch.randn(options.images, 3, options.px, options.px).contiguous(memory_format=torch.channels_last)
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    with torch.no_grad():
        for _ in range(options.turns):
            for size in SIZES:
                began = time.perf_counter()
                for batch in x.split(size):
                    model(batch)
                seconds[size].append(time.perf_counter() - began)
    print("together | seconds, median | least\n---|---|---")
    for size, taken in seconds.items():
        print(f"{size} | {median(taken):.2f} | {min(taken):.2f}")


if __name__ == "__main__":
    main()
