"""Axes: the settings that an experiment varies, with their values as tables show them; and its points, the
combinations of these values.
"""

import dataclasses
import functools
import itertools
from typing import Any, NamedTuple

from fedshift.common.errors import FedshiftError, check_known, nearest
from fedshift.common.files import canonical_json, dotted
from fedshift.common.registry import get, names
from fedshift.experiments.protocols import Partial, Protocol, merge, nested
from fedshift.experiments.schema import HELD_OUT, Experiment
from fedshift.spec import RunSpec

NONE = "none"  # in tables for null: no held-out domain, an option that is off
STANDARD = {HELD_OUT: "target", "seed": "seed"}  # axes that tables treat on their own, by key
WHOSE = "A row whose name is not a method requires one: {}: {{method: {{name: fedavg}}}}."


@dataclasses.dataclass(frozen=True)
class Axis:
    """A setting that an experiment varies."""

    name: str  # what its file and tables call it
    key: str  # dotted key of the setting
    values: list[Any]  # as the file has them

    @functools.cached_property
    def columns(self) -> list[dict[str, Any]]:
        """The values as tables show them: {name: value}; {target, validation} of two held-out domains."""
        name, values = self.name, self.values
        if name == "target" and any(isinstance(value, list) for value in values):
            pairs = [value if isinstance(value, list) else [value] for value in values]
            both = ("target", "validation")
            return [dict(itertools.zip_longest(both, map(_text, pair[:2]), fillvalue=NONE)) for pair in pairs]
        booleans = [isinstance(value, bool) for value in values]
        numbers = all(isinstance(value, int | float) for value in values) and not any(booleans)
        return [{name: value if numbers or all(booleans) else _text(value)} for value in values]


class Point(NamedTuple):
    """A run of an experiment before its specification is merged."""

    label: str  # its row
    columns: dict[str, Any]  # values on the axes as tables show them
    settings: Partial  # the same, as a partial specification
    dataset: str
    method: str


def axes_of(experiment: Experiment, known: Protocol) -> list[Axis]:
    """The axes of an experiment with its protocol.

    Raises FedshiftError for an axis without values or with a value twice, for a wrong "all", and for two axes
    that set the same setting. An axis of the target or the seed must have that name.
    """
    where = f"{experiment.file}: axes"
    axes = [Axis(name, of.key, _values(name, experiment, known)) for name, of in experiment.axes.items()]
    for axis in axes:
        if not axis.values:
            raise FedshiftError(f"{where}.{axis.name}", "has no value", "List the values.")
        if (standard := STANDARD.get(axis.key, axis.name)) != axis.name:
            what = f"tables know the axis of '{axis.key}' as '{standard}'"
            raise FedshiftError(f"{where}.{axis.name}", what, f"Write `{standard}: [..]`.")
    for axis, other in itertools.permutations(axes, 2):
        if f"{axis.key}.".startswith(f"{other.key}."):
            what = f"sets what '{other.name}' sets"
            raise FedshiftError(f"{where}.{axis.name}", what, "Leave one of them out.")
    for axis in axes:
        for place, columns in enumerate(axis.columns):
            if columns in axis.columns[:place]:
                what = f"has '{', '.join(map(str, columns.values()))}' twice, as tables show it"
                raise FedshiftError(f"{where}.{axis.name}", what, "Name each value once.")
    return axes


def _values(name: str, experiment: Experiment, known: Protocol) -> list[Any]:
    """The values of an axis. `target: all` means the domains of all data sets of the experiment."""
    axis, where = experiment.axes[name], experiment.file
    if axis.values != "all":
        return axis.values
    if axis.key == "seed" and known.seeds:
        return known.seeds
    if axis.key != HELD_OUT:
        what = "'all' is for the axis 'target', and for 'seed' where the protocol names seeds"
        raise FedshiftError(f"{where}: axes.{name}", what, "List the values.")
    common = merge(known.spec, experiment.spec)
    release = setting(common, "data", "release", "original")
    datasets = next((other.values for other in experiment.axes.values() if other.key == "data.dataset"), ())
    points = [nested({"data.dataset": dataset}) for dataset in datasets] or [{}]
    subjects = [_subject(experiment, common, label, at) for label in experiment.methods for at in points]
    return [*dict.fromkeys(domain for of, _ in subjects for domain in _domains(of, where, release))]


def _domains(dataset: str, where: str, release: str = "original") -> tuple[str, ...]:
    """The domains of a data set. Raises FedshiftError at `where` if they are only known from the images."""
    domains: tuple[str, ...] = get("datasets", dataset, f"{where}: data.dataset").domains
    if not domains:
        what = f"'all' requests the domains of '{dataset}', which only its images tell"
        cure = f"List them: `target: [a, b]`. To see them: fedshift verify {dataset} --release {release}"
        raise FedshiftError(f"{where}: axes.target", what, cure)
    return domains


