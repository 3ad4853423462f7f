"""Runs with given accuracies, and runs whose method recorded numbers of its clients by round."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedshift.analysis.collected import Collected
from fedshift.federation.records import DiagnosticsTable
from tests.analysis.conftest import Project, accuracy

Numbers = Mapping[int, tuple[float, ...]]  # round -> of each client, NaN of one that takes no part


def trained(
    project: Project,
    values: Mapping[tuple[Any, ...], float | None],
    names: tuple[str, ...] = ("target", "seed"),
    **declared: Any,
) -> Collected:
    """Runs by method and place on the axes: the accuracy after a round, own and held out; None: not finished."""
    methods, *places = ([*dict.fromkeys(column)] for column in zip(*values, strict=True))
    named = {"methods": dict.fromkeys(methods), "axes": dict(zip(names, places, strict=True))}
    project.declare(**named | declared)
    for (method, *place), value in values.items():
        rounds = None if value is None else {1: accuracy((value, value), ood=value)}
        project.add(method, rounds, **dict(zip(names, place, strict=True)))
    return project.collect()


def recorded(project: Project, name: str, of: Mapping[tuple[str, int], Numbers]) -> Collected:
    """hfedf on held-out domains and seeds: what it recorded under `name`."""
    targets, seeds = ([*dict.fromkeys(key[place] for key in of)] for place in (0, 1))
    project.declare(methods={"hfedf": None}, axes={"target": targets, "seed": seeds})
    for (target, seed), numbers in of.items():
        clients = len(next(iter(numbers.values())))
        run = project.add(
            "hfedf", {1: accuracy((0.5,) * clients, 0.5)}, sizes=(10,) * clients, target=target, seed=seed
        )
        table = DiagnosticsTable(clients)
        for finished, values in numbers.items():
            active = [client for client, value in enumerate(values) if not math.isnan(value)]
            table.add(finished, name, ("K",), active, np.array([values[client] for client in active]))
        (run / "diagnostics.parquet").write_bytes(table.pack())
    return project.collect()
