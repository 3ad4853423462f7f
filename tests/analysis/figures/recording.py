"""Runs whose method recorded numbers of its clients by round."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedshift.analysis.collected import Collected
from fedshift.federation.records import DiagnosticsTable
from tests.analysis.conftest import Project, accuracy, changed

Numbers = Mapping[int, tuple[float, ...]]  # round -> of each client, NaN of one that takes no part


def recorded(
    project: Project,
    name: str,
    of: Mapping[tuple[str, int], Numbers],
    domains: Mapping[str, tuple[str, ...]] | None = None,
    **declared: Any,
) -> Collected:
    """hfedf on held-out domains and seeds: what it recorded under `name`; domains: the clients' by what is held out."""
    targets, seeds = ([*dict.fromkeys(key[place] for key in of)] for place in (0, 1))
    project.declare(methods={"hfedf": None}, axes={"target": targets, "seed": seeds}, **declared)
    for (target, seed), numbers in of.items():
        clients = len(next(iter(numbers.values())))
        rounds = {1: accuracy((0.5,) * clients, 0.5)}
        run = project.add("hfedf", rounds, sizes=(10,) * clients, target=target, seed=seed)
        if domains:
            held = [
                {"client": k, "domains": [domain], "train": 10, "test": 10}
                for k, domain in enumerate(domains[target])
            ]
            changed(run, clients=held)
        table = DiagnosticsTable(clients)
        for finished, values in numbers.items():
            active = [client for client, value in enumerate(values) if not math.isnan(value)]
            table.add(finished, name, ("K",), active, np.array([values[client] for client in active]))
        (run / "diagnostics.parquet").write_bytes(table.pack())
    return project.collect()
