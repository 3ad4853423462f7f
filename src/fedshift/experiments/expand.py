"""Expands an experiment, one published table or figure, to the runs that it needs.

A run's spec is merged from, in this order: the protocol (reference/protocols/<name>.yaml: its `spec`, what it has for the data set, the
preset that the experiment names), the experiment's `spec`, what reference/presets/<method>.yaml has for this protocol and data set, the
preset that the method's entry names ("preset: released"), the rest of that entry, and the values of the axes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedshift.errors import FedshiftError, unknown
from fedshift.experiments.axes import axes, nested
from fedshift.experiments.declared import Experiment, Partial, Protocol, merge
from fedshift.experiments.load import lineage, protocol, read
from fedshift.experiments.mentioned import check, check_only
from fedshift.registry import get
from fedshift.resolve import resolve
from fedshift.spec import RunSpec, parse
from fedshift.task import Task


@dataclass(frozen=True)
class Cell:
    """One run of an experiment: the row's label, what tables show of each axis, the resolved spec, and how it is adapted, if it is.

    Two held-out domains stand on two axes: `target`, which is reported, and `validation`.
    """

    label: str
    axes: dict[str, Any]
    spec: RunSpec
    task: Task | None = None


def expand(root: Path, experiment: Experiment) -> list[Cell]:
    """All runs of an experiment, in the order of its file, then those that are adapted once more.

    Raises FedshiftError for whatever the file names that is not there, and for a run that cannot be made.
    """
    cells = list(_cells(root, experiment))
    cells += list(_adapted(root, experiment, cells))
    check(root, experiment, [(cell.axes, cell.spec) for cell in cells])
    return cells


def _adapted(root: Path, experiment: Experiment, cells: list[Cell]) -> Iterator[Cell]:
    """Adaptation starts from the round that tables show, the protocol's."""
    where, shown = f"experiments/{experiment.name}.yaml", protocol(root, experiment.protocol).select
    for name, table in experiment.tables.items():
        if experiment.adapt and set(table.select) - {shown}:
            what = f"adapted rows have one round, that of the protocol's rule '{shown}'"
            raise FedshiftError(f"{where}: tables.{name}.select", what, "Leave `select` out.")
    for label, row in experiment.adapt.items():
        here = f"{where}: adapt.{label}"
        if label in experiment.methods:
            raise FedshiftError(here, "is the name of a method, too", "Give the adapted row another one.")
        if row.run not in experiment.methods:
            raise unknown(f"{here}.run", "method of this experiment", row.run, experiment.methods)
        task = Task(row.name, row.params, shown)
        for cell in cells:
            if cell.label == row.run:
                task.check(cell.spec, here)
                yield replace(cell, label=label, task=task)


def _cells(root: Path, experiment: Experiment) -> Iterator[Cell]:
    where = f"experiments/{experiment.name}.yaml"
    known, based_on = protocol(root, experiment.protocol), lineage(root, experiment.protocol)
    dataset = _said(merge(known.spec, experiment.spec), "data", "dataset", "")
    base = merge(known.settings(dataset, experiment.preset, where), experiment.spec)
    values = {axis: _values(axis, given, base, known, where) for axis, given in experiment.axes.items()}
    varied = axes(values, where)
    check_only(experiment, varied, where)
    for label, own in experiment.methods.items():
        own = dict(own or {})
        preset = own.pop("preset", "default")
        name = _said(own, "method", "name", label)
        chosen = merge(
            merge(base, _preset(root, name, based_on, dataset, preset)),
            merge({"method": {"name": name}}, own),
        )
        allowed = experiment.only.get(label, {})
        for point in itertools.product(*(zip(axis.values, axis.told, strict=True) for axis in varied)):
            chosen_here = dict(zip(values, (value for value, _ in point), strict=True))
            if all(chosen_here[axis] in wanted for axis, wanted in allowed.items()):
                parts = [nested(*item) for item in chosen_here.items()]
                run = _run(functools.reduce(merge, parts, chosen), f"{where}: {label}")
                yield Cell(label, functools.reduce(merge, (told for _, told in point), {}), run)


def _said(partial: Partial, block: str, key: str, default: str) -> str:
    inner = partial.get(block)  # what is no mapping is refused with the rest of the run's spec
    return str(inner.get(key, default)) if isinstance(inner, dict) else default


def _run(spec: Partial, where: str) -> RunSpec:
    return resolve(parse(spec, where), where)


def _values(axis: str, given: list[Any] | str, base: Partial, known: Protocol, where: str) -> list[Any]:
    if given != "all":
        return list(given)
    if axis == "seed" and known.seeds:
        return list(known.seeds)
    if axis != "target":
        what = "'all' is for the axis 'target', and for 'seed' where the protocol names seeds"
        raise FedshiftError(f"{where}: axes.{axis}", what, "List the values.")
    return list(get("datasets", _said(base, "data", "dataset", ""), f"{where}: data.dataset").domains)


def _preset(root: Path, method: str, lineage: list[str], dataset: str, preset: str) -> Partial:
    path = root / "reference" / "presets" / f"{method}.yaml"
    known = read(path) if path.exists() else {}
    named = {"default": {}, **known.get("presets", {})}
    if preset not in named:
        raise unknown(path, "preset", preset, named)
    parts = [*(known.get(name, {}) for name in lineage), named[preset]]
    return functools.reduce(merge, [part.get(place, {}) for part in parts for place in ("*", dataset)])
