"""Axes: the settings that an experiment varies, with their values as tables show them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json
from fedshift.common.registry import names
from fedshift.experiments.protocols import Partial
from fedshift.experiments.schema import HELD_OUT, Experiment

NONE = "none"  # in tables for null: no held-out domain, an option that is off
STANDARD = {HELD_OUT: "target", "seed": "seed"}  # axes that tables treat on their own, by key


@dataclass(frozen=True)
class Axis:
    """A setting that an experiment varies."""

    name: str  # what its file and tables call it
    key: str  # dotted key of the setting
    values: list[Any]  # as the file has them
    columns: list[dict[str, Any]]  # as tables show them: {name: value}; {target, validation} of two domains


def axes(declared: Mapping[str, tuple[str, list[Any]]], where: str) -> list[Axis]:
    """The axes of an experiment, from name -> key and values.

    Raises FedshiftError for an axis without values or with a value twice, and for two axes that set the same
    setting. An axis of the target or the seed must have that name.
    """
    for name, (key, values) in declared.items():
        if not values:
            raise FedshiftError(f"{where}: axes.{name}", "has no value", "List the values.")
        if (standard := STANDARD.get(key, name)) != name:
            what = f"tables know the axis of '{key}' as '{standard}'"
            raise FedshiftError(f"{where}: axes.{name}", what, f"Write `{standard}: [..]`.")
    for (name, (key, _)), (other, (above, _)) in itertools.permutations(declared.items(), 2):
        if f"{key}.".startswith(f"{above}."):
            what = f"sets what '{other}' sets"
            raise FedshiftError(f"{where}: axes.{name}", what, "Leave one of them out.")
    result = [Axis(name, key, [*values], _columns(name, values)) for name, (key, values) in declared.items()]
    for axis in result:
        for place, columns in enumerate(axis.columns):
            if columns in axis.columns[:place]:
                what = f"has '{', '.join(map(str, columns.values()))}' twice, as tables show it"
                raise FedshiftError(f"{where}: axes.{axis.name}", what, "Name each value once.")
    return result


def _columns(name: str, values: list[Any]) -> list[dict[str, Any]]:
    if name == "target" and any(isinstance(value, list) for value in values):
        pairs = [value if isinstance(value, list) else [value] for value in values]
        both = ("target", "validation")
        return [dict(itertools.zip_longest(both, map(_text, pair[:2]), fillvalue=NONE)) for pair in pairs]
    booleans = [isinstance(value, bool) for value in values]
    numbers = all(isinstance(value, int | float) for value in values) and not any(booleans)
    return [{name: value if numbers or all(booleans) else _text(value)} for value in values]


def _text(value: Any) -> str:
    """A value as text: strings unchanged, null as NONE, all others as JSON."""
    return value if isinstance(value, str) else NONE if value is None else canonical_json(value)


def entry(experiment: Experiment, label: str) -> tuple[str, Partial]:
    """The preset that a row's entry names, and the rest of the entry."""
    own = dict(experiment.methods[label] or {})
    return own.pop("preset", "default"), own


def method_of(label: str, own: Partial, common: Partial) -> str:
    """The method of a row: its entry's, else the one that its label names, else that of all rows."""
    default = label if label in names("methods") else setting(common, "method", "name", label)
    return setting(own, "method", "name", default)


def setting(partial: Partial, block: str, key: str, default: str) -> str:
    """The value of `block.key` in a partial specification, or `default` if it is not set."""
    inner = partial.get(block)  # other types are rejected with the rest of the run's spec
    return str(inner.get(key, default)) if isinstance(inner, dict) else default
