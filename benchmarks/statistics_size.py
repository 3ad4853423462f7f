"""How large are the statistics of a large run: python benchmarks/statistics_size.py [--classes 345 --clients 100 --rounds 500 --samples 490].

Synthetic: one evaluated model and split, `samples` test images a client, unevenly over classes, whose recall and loss move as a run learns.
Written as a run writes them: a segment every 5 rounds, merged at the end.

`--diagnostics`: of each method what it records instead, as drawn numbers (which do not compress) in the shapes that it declares, with SIZES.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from fedshift.federation.diagnostics import Diagnostic

from fedshift.common.registry import get, own
from fedshift.federation.records import BINS, DiagnosticsTable, Statistics, StatisticsTable
from fedshift.training.run import _merge

SEGMENT = 5  # rounds
SIZES = {"units": 8, "channels": 64}  # of the words in shapes: AlexNet's layers, ResNet's first stage


def predicted(rng: np.random.Generator, n: np.ndarray, progress: float) -> Statistics:
    """Statistics of one client's model; progress: 0 untrained, 1 trained."""
    recall = np.clip(0.05 + 0.6 * progress + rng.normal(0, 0.1, len(n)), 0, 1)
    correct = rng.binomial(n, recall)
    right = rng.multinomial(correct.sum(), np.linspace(1, 3, BINS) / (2 * BINS))
    wrong = rng.multinomial((n - correct).sum(), np.full(BINS, 1 / BINS))
    confidence = (right + wrong) * (np.arange(BINS) + rng.random(BINS)) / BINS
    loss = np.where(n > 0, rng.gamma(2, 1.2 - progress, len(n)), 0)
    return Statistics(n, correct, loss, wrong, right, confidence)


def diagnostics(declared: tuple[Diagnostic, ...], clients: int, rounds: int) -> tuple[float, float, int]:
    """MB, ms a round and numbers a round of a method's diagnostics."""
    rng, table, seconds = np.random.default_rng(0), DiagnosticsTable(clients), 0.0
    sizes = {**SIZES, "K": clients, "N": clients, "dimension": 1 + clients // 4}
    shapes = {
        diagnostic.name: diagnostic.shape if diagnostic.owner == "server" else ("K", *diagnostic.shape)
        for diagnostic in declared
    }
    with tempfile.TemporaryDirectory() as folder:
        for finished in range(rounds):
            drawn = {
                name: rng.normal(size=[axis if isinstance(axis, int) else sizes[axis] for axis in axes])
                for name, axes in shapes.items()
            }
            began = time.perf_counter()
            for name, values in drawn.items():
                table.add(finished, name, shapes[name], range(clients), values)
            if (finished + 1) % SEGMENT == 0:
                (Path(folder) / f"{finished:06d}.parquet").write_bytes(table.pack())
                table.rows = []
            seconds += time.perf_counter() - began
        path = Path(folder) / "diagnostics"
        _merge(Path(folder), path)
        return (
            path.stat().st_size / 1e6,
            1000 * seconds / rounds,
            sum(values.size for values in drawn.values()),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("classes", 345), ("clients", 100), ("rounds", 500), ("samples", 490)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--diagnostics", action="store_true")
    options = parser.parse_args()
    if options.diagnostics:
        for name in own("methods"):
            if declared := get("methods", name).diagnostics:
                size, ms, numbers = diagnostics(declared, options.clients, options.rounds)
                print(f"{name}: {numbers} numbers a round, {size:.2f} MB, {ms:.1f} ms a round")
        return
    rng, table, seconds = np.random.default_rng(0), StatisticsTable(), 0.0
    share = rng.dirichlet(np.full(options.classes, 0.5))
    held = [
        rng.multinomial(options.samples, (share + rng.dirichlet(np.full(options.classes, 0.3))) / 2)
        for _ in range(options.clients)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for finished in range(options.rounds):
            progress = 1 - np.exp(-5 * finished / options.rounds)
            for client, n in enumerate(held):
                of = predicted(rng, n, progress)
                began = time.perf_counter()
                table.add(finished, "post_agg", "global", client, "test", of)
                seconds += time.perf_counter() - began
            if (finished + 1) % SEGMENT == 0:
                began = time.perf_counter()
                (Path(folder) / f"{finished:06d}.parquet").write_bytes(table.pack())
                seconds += time.perf_counter() - began
                table.rows = []
        path = Path(folder) / "statistics"
        _merge(Path(folder), path)
        began = time.perf_counter()
        pq.read_table(path, columns=["n", "correct"])
        reading, size = time.perf_counter() - began, path.stat().st_size / 1e6
        parts = dict.fromkeys(("n", "correct", "loss", "wrong", "right", "confidence"), 0)
        metadata = pq.read_metadata(path)
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                column = metadata.row_group(group).column(place)
                name = column.path_in_schema.partition(".")[0]
                parts[name] = parts.get(name, 0) + column.total_compressed_size
    print(
        f"{size:.1f} MB: "
        + ", ".join(f"{name} {part / 1e6:.1f}" for name, part in parts.items() if part > 1e5)
    )
    print(
        f"recorded and written in {1000 * seconds / options.rounds:.1f} ms a round; n and correct read in {reading:.1f} s"
    )


if __name__ == "__main__":
    main()
