"""Printed spec: what a row of reference/published.csv was trained with, as a resolved spec.

A row names its paper, data set, network, protocol, partition, method and variant. reference/published.yaml
says which protocol of reference/protocols that is and what the row sets itself; the protocol's default preset
is the paper's setting.
"""

from __future__ import annotations

import functools
from typing import Any

from fedshift.analysis.printed.published import Row, targets
from fedshift.common.errors import unknown
from fedshift.common.yaml_file import read
from fedshift.experiments.expand import expand
from fedshift.experiments.protocols import Partial, merge
from fedshift.experiments.schema import HELD_OUT, AxisValues, Experiment
from fedshift.spec import Closed, RunSpec, closed
from fedshift.storage.workspace import Workspace

NO_TARGET = ("personal_all_clients", "cost")  # protocols of the reference that hold out no domain


class Setting(Closed):
    """What a row was trained with: a protocol, what differs from it, presets by method, an adaptation before
    the test; over: dotted key -> the values over which the row is a mean.
    """

    protocol: str = ""
    spec: Partial = {}
    presets: dict[str, str] = {}
    adapt: str = ""
    over: dict[str, list[Any]] = {}


class Margin(Closed):
    """The widest interval, on either side, that still tells that a number of ours is a paper's: in percentage
    points by data set, and in percent of a time over another's; why these.
    """

    points: dict[str, float]
    percent: float
    why: str

    def of(self, dataset: str) -> float:
        """In points; of what is of no data set, or of several, the widest."""
        return self.points.get(dataset, max(self.points.values()))


class Settings(Closed):
    """reference/published.yaml: by paper; by paper and protocol/partition; by printed network; by method and
    variant.
    """

    margins: dict[str, Margin]
    protocols: dict[str, dict[str, Setting]]
    backbones: dict[str, str | None]
    variants: dict[str, dict[str, Setting]]


@functools.cache
def setting(workspace: Workspace, row: Row) -> Setting | None:
    """All that the row sets over its protocol on its data set; None where that is not written down."""
    known = _known(workspace)
    base = known.protocols.get(row.paper, {}).get(f"{row.protocol}/{row.partition}")
    variants = {"default": Setting(), **known.variants.get(row.method, {})}
    if base is None or row.variant not in variants or row.backbone not in known.backbones:
        return None
    variant, network = variants[row.variant], known.backbones[row.backbone]
    parts: list[Partial] = [base.spec, {"model": {"name": network}} if network else {}, variant.spec]
    spec = merge(*parts, {"method": {"name": row.method}})
    return base.model_copy(update={"spec": spec, "adapt": variant.adapt})


@functools.cache
def resolved(workspace: Workspace, row: Row) -> RunSpec:
    """The spec of a row, whose setting must be known; of the domains that it holds out by turns, the
    first.
    """
    known = setting(workspace, row)
    assert known is not None
    target = None if row.protocol in NO_TARGET else min(targets(workspace, row.paper, row.dataset))
    preset = {"preset": known.presets[row.method]} if row.method in known.presets else {}
    experiment = Experiment(
        name="reference/published",
        title="",
        protocol=known.protocol,
        spec={"data": {"dataset": row.dataset}},
        methods={row.method: {**preset, **known.spec}},
        axes={"target": AxisValues(key=HELD_OUT, values=[target])},
    )
    return expand(workspace, experiment)[0].spec


def margin(workspace: Workspace, paper: str) -> Margin:
    """The declared margin of a paper. Raises FedshiftError where none is."""
    margins = _known(workspace).margins
    if paper not in margins:
        raise unknown("reference/published.yaml: margins", "paper", paper, margins)
    return margins[paper]


@functools.cache
def _known(workspace: Workspace) -> Settings:
    return closed(Settings, read(workspace.reference / "published.yaml"), "reference/published.yaml")
