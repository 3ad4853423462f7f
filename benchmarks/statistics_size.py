"""How large are the statistics of a large run: python benchmarks/statistics_size.py [--classes 345 --clients 100 --rounds 500 --samples 490].

Synthetic: one evaluated model and split, `samples` test images a client, unevenly over classes, whose recall and loss move as a run learns.
Written as a run writes them: a segment every 5 rounds, merged at the end.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from fedshift.federation.records import StatisticsTable
from fedshift.federation.statistics import BINS, Statistics
from fedshift.training.run import _merge

SEGMENT = 5  # rounds


def predicted(rng: np.random.Generator, n: np.ndarray, progress: float) -> Statistics:
    """Statistics of one client's model; progress: 0 untrained, 1 trained."""
    recall = np.clip(0.05 + 0.6 * progress + rng.normal(0, 0.1, len(n)), 0, 1)
    correct = rng.binomial(n, recall)
    right = rng.multinomial(correct.sum(), np.linspace(1, 3, BINS) / (2 * BINS))
    wrong = rng.multinomial((n - correct).sum(), np.full(BINS, 1 / BINS))
    confidence = (right + wrong) * (np.arange(BINS) + rng.random(BINS)) / BINS
    loss = np.where(n > 0, rng.gamma(2, 1.2 - progress, len(n)), 0)
    return Statistics(n, correct, loss, wrong, right, confidence)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("classes", 345), ("clients", 100), ("rounds", 500), ("samples", 490)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    rng, table, seconds = np.random.default_rng(0), StatisticsTable(), 0.0
    share = rng.dirichlet(np.full(chosen.classes, 0.5))
    held = [
        rng.multinomial(chosen.samples, (share + rng.dirichlet(np.full(chosen.classes, 0.3))) / 2)
        for _ in range(chosen.clients)
    ]
    with tempfile.TemporaryDirectory() as folder:
        for finished in range(chosen.rounds):
            progress = 1 - np.exp(-5 * finished / chosen.rounds)
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
        f"recorded and written in {1000 * seconds / chosen.rounds:.1f} ms a round; n and correct read in {reading:.1f} s"
    )


if __name__ == "__main__":
    main()
