"""What protocols and experiment files may say: closed, so that a misspelled key is an error."""

from __future__ import annotations

import functools
import re
from typing import Any, Literal

from pydantic import Field

from fedshift.errors import unknown
from fedshift.spec import Closed

Partial = dict[str, Any]
FIELD = re.compile(r"\{([^{}]*)\}")  # what a template of `published` has filled in
Rule = Literal["last", "last_third", "best_first", "best_later", "oracle", "held_out"]


class Said(Closed):
    """What a paper's text and its released code say about a setting, and why ours is another.

    paper, code: the setting's value as docs/protocols.md shows ours, or words where it is none of ours; null where they say nothing. at:
    where the paper says it. why: the reason where ours is not what the paper says, or not what the code says where the paper is silent.
    Each may be a mapping of data sets, "*" any other.
    """

    paper: Any = None
    at: str = ""
    code: Any = None
    why: str | dict[str, str] = ""


class Protocol(Closed):
    """How a paper trains and reports: a partial RunSpec, and the round that its tables show (`best`: highest validation ALL).

    base: the protocol that this one changes; datasets: what differs on a data set; presets: name -> "*" or data set -> what differs under
    it; seeds: what `seed: all` means; headline: the paper's own method -> the data sets of its tables; holds_out: whether these hold out a domain; sources: setting -> what was said
    about it (docs/protocols.md).
    """

    title: str
    paper: str = ""
    base: str = ""
    notes: list[str] = []
    spec: Partial
    datasets: dict[str, Partial] = {}
    presets: dict[str, dict[str, Partial]] = {}
    seeds: list[int] = []
    headline: dict[str, list[str]] = {}
    holds_out: bool = True
    sources: dict[str, Said] = {}
    select: Literal["last", "best_first", "best_later"] = "last"
    ddof: Literal[0, 1] = 1

    def settings(self, dataset: str, preset: str, where: str) -> Partial:
        """The partial RunSpec for a data set under a preset; raises FedshiftError at `where` for one that is not there."""
        named = {"default": {}, **self.presets}
        if preset not in named:
            raise unknown(f"{where}: preset", f"preset of protocol '{self.title}'", preset, named)
        chosen = named[preset]
        parts = [self.spec, self.datasets.get(dataset, {}), chosen.get("*", {}), chosen.get(dataset, {})]
        return functools.reduce(merge, parts)


class Table(Closed):
    """Rows are methods; columns are the values of `columns` (axes), each with `metrics`; other axes are averaged, seeds last.

    metrics: `<metric>.<aggregation over clients>`, or the second alone for accuracy (fedshift.experiments.quantity).

    select: rules by which rounds are chosen, side by side; none: the protocol's.
    """

    title: str = ""
    columns: list[str] = []
    metrics: list[str] = ["id", "ood"]
    select: list[Rule] = []


class Expect(Closed):
    """What a run of the whole experiment must reach, in multiples of chance; methods in `exempt` need not reach `ood`."""

    id: float = 0.0
    ood: float = 0.0
    exempt: list[str] = []


class Claim(Closed):
    """How a row of reference/claims.csv is judged (fedshift.analysis.claims): by which metric (as tables name it), over which values of the axes.

    rows: what the paper calls a method -> the row of this experiment, where they differ; margin: points within which "~" calls two equal.
    """

    metric: str
    where: dict[str, Any] = {}
    rows: dict[str, str] = {}
    margin: float = 1.0


class Adapt(Closed):
    """A further row of the tables: the runs of method `run`, adapted to their held-out domain without its labels by adaptation `name`."""

    run: str
    name: str
    params: Partial = {}


class Experiment(Closed):
    """One file below experiments/. Its name is its path without suffix ("hfedf/table2")."""

    name: str
    title: str
    paper: str = ""
    notes: list[str] = []
    protocol: str
    preset: str = "default"
    spec: Partial = {}
    methods: dict[str, Partial | None] = Field(min_length=1)
    axes: dict[str, list[Any] | Literal["all"]]
    only: dict[str, dict[str, list[Any]]] = {}
    adapt: dict[str, Adapt] = {}
    tables: dict[str, Table] = {}
    figures: list[Literal["curves"]] = ["curves"]
    published: dict[str, str] = Field(
        {}, description="method (or '*') -> run_key in reference/published.csv, with {axis} filled in"
    )
    claims: dict[str, Claim] = {}
    expect: Expect | None = None

    @property
    def rows(self) -> list[str]:
        """The rows of its tables: methods, then what is adapted of them."""
        return [*self.methods, *self.adapt]


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
