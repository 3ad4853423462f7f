"""A run of its own: declared in a few words, and the same run as the one that an experiment's file would
declare so.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import module
from fedshift.data.dataset import Address
from fedshift.experiments.axes import nested
from fedshift.experiments.expand import expand
from fedshift.experiments.protocols import Partial, merge
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec, closed
from fedshift.storage.workspace import Workspace

NAME = "run"
PROTOCOL = "unified"

# Dotted key -> the option (in Python: the argument) that says it.
OWN = {
    "seed": "--seed (compare: --seeds)",
    "data.target": "--target",
    "data.dataset": "--data",
    "data.release": "--data",
    "method.name": "the method's name",
}


@dataclass(frozen=True)
class Single:
    """What a run is declared by.

    method: its name
    data: its images
    target: the held-out domain, None for none
    settings: dotted key -> value, over the protocol's and the method's presets; `preset` names one of the
        method's
    """

    method: str
    data: Address
    target: str | None = None
    seed: int = 0
    rounds: int | None = None
    protocol: str = PROTOCOL
    settings: Mapping[str, Any] = field(default_factory=dict)

    def experiment(self) -> Experiment:
        """The experiment that has this run alone."""
        declared = {
            "name": NAME,
            "title": f"{self.method} on {self.data}",
            "protocol": self.protocol,
            "spec": {"data": {"dataset": self.data.dataset, "release": self.data.release}},
            "methods": {self.method: entry_of(self.rounds, self.settings)},
            "axes": {"target": [self.target], "seed": [self.seed]},
        }
        return closed(Experiment, declared, "fedshift run")


def entry_of(rounds: int | None, settings: Mapping[str, Any]) -> Partial:
    """Settings by dotted key, nested as below an experiment's `methods`. Raises FedshiftError for one that
    has a place of its own, which would win over it without a word.
    """
    own = OWN | ({} if rounds is None else {"federation.rounds": "--rounds"})
    for key in own.keys() & settings.keys():
        raise FedshiftError(key, "has a place of its own", f"Say it by {own[key]}, not among the settings.")
    federation: Partial = {} if rounds is None else {"federation": {"rounds": rounds}}
    return functools.reduce(merge, (nested(key, value) for key, value in settings.items()), federation)


def spec_of(workspace: Workspace, single: Single) -> RunSpec:
    """The run's resolved specification. Raises FedshiftError for a name, a setting or a value that there is
    not.
    """
    module("methods", single.method, "fedshift run")
    try:
        (cell,) = expand(workspace, single.experiment())
    except FedshiftError as error:
        where = error.where.removeprefix(f"experiments/{NAME}.yaml: ")
        raise FedshiftError(where, error.what, error.cure, retry=error.retry) from None
    return cell.spec
