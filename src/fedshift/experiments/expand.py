"""Expand an experiment, one published table or figure, to its runs.

A run's spec is merged from these parts, in this order:

- the protocol, reference/protocols/<name>.yaml: its `spec`, its settings for the data set, and the preset
  that the experiment names
- the experiment's `spec`
- the settings of reference/presets/<method>.yaml for this protocol and data set
- the preset that the method's entry names ("preset: released")
- the rest of that entry
- the choice of the experiment's tuning
- the values of the axes

Data set and method are each run's own, whichever part sets them, so one file may have several data sets.
`target: all` means the domains of the run's data set.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.registry import get, names
from fedshift.data.groups import hashed
from fedshift.experiments.axes import points_of, setting
from fedshift.experiments.protocols import Partial, lineage, merge, preset, protocol
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import Cell, Task
from fedshift.experiments.tuning import Choice, read_choice
from fedshift.experiments.validate import check, listed
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import check_weights, resolve
from fedshift.storage.workspace import Workspace


def expand(
    workspace: Workspace, experiment: Experiment, choice: Choice | None = None, built: bool = True
) -> list[Cell]:
    """All runs of an experiment, in the order of its file, followed by the adapted runs.

    - choice: what its tuning chose; without it, a tuned experiment has the values of untuned runs, which cost
      the same but must not be trained
    - built: as in `resolve`

    Raises FedshiftError for a name in the file that does not exist, and for a run that cannot be built.
    """
    cells = list(cells_of(workspace, experiment, choice, built=built))
    if not cells:
        what = "requests no run: `only` leaves no domain of the data sets"
        raise FedshiftError(experiment.file, what, "Leave a target to hold out.")
    tasks = evaluations(workspace, experiment)
    for label, task in tasks.items():
        for cell in cells:
            task.check(cell.spec, f"{experiment.file}: evaluations.{label}")
    cells += list(_adapted(workspace, experiment, cells, tasks))
    check(workspace, experiment, cells)
    return cells


def planned(workspace: Workspace, experiment: Experiment, built: bool = True) -> list[Cell]:
    """The runs that are trained for an experiment. Raises FedshiftError if its tuning has not been chosen."""
    choice = read_choice(workspace, experiment.name) if experiment.tune else None
    return expand(workspace, experiment, choice, built)


def evaluations(workspace: Workspace, experiment: Experiment) -> dict[str, Task]:
    """The evaluations of all runs of an experiment, by the name of their files, at the round that tables
    show.

    Raises FedshiftError for an unknown name or parameter, and for a column with the name of an axis.
    """
    where, selection = experiment.file, protocol(workspace, experiment.protocol).select
    tasks = {}
    for label, (name, params) in listed(experiment.evaluations, f"{where}: evaluations").items():
        kind = get("evaluations", name, f"{where}: evaluations")
        for axis in experiment.axes.keys() & kind.columns:
            what = f"is a column of what the evaluation '{name}' gives"
            raise FedshiftError(f"{where}: axes.{axis}", what, "Give the axis another name.")
        tasks[label] = Task(name, params, selection)
    return tasks


def _adapted(
    workspace: Workspace, experiment: Experiment, cells: list[Cell], tasks: dict[str, Task]
) -> Iterator[Cell]:
    """The adapted runs, at the round that tables show; tasks: the evaluations of the same runs."""
    where, selection = experiment.file, protocol(workspace, experiment.protocol).select
    for name, table in experiment.tables.items():
        if experiment.adapt and set(table.select) - {selection}:
            what = f"adapted rows have one round, that of the protocol's rule '{selection}'"
            raise FedshiftError(f"{where}: tables.{name}.select", what, "Leave `select` out.")
    for label, row in experiment.adapt.items():
        place = f"{where}: adapt.{label}"
        if label in experiment.methods:
            raise FedshiftError(place, "is the name of a method, too", "Give the adapted row another one.")
        if label in tasks:
            raise FedshiftError(place, f"is the name of an evaluation, too: {', '.join(tasks)}", "Rename it.")
        check_known(f"{place}.run", "method of this experiment", row.run, experiment.methods)
        if not get("evaluations", row.name, place).adapts:
            what = f"the evaluation '{row.name}' does not adapt the model, and gives no row"
            choices = [name for name in names("evaluations") if get("evaluations", name).adapts]
            cure = f"List it below `evaluations`; what adapts: {', '.join(choices)}."
            raise FedshiftError(place, what, cure)
        task = Task(row.name, row.params, selection)
        for cell in cells:
            if cell.label == row.run:
                task.check(cell.spec, place)
                yield replace(cell, label=label, task=task)


def cells_of(
    workspace: Workspace,
    experiment: Experiment,
    choice: Choice | None,
    wanted: Callable[[RunSpec], bool] = lambda spec: True,
    *,
    built: bool = True,
) -> Iterator[Cell]:
    """The cells of an experiment that are `wanted`, row by row, each resolved on request.

    Adapted runs are left out; tables, claims and evaluations of the file are not checked.

    - choice: as in `expand`
    - wanted: a filter for specs before they are resolved; their data set, method, target and seed are already
      the run's
    """
    known, order = protocol(workspace, experiment.protocol), lineage(workspace, experiment.protocol)

    @functools.cache
    def settled(dataset: str, method: str, variant: str) -> Partial:
        """The settings of a run before its method's entry: those of protocol, experiment and presets."""
        return merge(
            known.settings(dataset, experiment.preset, experiment.file),
            experiment.spec,
            preset(workspace, method).settings(order, dataset, variant, f"reference/presets/{method}.yaml"),
        )

    for point in points_of(experiment, known):
        place, (variant, own) = f"{experiment.file}: {point.label}", experiment.entry(point.label)
        chosen = choice.of(experiment, point.label, point.columns) if choice else {}
        common = settled(point.dataset, point.method, variant)
        named = {"method": {"name": point.method}}
        declared = parse(merge(common, named, own, chosen, point.settings), place)
        if not isinstance(groups := declared.partition.groups, str):
            parts = declared.partition.model_copy(update={"groups": hashed(groups, workspace.root)})
            declared = declared.model_copy(update={"partition": parts})
        if not wanted(declared):
            continue
        run = resolve(declared, place, built)
        if any(setting(part, "federation", "weights", "") for part in (experiment.spec, own, point.settings)):
            check_weights(run, place)
        yield Cell(point.label, point.columns, run)


def places(workspace: Workspace, experiment: Experiment) -> Iterator[tuple[str, dict[str, Any]]]:
    """The row and the axis values of each cell of `expand`, without resolving specs."""
    trained = points_of(experiment, protocol(workspace, experiment.protocol))
    yield from ((point.label, point.columns) for point in trained)
    for label, row in experiment.adapt.items():
        yield from ((label, point.columns) for point in trained if point.label == row.run)
