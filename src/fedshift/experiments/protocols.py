"""What the files below reference/ may hold: protocols, how a paper trains and reports, and presets, a
method's tuned values.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedshift.common.errors import unknown
from fedshift.experiments.space import Space
from fedshift.spec import Closed

Partial = dict[str, Any]
Rule = Literal["last", "last_third", "best_first", "best_later", "oracle", "held_out"]


class Evidence(Closed):
    """What a paper's text and its released code say about a setting, and why ours is another.

    Each of paper, code and why may be a mapping of data sets, "*" any other.
    """

    paper: Any = Field(
        None,
        description="The value in the paper, as docs/protocols.md shows ours, or words where it is none of "
        "ours; null where it says nothing.",
    )
    at: str = Field("", description="Where the paper says it.")
    code: Any = Field(
        None, description="The value in the released code; null where there is none or it does not say."
    )
    why: str | dict[str, str] = Field(
        "",
        description="The reason where ours is not the paper's, or not the code's where the paper is silent.",
    )


class Protocol(Closed):
    """How a paper trains and reports: a partial RunSpec, and the round that its tables show."""

    title: str = Field(description="What it is, in one line.")
    paper: str = Field(
        "", description="The paper's short name in reference/published.csv; empty for one of ours."
    )
    base: str = Field("", description="The protocol that this one changes: its keys lie over that one's.")
    notes: list[str] = Field([], description="What a reader must know, a sentence or two each.")
    spec: Partial = Field(description="The settings of its runs, a part of a run's specification.")
    datasets: dict[str, Partial] = Field({}, description="By data set: which settings differ on it.")
    presets: dict[str, dict[str, Partial]] = Field(
        {},
        description='Named variants that an experiment may ask for: name -> data set, or "*" for all -> '
        "which settings differ.",
    )
    seeds: list[int] = Field([], description="What `seed: all` means in an experiment's axes.")
    headline: dict[str, list[str]] = Field(
        {},
        description="The paper's own method -> the data sets of its tables, whose settings "
        "docs/protocols.md compares.",
    )
    holds_out: bool = Field(True, description="Whether its tables hold out a domain.")
    grid: dict[str, Space] = Field(
        {}, description="Dotted key -> what is searched for every method (`tune` of an experiment)."
    )
    sources: dict[str, Evidence] = Field(
        {}, description="Dotted key of a setting -> what paper and released code say about it."
    )
    select: Literal["last", "best_first", "best_later"] = Field(
        "last",
        description="The round that tables show: the last, or that of the highest validation accuracy "
        "(`all`), the first or the later of equal ones.",
    )
    ddof: Literal[0, 1] = Field(
        1,
        description="Standard deviations over seeds divide by n - ddof: 1 for a sample's, 0 where the "
        "paper's code does.",
    )

    def settings(self, dataset: str, preset: str, where: str) -> Partial:
        """The partial RunSpec for a data set under a preset; raises FedshiftError at `where` for an
        unknown preset.
        """
        presets = {"default": {}, **self.presets}
        if preset not in presets:
            raise unknown(f"{where}: preset", f"preset of protocol '{self.title}'", preset, presets)
        variant = presets[preset]
        parts = [self.spec, self.datasets.get(dataset, {}), variant.get("*", {}), variant.get(dataset, {})]
        return functools.reduce(merge, parts)


class Preset(BaseModel):
    """A method's tuned settings: below the name of each protocol, by data set ("*" for all), a part of a
    run's specification.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, dict[str, Partial]]

    presets: dict[str, dict[str, Partial]] = Field(
        {},
        description='Named variants that a row may ask for with `preset: <name>`: name -> data set, or "*" '
        "for all -> which settings differ.",
    )
    grid: dict[str, dict[str, Space]] = Field(
        {},
        description='Protocol, or "*" for those that are not named -> dotted key -> what is searched for '
        "this method, over what the protocol searches for every method. A printed number may be of any of a "
        "paper's own values.",
    )

    @property
    def protocols(self) -> dict[str, dict[str, Partial]]:
        """Protocol -> data set, or "*" for all -> which settings differ."""
        return self.model_extra or {}

    def settings(self, lineage: list[str], dataset: str, preset: str, where: object) -> Partial:
        """The partial RunSpec under protocols, the base first, on a data set; raises FedshiftError at
        `where` for an unknown preset.
        """
        presets = {"default": {}, **self.presets}
        if preset not in presets:
            raise unknown(where, "preset", preset, presets)
        parts = [*(self.protocols.get(name, {}) for name in lineage), presets[preset]]
        return functools.reduce(merge, [part.get(place, {}) for part in parts for place in ("*", dataset)])

    def searched(self, lineage: list[str]) -> dict[str, Space]:
        """What is searched for this method under protocols, the base first; "*" where none is named."""
        named = [self.grid[name] for name in lineage if name in self.grid] or [self.grid.get("*", {})]
        return {key: space for part in named for key, space in part.items()}


def merge(base: Partial, over: Partial) -> Partial:
    """A deep merge of two nested mappings; `over` wins, lists are replaced."""
    merged = dict(base)
    for key, value in over.items():
        merged[key] = (
            merge(merged[key], value)
            if isinstance(value, dict) and isinstance(merged.get(key), dict)
            else value
        )
    return merged
