"""Gap: how far out-of-distribution accuracy lies below in-distribution accuracy, per method and seed."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.figures.base import Axis, Figure, Plot, with_seed
from fedshift.analysis.quantities import selected
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Params:
    """relative: in percent of in-distribution accuracy, rather than in points."""

    relative: bool = False


class Gap(Figure):
    """A ring per seed, a dot for their mean; gaps are averaged over the other axes first."""

    name = "gap"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no finished run has a held-out domain."""
        runs = with_seed(selected(collected)).dropna(subset=["id", "ood"])
        if runs.empty:
            raise FedshiftError(collected.path, "has no run with a held-out domain", "Leave the figure out.")
        runs["y"] = (runs["id"] - runs["ood"]) * (100 / runs["id"] if self.params.relative else 1)
        seeds = runs.groupby(["method", "seed"], sort=False)["y"].mean().reset_index()
        means = seeds.groupby("method", sort=False)["y"].mean().reset_index()
        frame = pd.concat([seeds.assign(mark="seed", style="ring"), means.assign(mark="mean", style="dot")])
        frame = frame.assign(label=frame["method"], x=frame["method"])
        unit = "%" if self.params.relative else "points"
        y = Axis(f"accuracy lost out of distribution\n({unit})")
        return Plot("Generalisation gap", frame, Axis("method"), y, note="rings: seeds")
