"""Files below reference/, read by name: protocols (how a paper trains and reports) and presets (a method's
tuned values).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fedshift.common.errors import FedshiftError, check_known, unknown
from fedshift.common.registry import names
from fedshift.common.yaml_file import read
from fedshift.spec import Closed, closed
from fedshift.storage.workspace import Workspace

Partial = dict[str, Any]
Rule = Literal["last", "last_third", "best_first", "best_later", "oracle", "held_out"]
DIGITS = 2  # significant digits of a value sampled from a range: short, and the same on every machine


class Space(Closed):
    """The values that a search tries for one setting: a list, or a range to sample from."""

    values: list[Any] = Field([], description="List of values; `[0.1, 0.01]` alone is the short form.")
    low: float | None = Field(None, description="Minimum of a range.")
    high: float | None = Field(None, description="Maximum of a range.")
    scale: str = Field(
        "log",
        pattern="^(log|linear)$",
        description="Whether a range is sampled uniformly in logarithms or in values.",
    )
    guess: str = Field("", description="Reason for these values, if the paper does not publish its search.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"values": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _whole(self) -> Space:
        ends = [end for end in (self.low, self.high) if end is not None]
        if bool(self.values) == bool(ends) or len(ends) == 1:
            raise ValueError("a search needs `values`, or `low` and `high`, and not both")
        if ends and (ends[0] >= ends[1] or (self.scale == "log" and ends[0] <= 0)):
            raise ValueError("`low` must be below `high`, and above 0 where the scale is log")
        return self

    def __contains__(self, value: object) -> bool:
        """Whether a search could have tried the value."""
        if self.low is None or self.high is None:
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high

    def at(self, number: float) -> Any:
        """The value at a number in [0, 1); values of a range are rounded to DIGITS significant digits."""
        if self.low is None or self.high is None:
            return self.values[math.floor(number * len(self.values))]
        if self.scale == "log":
            value = self.low * (self.high / self.low) ** number
        else:
            value = self.low + number * (self.high - self.low)
        return float(f"{value:.{DIGITS}g}")

    def __str__(self) -> str:
        if self.values:
            return "[" + ", ".join(map(str, self.values)) + "]"
        return f"{self.low} to {self.high} ({self.scale})"


class Evidence(Closed):
    """A setting in a paper's text and in its released code, and the reason if ours differs.

    Each of paper, code and why may be a mapping of data sets, with "*" for any other.
    """

    paper: Any = Field(
        None,
        description="The paper's value, as docs/protocols.md shows ours, or a description if we have no such "
        "value; null if not stated.",
    )
    at: str = Field("", description="Its place in the paper.")
    code: Any = Field(
        None, description="The value in the released code; null if there is no code or no such value."
    )
    why: str | dict[str, str] = Field(
        "",
        description="The reason why ours differs from the paper, or from the code if the paper does not "
        "state a value.",
    )


class Protocol(Closed):
    """How a paper trains and reports: a partial RunSpec, and the round that its tables show."""

    title: str = Field(description="Title in one line.")
    paper: str = Field(
        "", description="The paper's short name in reference/published.csv; empty for our own."
    )
    base: str = Field("", description="The protocol that this one extends; keys here override its keys.")
    notes: list[str] = Field([], description="Notes for readers, one or two sentences each.")
    spec: Partial = Field(description="Settings of its runs, a partial run specification.")
    datasets: dict[str, Partial] = Field({}, description="Data set -> settings that differ on it.")
    presets: dict[str, dict[str, Partial]] = Field(
        {},
        description='Variants that an experiment may select with `preset`: name -> data set, or "*" for all '
        "-> settings that differ.",
    )
    seeds: list[int] = Field([], description="The seeds of `seed: all` in an experiment's axes.")
    headline: dict[str, list[str]] = Field(
        {},
        description="The paper's own method -> data sets of its tables, whose settings docs/protocols.md "
        "compares.",
    )
    holds_out: bool = Field(True, description="Whether its tables hold out a domain.")
    grid: dict[str, Space] = Field(
        {}, description="Dotted key -> search space for all methods (`tune` of an experiment)."
    )
    sources: dict[str, Evidence] = Field(
        {}, description="Dotted key of a setting -> its values in the paper and in the released code."
    )
    select: Literal["last", "best_first", "best_later"] = Field(
        "last",
        description="The round shown in tables: `last`, or the round of highest validation accuracy (`all`), "
        "on ties the first or the later one.",
    )
    ddof: Literal[0, 1] = Field(
        1,
        description="Standard deviations over seeds divide by n - ddof: 1 for the sample's, 0 if the paper's "
        "code does so.",
    )

    def settings(self, dataset: str, preset: str, where: str) -> Partial:
        """The partial RunSpec for a data set. Raises FedshiftError at `where` for an unknown preset."""
        presets = {"default": {}, **self.presets}
        check_known(f"{where}: preset", f"preset of protocol '{self.title}'", preset, presets)
        variant = presets[preset]
        own = self.datasets.get(dataset, {})
        return merge(self.spec, own, variant.get("*", {}), variant.get(dataset, {}))


class Preset(BaseModel):
    """A method's tuned settings: protocol -> data set ("*" for all) -> a part of a run's specification."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, dict[str, Partial]]

    presets: dict[str, dict[str, Partial]] = Field(
        {},
        description='Variants that a row may select with `preset: <name>`: name -> data set, or "*" for all '
        "-> settings that differ.",
    )
    grid: dict[str, dict[str, Space]] = Field(
        {},
        description='Protocol, or "*" for all others -> dotted key -> search space of this method, which '
        "overrides the protocol's. A published number may belong to any value that the paper "
        "searched.",
    )

    @property
    def protocols(self) -> dict[str, dict[str, Partial]]:
        """Protocol -> data set, or "*" for all -> which settings differ."""
        return self.model_extra or {}

    def settings(self, lineage: Iterable[str], dataset: str, preset: str, where: object) -> Partial:
        """The partial RunSpec under protocols, the base first, on a data set.

        Raises FedshiftError at `where` for an unknown preset.
        """
        presets = {"default": {}, **self.presets}
        check_known(where, "preset", preset, presets)
        parts = [*(self.protocols.get(name, {}) for name in lineage), presets[preset]]
        return merge(*(part.get(place, {}) for part in parts for place in ("*", dataset)))


