"""Tuning: an experiment's search for its methods' settings, as a separate experiment.

The tuning of `x` is the experiment `x.tuning`. It has a row for each row of `x` and each point of the search
("fedprox: local.lr=0.1, mu=0.01"). Its seeds are `tune.seeds`; its axes are those of `x`, confined to
`tune.axes`. It is planned, trained and collected like any other experiment. fedshift.analysis.tuning then
chooses the values.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.files import canonical_json, dotted
from fedshift.common.yaml_file import read
from fedshift.experiments.axes import method_of
from fedshift.experiments.protocols import Partial, Protocol, Space, merge, nested, protocol, searched
from fedshift.experiments.schema import AxisValues, Experiment, Tune
from fedshift.spec import Closed, closed
from fedshift.storage.workspace import TUNING, Workspace

SEED = "seed"
LONGEST, DRAWN = 100_000, 100  # samples, before a search stops looking for another point; samples at a time
Point = dict[str, Any]  # dotted key -> value


class Trial(NamedTuple):
    """A point that is tried for a row: dotted key -> value."""

    row: str
    values: dict[str, Any]

    @property
    def label(self) -> str:
        """The trial's row in the tuning: "fedprox: local.lr=0.1, mu=0.01"."""
        settings = (f"{key.removeprefix('method.params.')}={value}" for key, value in self.values.items())
        return f"{self.row}: {', '.join(settings) or 'as it is'}"


def trials(workspace: Workspace, experiment: Experiment) -> list[Trial]:
    """All points to try in the order of the file, `tune.budget` for each row.

    Raises FedshiftError for an experiment that is not tuned, for a row with fewer points, and for an
    impossible search.
    """
    known = protocol(workspace, experiment.protocol)
    tune, common = _checked(experiment, known), merge(known.spec, experiment.spec)
    axes = [axis.key for axis in experiment.axes.values()]
    found = []
    for row in experiment.methods:
        if row not in tune.like:  # or it takes another row's choice
            own = experiment.entry(row)[1]
            spaces = searched(workspace, experiment.protocol, method_of(row, own, common))
            setters = [*dict(dotted(own)), *axes]  # what they set is not searched
            free = {
                key: space
                for key, space in spaces.items()
                if not any(f"{key}.".startswith(f"{setter}.") for setter in setters)
            }
            place = f"{experiment.file}: tune: {row}"
            found += [Trial(row, point) for point in points(free, tune.budget, place)]
    return found


def stage(workspace: Workspace, experiment: Experiment) -> Experiment:
    """The tuning of an experiment as an experiment. Raises FedshiftError as `trials` does."""
    tried, tune = trials(workspace, experiment), tuned(experiment)
    common = merge(protocol(workspace, experiment.protocol).spec, experiment.spec)
    methods: dict[str, Partial | None] = {}
    only: dict[str, dict[str, list[Any]]] = {}
    for trial in tried:
        own = experiment.methods[trial.row] or {}
        name = method_of(trial.row, own, common)
        methods[trial.label] = merge({"method": {"name": name}}, own, nested(trial.values))
        fewer = {axis: one for axis, one in experiment.only.get(trial.row, {}).items() if axis != SEED}
        for axis, values in tune.axes.items():  # within the row's own
            within = [value for value in values if value in fewer.get(axis, values)]
            fewer[axis] = within or fewer[axis]
        if fewer:
            only[trial.label] = fewer
    return Experiment(
        name=experiment.name + TUNING,
        title=f"Tuning of: {experiment.title}",
        protocol=experiment.protocol,
        preset=experiment.preset,
        spec=merge(experiment.spec, {"evaluation": {"keep": "none"}}, tune.spec),
        methods=methods,
        axes={**experiment.axes, SEED: AxisValues(key=SEED, values=tune.seeds)},
        only=only,
        figures=[],
    )


def place(experiment: Experiment, point: dict[str, Any]) -> dict[str, Any]:
    """A run's values on the axes that are tuned value by value: all but the seed and those of `tune.axes`."""
    together = {SEED, *tuned(experiment).axes}
    if "target" in together:
        together.add("validation")
    return {axis: value for axis, value in point.items() if axis not in together}


def check_places(
    experiment: Experiment,
    final: Iterable[tuple[str, dict[str, Any]]],
    tried: Iterable[tuple[str, dict[str, Any]]],
) -> None:
    """Raise FedshiftError if a final run is at a `place` at which its row is not tuned."""
    known = {(row, canonical_json(place(experiment, point))) for row, point in tried}
    for row, point in final:
        at, owner = place(experiment, point), tuned(experiment).like.get(row, row)
        if (owner, canonical_json(at)) not in known:
            what = f"leaves no run to tune '{owner}' at {at}"
            cure = "Add a value of it that these runs have."
            raise FedshiftError(f"{experiment.file}: tune.axes", what, cure)


def unequal(found: Iterable[Trial]) -> dict[str, int]:
    """Row -> its number of points, if rows have different numbers; else empty."""
    counts = Counter(trial.row for trial in found)
    return counts if len({*counts.values()}) > 1 else {}


def tuned(experiment: Experiment) -> Tune:
    """The `tune` block of an experiment. Raises FedshiftError if it has none."""
    if experiment.tune is None:
        raise FedshiftError(experiment.file, "is not tuned", "Add `tune:` (docs/tuning.md).")
    return experiment.tune


