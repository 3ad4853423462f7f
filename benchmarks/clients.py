"""What does a round of a thousand clients cost beside their training? python benchmarks/clients.py [--clients 10 100 1000]

One round of FedAvg, each client with two images and one step, so that what is left is the engine's own: sending the model, receiving it, adding
it to the average, testing. Memory is the highest of the process: each line is measured in one of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time

import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.data.augment import Augment, Evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.federation.server import accumulate
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import spec

PX = 64  # the smallest that AlexNet takes
EACH = 2  # images of a client


def federation(method: str, model: str, clients: int) -> Federation:
    """So many clients of random images, tested on a handful."""
    run = resolve(
        spec(
            model={"name": model},
            method={"name": method},
            data={"input_px": PX, "prepare": {"px": PX}, "augment": "none"},
            local={"batch": EACH},
            federation={"rounds": 1},
            evaluation={"keep": "none"},
        )
    )
    transforms = Augment("none", PX, PX, "unit"), Evaluate(PX, PX, "unit")
    n = EACH * clients
    pixels = torch.randint(256, (n + 10, PX, PX, 3), dtype=torch.uint8)
    samples = Samples(pixels, torch.arange(n + 10) % 2, *transforms)
    nobody = torch.empty(0, dtype=torch.int64)
    held = [ClientData(part, nobody, nobody, domains=("random",)) for part in torch.arange(n).split(EACH)]
    kind = get("models", model)
    return Federation(
        run, get("methods", method)(), lambda: kind(2, PX), samples, held, torch.arange(n, n + 10)
    )


def measured(method: str, model: str, clients: int, threads: int) -> str:
    """A line of the table."""
    torch.set_num_threads(threads)
    played = federation(method, model, clients)
    began = time.perf_counter()
    for _ in played.run():
        pass
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rate = averaged(played.layout.size, min(clients, 20))
    size = 4 * played.layout.size / 1e9
    return f"| {method} | {clients:,} | {seconds:.1f} | {1000 * seconds / clients:.0f} | {peak:.2f} | {clients * size:.1f} | {rate:.1f} |"


def averaged(size: int, rows: int) -> float:
    """GB/s of rows that are read, by what the engine averages them with."""
    row, weight, total = torch.rand(size), torch.tensor(1 / rows), None
    began = time.perf_counter()
    for _ in range(rows):
        total = accumulate(total, row, weight)
    assert isinstance(total, Tensor)
    return 4 * size * rows / 1e9 / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--methods", nargs="+", default=["fedavg"])
    parser.add_argument("--model", default="alexnet_bn")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    print(
        "| method | clients | s a round | ms a client | GB at the highest | GB of all rows | GB/s averaged |\n|---|---|---|---|---|---|---|"
    )
    for method in asked.methods:
        for clients in asked.clients:
            with multiprocessing.get_context("spawn").Pool(1) as process:
                print(process.apply(measured, (method, asked.model, clients, asked.threads)), flush=True)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