def _text(value: Any) -> str:
    """A value as text: strings unchanged, null as NONE, all others as JSON."""
    return value if isinstance(value, str) else NONE if value is None else canonical_json(value)


def points_of(experiment: Experiment, known: Protocol) -> list[Point]:
    """The points of an experiment with its protocol, row by row.

    `only` of the file leaves some of the combinations, and `target: all` those with a domain of the run's
    data set. Raises FedshiftError as `axes_of`, and for rows, axes and values that do not exist. A setting
    that an axis varies must not be set in `spec`, where it would have no effect.
    """
    axes, where, common = axes_of(experiment, known), experiment.file, merge(known.spec, experiment.spec)
    _check_only(experiment, axes)
    for axis in axes:
        if any(f"{key}.".startswith(f"{axis.key}.") for key, _ in dotted(experiment.spec)):
            what = f"is set for all runs, and the axis '{axis.name}' varies it"
            raise FedshiftError(f"{where}: spec.{axis.key}", what, "Leave one of the two out.")
    combined = []
    for values in itertools.product(*(zip(axis.values, axis.columns, strict=True) for axis in axes)):
        by_name = {axis.name: value for axis, (value, _) in zip(axes, values, strict=True)}
        settings = nested({axis.key: by_name[axis.name] for axis in axes})
        combined.append((by_name, merge(*(columns for _, columns in values)), settings))
    points = [
        Point(label, columns, settings, *_subject(experiment, common, label, settings))
        for label in experiment.methods
        for by_name, columns, settings in combined
        if all(by_name[name] in wanted for name, wanted in experiment.only.get(label, {}).items())
    ]
    _check_rows(experiment, axes, sorted({(point.label, point.method) for point in points}))
    if not any(axis.key == HELD_OUT and axis.values == "all" for axis in experiment.axes.values()):
        return points
    domains = [_domains(point.dataset, f"{where}: {point.label}") for point in points]
    return [at for at, own in zip(points, domains, strict=True) if at.settings["data"]["target"] in own]


def _check_only(experiment: Experiment, axes: list[Axis]) -> None:
    """Check that `only` names existing methods, axes, and values of these."""
    where, values = f"{experiment.file}: only", {axis.name: axis.values for axis in axes}
    for label, fewer in experiment.only.items():
        check_known(where, "method of this experiment", label, experiment.methods)
        for name, wanted in fewer.items():
            check_known(f"{where}.{label}", "axis", name, values)
            if not wanted:
                raise FedshiftError(f"{where}.{label}.{name}", "has no value", "List values of the axis.")
            for value in wanted:
                check_known(f"{where}.{label}.{name}", "value of this axis", value, values[name])


def _check_rows(experiment: Experiment, axes: list[Axis], rows: list[tuple[str, str]]) -> None:
    """Check the methods of rows (label, method), and that an axis of a parameter fits every row's method.

    A parameter that no method has is probably misspelled; `resolve` reports it.
    """
    where = experiment.file
    for label, method in rows:
        if method not in names("methods"):
            cure = nearest(method, names("methods"), "methods")
            cure += f" {WHOSE.format(label)}" if label == method else ""
            raise FedshiftError(f"{where}: {label}: method.name", f"unknown method '{method}'", cure)
        for key in experiment.entry(label)[1].keys() - RunSpec.model_fields.keys():
            if key in _parameters(method):
                cure = f"Did you mean 'method.params.{key}'?"
                raise FedshiftError(f"{where}: {label}", f"unknown key '{key}'", cure)
    for axis in axes:
        block, _, name = axis.key.partition(".params.")
        without = [row for row in rows if name not in _parameters(row[1])]
        if block == "method" and 0 < len(without) < len(rows):
            label, method = without[0]
            what = f"the method of '{label}', {method}, has no parameter '{name}'"
            cure = "Leave the axis out, and write a row below `methods` for each of its values."
            raise FedshiftError(f"{where}: axes.{axis.name}", what, cure)


def _parameters(method: str) -> list[str]:
    return [field.name for field in dataclasses.fields(get("methods", method).Params)]


def _subject(experiment: Experiment, common: Partial, label: str, point: Partial) -> tuple[str, str]:
    """The data set and the method of a run, from its own settings or the `common` ones of all runs."""
    own = merge(experiment.entry(label)[1], point)
    dataset = setting(own, "data", "dataset", setting(common, "data", "dataset", ""))
    return dataset, method_of(label, own, common)


def method_of(label: str, own: Partial, common: Partial) -> str:
    """The method of a row: its entry's, else the one that its label names, else that of all rows."""
    default = label if label in names("methods") else setting(common, "method", "name", label)
    return setting(own, "method", "name", default)


def setting(partial: Partial, block: str, key: str, default: str) -> str:
    """The value of `block.key` in a partial specification, or `default` if it is not set."""
    inner = partial.get(block)  # other types are rejected with the rest of the run's spec
    return str(inner.get(key, default)) if isinstance(inner, dict) else default
