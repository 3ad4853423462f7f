"""Weights: how much each client counts in the server's step, over rounds or at the end of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedshift.analysis.clients import DOMAINS, SHARES, of_clients
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures._queries import (
    at_the_end,
    headings,
    holders,
    in_order,
    marks,
    not_recorded,
    note,
    panel_of,
    with_seed,
)
from fedshift.analysis.figures.base import Axis, Figure, Plot
from fedshift.storage.workspace import Workspace

LEAST = "the least of all clients"
PERCENT = 100
MANY = 60  # rounds, from which single ones hide each other
WINDOW = 21  # rounds that a line is the median of, then
ENDS = (0.05, 0.95)  # quantiles of their weights between which the band lies
MOVING = f"line: median of all seeds in {WINDOW} rounds; band: the middle {ENDS[1] - ENDS[0]:.0%} of these"


@dataclass(frozen=True)
class Params:
    """at: all `rounds`, or the `end` of training.
    diagnostic: its name, where it is neither `weights` nor `gradalign`.
    """

    at: Literal["rounds", "end"] = "rounds"
    diagnostic: str = ""


class Weights(Figure):
    """Of every method that records its weights. Over rounds a panel per held-out domain, a line per client
    and the least weight of a round, which is that of the client that agrees least; at the end dots per
    held-out domain. The rule: all clients equally, where all rounds have as many of them.

    Of MANY rounds and more a line is the median over seeds and the WINDOW rounds around each, in a band that
    holds 90% of them; of fewer the mean over seeds of each round.
    """

    name = "weights"
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no finished run recorded weights."""
        names = [self.params.diagnostic] if self.params.diagnostic else [*SHARES]
        parts = [of_clients(workspace, collected, name) for name in names]
        frame = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        if frame.empty:
            raise not_recorded(collected, " or ".join(names))
        frame = with_seed(frame).rename(columns={"value": "y"})
        frame["row"], rows = headings(collected, frame, methods=True)
        targets, labels = collected.order.get("target", []), holders(frame)
        clients = frame["client"].groupby([frame[key] for key in [*collected.keys, "round"]], dropna=False)
        alike = {PERCENT / count for count in clients.nunique()}
        if self.params.at == "rounds":
            frame["panel"] = frame["target"].map(panel_of) if targets else ""
            plotted, about = _over_rounds(frame, collected.protocol.ddof)
            x, size = Axis("round", whole=True), (2.0, 1.9)
            labels = [*labels, LEAST]
            plotted = in_order(plotted, row=rows, panel=[*map(panel_of, targets)], label=labels)
        else:
            frame["x"] = frame["target"] if targets else "all"
            last = at_the_end(frame, ["row", "x", "seed"])
            last = in_order(last, x=[*targets, "all"])
            means = last.groupby(["row", "x", DOMAINS, "seed"], sort=False)["y"].mean().reset_index()
            plotted = marks(means.rename(columns={DOMAINS: "label"}), collected.protocol.ddof, "dot")
            plotted = in_order(plotted, row=rows, x=[*targets, "all"], label=labels)
            present = [target for target in [*targets, "all"] if (last["x"] == target).any()]
            x, size, about = (
                Axis("held-out domain", names=present),
                (1.2 + 0.9 * len(present), 2.2),
                note(plotted),
            )
        rule = "grey rule: all clients equally" if len(alike) == 1 else ""
        return Plot(
            "Clients' weights",
            plotted,
            x,
            Axis("weight in the\nserver's step (%)"),
            labels,
            "; ".join(filter(None, [about, rule])),
            size=size,
            colours={LEAST: "#000000"},
            rules={"y": [*alike]} if len(alike) == 1 else {},
        )


def _over_rounds(frame: pd.DataFrame, ddof: int) -> tuple[pd.DataFrame, str]:
    """Lines of clients, those of the same domains together, and of the least weight; and what they are."""
    by = ["row", "panel", "round", "seed"]
    clients = frame.groupby([*by, DOMAINS])["y"].mean().reset_index().rename(columns={DOMAINS: "label"})
    least = frame.groupby(by)["y"].min().reset_index().assign(label=LEAST)
    lines = pd.concat([clients, least], ignore_index=True).rename(columns={"round": "x"})
    if frame["round"].nunique() < MANY:
        plotted = marks(lines, ddof, "line")
        plotted = plotted[(plotted["label"] != LEAST) | (plotted["mark"] == "mean")]
        return plotted, note(plotted)
    moving = [
        _moving(own).assign(row=str(row), panel=str(panel), label=str(label))
        for (row, panel, label), own in lines.groupby(["row", "panel", "label"])
    ]
    return pd.concat(moving, ignore_index=True).assign(mark="median", style="line"), MOVING


def _moving(line: pd.DataFrame) -> pd.DataFrame:
    """Around each round (x) the median, and the quantiles ENDS, over seeds and WINDOW rounds."""
    by_round = line.set_index("x")["y"].sort_index()
    rounds = by_round.index.unique()
    near = [by_round.loc[at - WINDOW // 2 : at + WINDOW // 2] for at in rounds]
    numbers = {"low": ENDS[0], "y": 0.5, "high": ENDS[1]}
    values = {name: [values.quantile(at) for values in near] for name, at in numbers.items()}
    return pd.DataFrame({"x": rounds.astype(float), **values})
