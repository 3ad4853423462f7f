"""Weights: how much each client counts in the server's step, over rounds or at the end of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Spread
from fedshift.analysis.figures._marks import around, aside, note, with_seed
from fedshift.analysis.figures._recorded import holders, nothing, points
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.clients import DOMAINS
from fedshift.analysis.quantities.recorded import SHARES, of_clients
from fedshift.storage.workspace import Workspace

LEAST = "the least of all clients"
PLACE = "place on x"  # no axis has a blank in its name
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
    held-out domain. The rule: all clients alike.

    Of MANY rounds and more a line is the median over seeds and the WINDOW rounds around each, in a band that
    holds 90% of them; of fewer the mean over seeds of each round.
    """

    name = "weights"
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no finished run recorded weights."""
        names = [self.params.diagnostic] if self.params.diagnostic else [*SHARES]
        parts = [of_clients(workspace, collected, name) for name in names]
        frame = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        if frame.empty:
            raise nothing(collected, " or ".join(names))
        frame = with_seed(frame)
        ddof, labels = collected.protocol.ddof, holders(frame)
        if self.params.at == "rounds":
            rows = [
                Row([_over_rounds(part, labels, target, ddof) for _, target, part in row], row[0][0])
                for row in points(collected, frame)
            ]
            about = note(rows) if frame["round"].nunique() < MANY else MOVING
            colours, labels, size = {LEAST: "#000000"}, [*labels, LEAST], (2.0, 1.9)
        else:
            ends = [*points(collected, frame)]
            rows = [Row([_at_the_end(row, labels, ddof)], row[0][0]) for row in ends]
            about, colours, size = note(rows), {}, (1.2 + 0.9 * len(ends[0]), 2.2)
        about = "; ".join(filter(None, [about, "grey rule: all clients alike"]))
        return Panels("Clients' weights", rows, labels, about, size, colours, names="beside")


def _over_rounds(frame: pd.DataFrame, labels: Sequence[str], target: str, ddof: int) -> Panel:
    """A held-out domain's runs: clients of the same domains together."""
    series = [*_clients(frame, labels, ddof)]
    least = frame.groupby(["round", "seed"])["value"].min().reset_index()
    series += [mark for mark in _line(LEAST, least, ddof) if not mark.mark.startswith("seed ")]
    title = target and f"held out: {target}"
    return Panel(series, Axis("round", whole=True), _axis(), title, rules=_alike([frame]))


def _clients(frame: pd.DataFrame, labels: Sequence[str], ddof: int) -> Iterator[Series]:
    for label in labels:
        own = frame[frame[DOMAINS] == label].groupby(["round", "seed"])["value"].mean().reset_index()
        yield from _line(label, own, ddof)


def _line(label: str, seeds: pd.DataFrame, ddof: int) -> list[Series]:
    """Of each round the mean over seeds, with what lies around it, or of many rounds what moves slowly.

    seeds: columns `round`, `seed` and `value`.
    """
    rounds = sorted({*seeds["round"]})
    if len(rounds) < MANY:
        return around(label, seeds, "round", "value", ddof, "line")[1]
    by_round = seeds.set_index("round")["value"].sort_index()
    near = [by_round.loc[at - WINDOW // 2 : at + WINDOW // 2] for at in rounds]
    low, high = ([float(values.quantile(end)) for values in near] for end in ENDS)
    middle = [float(values.median()) for values in near]
    return [Series(label, "median", [*map(float, rounds)], middle, "line", Spread(low, high, "band"))]


def _at_the_end(row: list[tuple[str, str, pd.DataFrame]], labels: Sequence[str], ddof: int) -> Panel:
    """Dots of the clients that there are, side by side, for each held-out domain."""
    series: list[Series] = []
    for place, (_, _, part) in enumerate(row):
        last = part[part["round"] == part.groupby("seed")["round"].transform("max")]
        present = [label for label in labels if (last[DOMAINS] == label).any()]
        for index, label in enumerate(present):
            own = last[last[DOMAINS] == label].groupby("seed")["value"].mean().reset_index()
            own[PLACE] = float(place)
            shift = aside(index, len(present))
            series += around(label, own, PLACE, "value", ddof, "dot", shift)[1]
    ticks = {float(place): target or "all" for place, (_, target, _) in enumerate(row)}
    x = Axis("held-out domain", ticks=ticks, limits=(-0.5, len(ticks) - 0.5), whole=True)
    return Panel(series, x, _axis(), rules=_alike([part for *_, part in row]))


def _axis() -> Axis:
    return Axis("weight in the\nserver's step (%)")


def _alike(parts: Sequence[pd.DataFrame]) -> list[tuple[Literal["x", "y"], float]]:
    """The weight of each participant of a round where all have the same; none where rounds differ in how many
    there are.
    """
    counts = {count for part in parts for count in part.groupby(["round", "seed"])["client"].nunique()}
    return [("y", PERCENT / count) for count in counts if len(counts) == 1]
