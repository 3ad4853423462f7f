"""Choices: what the tuning of an experiment found, as a file that the final runs' specifications are made of.

It lies at results/tuning/<experiment>/<key>.json; the key covers the digests of all runs of the search, so
that another search has another file and never meets this one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_json, sha256, write_json
from fedshift.experiments.axes import nested
from fedshift.experiments.protocols import Partial, merge
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import TUNING, Workspace


@dataclass(frozen=True)
class Chosen:
    """The values that one row takes.

    row: its label
    where: axis -> value, of the axes that are tuned value by value
    values: dotted key -> value
    validation: the score of these values: accuracy ALL on validation, percent, mean over the point's runs
    points, failed: how many points were tried, and how many of these have a run that failed or is not
        finite
    """

    row: str
    where: dict[str, Any]
    values: dict[str, Any]
    validation: float
    points: int
    failed: int


@dataclass(frozen=True)
class Choice:
    """All rows' values.

    rule: which round of a run counts (the protocol's `select`)
    chosen: a row at a place each, in the order of the file
    """

    rule: str
    chosen: list[Chosen]

    def of(self, experiment: Experiment, row: str, point: dict[str, Any]) -> Partial:
        """The part of a specification that is chosen for a run of the experiment, by its row and its values
        on the axes. Raises FedshiftError where nothing was chosen for it.
        """
        assert experiment.tune is not None
        row = experiment.tune.like.get(row, row)
        for chosen in self.chosen:
            if chosen.row == row and all(point.get(axis) == value for axis, value in chosen.where.items()):
                return functools.reduce(merge, (nested(*item) for item in chosen.values.items()), {})
        what = f"nothing was chosen for '{row}' at {point}"
        raise FedshiftError(f"experiments/{experiment.name}.yaml: tune", what, "Tune it there, too.")

    def write(self, path: Path) -> None:
        """Write the choice atomically; equal choices are equal bytes."""
        write_json(path, {"rule": self.rule, "chosen": [vars(chosen) for chosen in self.chosen]})


def read(path: Path) -> Choice | None:
    """The choice in a file; None where there is none."""
    content = read_json(path)
    return Choice(content["rule"], [Chosen(**entry) for entry in content["chosen"]]) if content else None


def key_of(digests: Iterable[str]) -> str:
    """16 hexadecimals of the digests of all runs of a search."""
    return sha256("\n".join(sorted({*digests})))[:16]


def stage_of(name: str) -> str:
    """The name of the experiment that is the tuning of another."""
    return f"{name}{TUNING}"


def path_of(workspace: Workspace, name: str, digests: Iterable[str]) -> Path:
    """Where the choice of an experiment lies whose search is made of runs with these digests."""
    return workspace.choices(name) / f"{key_of(digests)}.json"
