"""Axes: what an experiment varies, under which name tables show it, and its values as they show them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from fedshift.errors import FedshiftError
from fedshift.files import canonical_json

SHORT = {"target": "data.target", "seed": "seed"}
NAMED = {key: name for name, key in SHORT.items()}
NONE = "none"  # what tables show of a null: no held-out domain, an option that is off
# Columns that collected files and tables have themselves; tests/experiments/test_axes.py compares them.
TAKEN = frozenset(
    {
        "method", "target", "validation", "seed",
        "digest", "code", "installed", "run", "state", "failure", "spec", "adaptation", "evaluates", "stage", "bn", "precision", "hardware", "classes", "clients", "bytes_up", "bytes_down",
        "state_dict_bytes", "macs_per_image", "seconds", "peak_memory_mb",
        "round", "model", "member", "client", "split", "metric", "value", "n", "time", "correct", "loss", "wrong", "right", "confidence",
        "id", "ood", "all", "avg", "val", "held_out", "shown_stage", "own_split", "train", "test", "chance",
        "select", "mean", "std", "seeds", "planned", "published", "published_std", "difference", "table",
        "orientation", "orientation_std", "differs", "remark", "spread", "fewer",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Axis:
    """`key` as the file has it; each of its values beside what it says in tables: {name: value}, of two held-out domains {target, validation}."""

    key: str
    values: list[Any]
    told: list[dict[str, Any]]


def axes(declared: dict[str, list[Any]], where: str) -> list[Axis]:
    """The axes of an experiment. Raises FedshiftError for one without values, with one value twice, or that sets what another sets."""
    for key, values in declared.items():
        if not values:
            raise FedshiftError(f"{where}: axes.{key}", "has no value", "List the values.")
    for one, other in itertools.permutations(declared, 2):
        if f"{_full(one)}.".startswith(f"{_full(other)}."):
            raise FedshiftError(f"{where}: axes.{one}", f"sets what '{other}' sets", "Leave one of them out.")
    names = named(list(declared))
    made = [Axis(key, list(values), _told(names[key], values)) for key, values in declared.items()]
    for axis in made:
        for place, told in enumerate(axis.told):
            if told in axis.told[:place]:
                what = f"has '{', '.join(map(str, told.values()))}' twice, as tables show it"
                raise FedshiftError(f"{where}: axes.{axis.key}", what, "Name each value once.")
    return made


def named(keys: list[str]) -> dict[str, str]:
    """The name of each axis: as few last words of its dotted key as tell it from the other axes and from columns of tables (TAKEN).

    `partition.params.d` is `d`, `local.precision` is itself; of `local.lr` and `method.params.lr` the second is `params.lr`.
    """
    words = {key: ["spec", *_full(key).split(".")] for key in keys}

    def name(key: str) -> str:
        for count in range(1, len(words[key])):
            tail = words[key][-count:]
            others = (words[other][-count:] for other in keys if other != key)
            if ".".join(tail) not in TAKEN and tail not in others:
                return ".".join(tail)
        return ".".join(words[key])

    return {key: NAMED.get(_full(key)) or name(key) for key in keys}


def nested(key: str, value: Any) -> dict[str, Any]:
    """`partition.params.d`, 2 -> {partition: {params: {d: 2}}}; `target` and `seed` are short for their fields."""
    for word in reversed(_full(key).split(".")):
        value = {word: value}
    return dict(value)


def _told(name: str, values: list[Any]) -> list[dict[str, Any]]:
    if name == "target" and any(isinstance(value, list) for value in values):
        pairs = [value if isinstance(value, list) else [value] for value in values]
        return [
            dict(itertools.zip_longest(("target", "validation"), map(_text, pair[:2]), fillvalue=NONE))
            for pair in pairs
        ]
    return [{name: value} for value in _shown(values)]


def _shown(values: list[Any]) -> list[Any]:
    """Numbers as numbers where all are; else text: null is NONE, lists and mappings are JSON."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return values if numbers or all(isinstance(value, bool) for value in values) else [*map(_text, values)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else NONE if value is None else canonical_json(value)


def _full(key: str) -> str:
    return SHORT.get(key, key)
