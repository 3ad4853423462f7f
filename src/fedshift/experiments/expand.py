"""Expands an experiment, one published table or figure, to the runs that it needs.

A run's spec is merged from, in this order: the protocol (reference/protocols/<name>.yaml: its `spec`, what it has for the data set, the
preset that the experiment names), the experiment's `spec`, what reference/presets/<method>.yaml has for this protocol and data set, the
preset that the method's entry names ("preset: released"), the rest of that entry, and the values of the axes. Data set and method are each
run's own, whichever of these sets them, so one file may hold several data sets; `target: all` are the domains of the run's own.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedshift.errors import FedshiftError, unknown
from fedshift.experiments.axes import Axis, axes, nested
from fedshift.experiments.declared import Experiment, Partial, Protocol, merge
from fedshift.experiments.load import lineage, protocol, read
from fedshift.experiments.mentioned import check, check_only, check_parameters
from fedshift.registry import get, names
from fedshift.resolve import check_weights, resolve
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
    if not cells:
        what = "asks for no run: `only` leaves no domain of the data sets"
        raise FedshiftError(f"experiments/{experiment.name}.yaml", what, "Leave a target to hold out.")
    cells += list(_adapted(root, experiment, cells))
    check(root, experiment, [(cell.label, cell.axes, cell.spec) for cell in cells])
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
    where, known = f"experiments/{experiment.name}.yaml", protocol(root, experiment.protocol)
    values = {axis: _values(axis, given, experiment, known, where) for axis, given in experiment.axes.items()}
    varied = axes(values, where)
    check_only(experiment, varied, where)
    settled = functools.cache(functools.partial(_settled, root, experiment, known))
    points = [
        (label, told, chosen, *_subject(known, experiment, label, chosen))
        for label in experiment.methods
        for told, chosen in _points(varied, experiment.only.get(label, {}))
    ]
    check_parameters(varied, {(label, method) for label, *_, method in points}, where)
    for label, told, chosen, dataset, method in points:
        here = f"{where}: {label}"
        if experiment.axes.get("target") == "all" and chosen["target"] not in _domains(dataset, here):
            continue
        preset, own = _entry(experiment, label)
        point = [nested(*item) for item in chosen.items()]
        parts = [settled(dataset, method, preset), {"method": {"name": method}}, own, *point]
        spec = functools.reduce(merge, parts)
        run = resolve(parse(spec, here), here)
        if any(_said(part, "federation", "weights", "") for part in (experiment.spec, own, *point)):
            check_weights(run, here)
        yield Cell(label, told, run)


def _points(varied: list[Axis], allowed: dict[str, list[Any]]) -> Iterator[tuple[dict[str, Any], Partial]]:
    """Every combination of values on the axes that `only` leaves to a method: as tables show it, and by the axes' keys."""
    for point in itertools.product(*(zip(axis.values, axis.told, strict=True) for axis in varied)):
        chosen = {axis.key: value for axis, (value, _) in zip(varied, point, strict=True)}
        if all(chosen[axis] in wanted for axis, wanted in allowed.items()):
            yield functools.reduce(merge, (told for _, told in point), {}), chosen


def _entry(experiment: Experiment, label: str) -> tuple[str, Partial]:
    """The preset that a method's entry names, and the rest of the entry."""
    own = dict(experiment.methods[label] or {})
    return own.pop("preset", "default"), own


def _subject(known: Protocol, experiment: Experiment, label: str, chosen: Partial) -> tuple[str, str]:
    """The data set and the method of a run, whatever sets them: an axis, the method's entry, its label, the experiment's `spec`, the protocol."""
    own = functools.reduce(merge, (nested(*item) for item in chosen.items()), _entry(experiment, label)[1])
    common = merge(known.spec, experiment.spec)
    default = label if label in names("methods") else _said(common, "method", "name", label)
    return _said(merge(common, own), "data", "dataset", ""), _said(own, "method", "name", default)


def _settled(
    root: Path, experiment: Experiment, known: Protocol, dataset: str, method: str, preset: str
) -> Partial:
    """What a run has before its method's entry: the protocol's settings, the experiment's, and the method's presets."""
    parts = [
        known.settings(dataset, experiment.preset, f"experiments/{experiment.name}.yaml"),
        experiment.spec,
        _preset(root, method, lineage(root, experiment.protocol), dataset, preset),
    ]
    return functools.reduce(merge, parts)


def _said(partial: Partial, block: str, key: str, default: str) -> str:
    inner = partial.get(block)  # what is no mapping is refused with the rest of the run's spec
    return str(inner.get(key, default)) if isinstance(inner, dict) else default


def _values(
    axis: str, given: list[Any] | str, experiment: Experiment, known: Protocol, where: str
) -> list[Any]:
    """The values of an axis. `target: all` are the domains of all data sets of the experiment; each run keeps those of its own."""
    if given != "all":
        return list(given)
    if axis == "seed" and known.seeds:
        return list(known.seeds)
    if axis != "target":
        what = "'all' is for the axis 'target', and for 'seed' where the protocol names seeds"
        raise FedshiftError(f"{where}: axes.{axis}", what, "List the values.")
    points: list[Partial] = [{"data.dataset": one} for one in experiment.axes.get("data.dataset", ())] or [{}]
    subjects = (_subject(known, experiment, label, one) for label in experiment.methods for one in points)
    release = _said(merge(known.spec, experiment.spec), "data", "release", "original")
    return list(dict.fromkeys(one for dataset, _ in subjects for one in _domains(dataset, where, release)))


def _domains(dataset: str, where: str, release: str = "original") -> tuple[str, ...]:
    """The domains of a data set. Raises FedshiftError at `where` for one whose images alone tell them."""
    domains: tuple[str, ...] = get("datasets", dataset, f"{where}: data.dataset").domains
    if not domains:
        what = f"'all' asks for the domains of '{dataset}', which only its images tell"
        cure = (
            f"List them: `target: [a, b]`. What they are says: fedshift verify {dataset} --release {release}"
        )
        raise FedshiftError(f"{where}: axes.target", what, cure)
    return domains


def _preset(root: Path, method: str, lineage: list[str], dataset: str, preset: str) -> Partial:
    path = root / "reference" / "presets" / f"{method}.yaml"
    known = read(path) if path.exists() else {}
    named = {"default": {}, **known.get("presets", {})}
    if preset not in named:
        raise unknown(path, "preset", preset, named)
    parts = [*(known.get(name, {}) for name in lineage), named[preset]]
    return functools.reduce(merge, [part.get(place, {}) for part in parts for place in ("*", dataset)])