def _checked(experiment: Experiment, known: Protocol) -> Tune:
    """`tuned`, with all of its values checked."""
    tune, where = tuned(experiment), f"{experiment.file}: tune"
    final = experiment.axes.get(SEED)
    if final is None:
        seeds = [merge(known.spec, experiment.spec).get(SEED, 0)]
    else:
        seeds = known.seeds if final.values == "all" else final.values
    if shared := sorted({*tune.seeds} & {*seeds}):
        what = f"{shared[0]} is a seed of the final runs, too"
        raise FedshiftError(f"{where}.seeds", what, "Tune with seeds that no final run has.")
    others = [name for name in experiment.axes if name != SEED]
    for axis in tune.axes:
        check_known(f"{where}.axes", "axis that may be tuned together", axis, others)
        if not tune.axes[axis]:
            raise FedshiftError(f"{where}.axes.{axis}", "has no value", "List values of the axis.")
    for row in [*tune.like, *tune.like.values()]:
        check_known(where, "row of this experiment", row, experiment.methods)
    if again := [row for row in tune.like.values() if row in tune.like]:
        raise FedshiftError(f"{where}.like", f"'{again[0]}' is not tuned itself", "Name a row that is tuned.")
    if any(axis.key in ("method", "method.name") for axis in experiment.axes.values()):
        what = "an axis varies the method, and each row has its own search"
        raise FedshiftError(where, what, "Write the methods as rows.")
    return tune


def points(spaces: Mapping[str, Space], budget: int | str, where: str) -> list[Point]:
    """The points of a space to try.

    With budget "grid" these are all points. Otherwise they are the first `budget` different ones of a
    scrambled Halton sequence, which covers a space evenly at any length. A larger budget begins with the
    points of a smaller one, whose runs then exist already. Equal spaces get equal points.

    Raises FedshiftError at `where` if the space has fewer points than the budget requires, and for a range in
    a grid.
    """
    finite = math.prod(len(space.values) for space in spaces.values() if space.values)
    ranges = [key for key, space in spaces.items() if not space.values]
    if not isinstance(budget, int):
        if ranges:
            what = f"a grid has no range, and '{ranges[0]}' is searched in one"
            raise FedshiftError(where, what, "List its values, or give a budget.")
        grid = itertools.product(*(space.values for space in spaces.values()))
        return [dict(zip(spaces, values, strict=True)) for values in grid]
    if not ranges and finite < budget:
        keys = ", ".join(spaces) or "no setting"
        what = f"has {finite} points to search ({keys}), and the budget is {budget}"
        cure = "Lower the budget of all rows, or give this one more values or a range (reference/presets)."
        raise FedshiftError(where, what, cure)
    if not spaces:
        return [{}]
    import numpy as np
    from scipy.stats import qmc

    sequence, found = qmc.Halton(len(spaces), rng=np.random.default_rng(0)), dict[str, Point]()
    for _ in range(0, LONGEST, DRAWN):
        for numbers in sequence.random(DRAWN).tolist():
            drawn = zip(spaces.items(), numbers, strict=True)
            point = {key: space.at(number) for (key, space), number in drawn}
            found.setdefault(canonical_json(point), point)
            if len(found) == budget:
                return [*found.values()]
    what = f"{LONGEST} samples gave {len(found)} different points, and the budget is {budget}"
    raise FedshiftError(where, what, "Widen a range, or lower the budget.")


class Chosen(Closed):
    """The chosen values of one row."""

    row: str = Field(description="Label of the row.")
    where: dict[str, Any] = Field(description="Axis -> value, for axes whose values are tuned separately.")
    values: dict[str, Any] = Field(description="Dotted key -> value.")
    validation: float = Field(
        description="Score of these values: validation accuracy ALL in percent, mean over runs."
    )
    points: int = Field(description="Number of points tried.")
    failed: int = Field(description="Of these, points with a failed or non-finite run.")
    runs: list[str] = Field(description="Run ids that the score averages.")


class Choice(Closed):
    """The chosen values of all rows."""

    rule: str = Field(description="Rule that selected the round: the protocol's `select`.")
    chosen: list[Chosen] = Field(
        description="One entry per row and place, in the order of the experiment's file."
    )

    def of(self, experiment: Experiment, row: str, point: dict[str, Any]) -> Partial:
        """The settings chosen for a run of the experiment, by its row and its axis values.

        Raises FedshiftError if nothing was chosen for it.
        """
        row = tuned(experiment).like.get(row, row)
        for chosen in self.chosen:
            if chosen.row == row and all(point.get(axis) == value for axis, value in chosen.where.items()):
                return nested(chosen.values)
        what = f"nothing was chosen for '{row}' at {point}"
        raise FedshiftError(f"{experiment.file}: tune", what, _again(experiment.name))


def read_choice(workspace: Workspace, name: str) -> Choice:
    """The choice of a tuned experiment. Raises FedshiftError if it has not been made."""
    path = workspace.tuned(name)
    where = path.relative_to(workspace.root).as_posix()
    if not path.is_file():
        raise FedshiftError(where, f"is missing: the settings of '{name}' are not chosen", _again(name))
    return closed(Choice, read(path), where)


def _again(name: str) -> str:
    return f"Search, then choose: fedshift run {name}{TUNING}, then fedshift tune {name}."