def merge(*parts: Partial) -> Partial:
    """A deep merge of nested mappings; later ones win, lists are replaced."""
    merged: Partial = {}
    for key, value in (item for part in parts for item in part.items()):
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def nested(values: Mapping[str, Any]) -> Partial:
    """{"partition.params.d": 2} -> {partition: {params: {d: 2}}}: the inverse of `dotted`."""
    parts = []
    for key, value in values.items():
        for word in reversed(key.split(".")):
            value = {word: value}
        parts.append(value)
    return merge(*parts)


def has(folder: Path, name: str) -> bool:
    """Whether a folder has <name>.yaml, without listing the folder, because this is called for every
    published number.
    """
    inside = Path(name).as_posix() == name and not {"..", "/"} & {*Path(name).parts}
    return inside and (folder / f"{name}.yaml").is_file()


def protocols(workspace: Workspace) -> list[str]:
    """Names of all protocols, sorted."""
    return sorted(path.stem for path in (workspace.reference / "protocols").glob("*.yaml"))


def lineage(workspace: Workspace, name: str) -> dict[str, Partial]:
    """The files of a protocol and of those that it is based on, by name, the base first."""
    folder, found = workspace.reference / "protocols", dict[str, Partial]()
    while name:
        if not has(folder, name):
            raise unknown(folder, "protocol", name, protocols(workspace))
        if name in found:
            where, cure = f"reference/protocols/{name}.yaml", "Remove one `base:` on the way."
            raise FedshiftError(where, "is based on itself", cure)
        found[name] = read(folder / f"{name}.yaml")
        name = found[name].get("base", "")
    return dict(reversed(found.items()))


def protocol(workspace: Workspace, name: str) -> Protocol:
    """Read reference/protocols/<name>.yaml, over the protocol that it is based on."""
    return closed(Protocol, merge(*lineage(workspace, name).values()), f"reference/protocols/{name}.yaml")


def searched(workspace: Workspace, name: str, method: str) -> dict[str, Space]:
    """Search spaces of a method under a protocol: dotted key -> values.

    The method's are those of the protocol and its bases, the base first; those of "*" if it names none.
    """
    grid = preset(workspace, method).grid
    own = [grid[base] for base in lineage(workspace, name) if base in grid] or [grid.get("*", {})]
    return {key: space for part in (protocol(workspace, name).grid, *own) for key, space in part.items()}


def printed_grid(workspace: Workspace, name: str, method: str) -> dict[str, Space]:
    """`searched` without guesses: the search spaces that a paper reports."""
    return {key: space for key, space in searched(workspace, name, method).items() if not space.guess}


def preset(workspace: Workspace, method: str) -> Preset:
    """Read reference/presets/<method>.yaml; empty if there is none. Raises FedshiftError for unknown names
    in it.
    """
    path = workspace.reference / "presets" / f"{method}.yaml"
    where = path.relative_to(workspace.root).as_posix()
    loaded = closed(Preset, read(path), where) if path.exists() else Preset()
    for name in loaded.protocols:
        check_known(where, "protocol", name, [*protocols(workspace), *Preset.model_fields])
    for name in loaded.grid:
        check_known(f"{where}: grid", "protocol", name, ["*", *protocols(workspace)])
    for name, places in (*loaded.protocols.items(), *loaded.presets.items()):
        for dataset in places:
            check_known(f"{where}: {name}", "data set", dataset, ["*", *names("datasets")], "datasets")
    return loaded
