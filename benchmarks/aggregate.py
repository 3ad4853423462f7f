"""Average of clients' models: fedshift's `mean` over flat rows beside arithmetic on state dicts.

Milliseconds for the weighted average of K models (default four ResNet-18). The ways are timed in turn.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor, nn

from fedshift.common.registry import get, names
from fedshift.federation.layout import Layout
from fedshift.federation.server import mean

RECORDED = """Recorded earlier, on another machine (2-core Intel, torch 2.13), four ResNet-18: 41 ms by `weights @ rows`, 456 ms by
arithmetic on state dicts, 1,615 ms by operators on modules."""


def by_state_dict(models: list[dict[str, Tensor]], weights: list[float]) -> dict[str, Tensor]:
    """The usual line: entry by entry, a new tensor for every product and every sum."""
    return {
        name: sum(weight * model[name] for weight, model in zip(weights, models, strict=True))  # type: ignore[misc]
        for name in models[0]
    }


def milliseconds(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Wall time of every call, the ways in turn, after one call of each to warm up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            if repeat:
                times[name].append(1e3 * (time.perf_counter() - start))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=names("models"), default="resnet18", help="default: resnet18")
    parser.add_argument("--clients", type=int, default=4, help="models to average (default 4)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default 1)")
    parser.add_argument("--repeats", type=int, default=30, help="calls of each way (default 30)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    models: list[nn.Module] = [get("models", options.model)(7, 32) for _ in range(options.clients)]
    layout = Layout(models[0])
    rows = torch.empty(options.clients, layout.size)
    states = [model.state_dict() for model in models]
    for row, state in zip(rows, states, strict=True):
        for name, entry in layout.named(row).items():
            entry.copy_(state[name])
    weights = [(k + 1) / sum(range(options.clients + 1)) for k in range(options.clients)]
    p = torch.tensor(weights)
    average, named = mean(rows, p), by_state_dict(states, weights)
    error = max(float((entry - named[name]).abs().max()) for name, entry in layout.named(average).items())
    ways: dict[str, Callable[[], object]] = {
        "fedshift.federation.server.mean": lambda: mean(rows, p),
        "p @ rows": lambda: p @ rows,
        "state dicts": lambda: by_state_dict(states, weights),
    }
    print(
        f"{options.model}, {options.clients} clients, {layout.size:,} numbers each, {options.threads} thread(s)"
    )
    print(f"largest difference between the averages {error:.1e}; load {os.getloadavg()[0]:.1f}\n")
    print("| average | ms, median | least |\n|---|---|---|")
    for name, times in milliseconds(ways, options.repeats).items():
        print(f"| {name} | {median(times):.1f} | {min(times):.1f} |")
    print(f"\n{RECORDED}")


if __name__ == "__main__":
    main()
