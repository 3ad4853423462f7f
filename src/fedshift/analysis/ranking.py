"""Ranking: the methods that are distinguishable from a reference method, over data sets and held-out domains.

The blocks (data sets, held-out domains, other axes) are fixed: a method's value is its mean over them, for
each seed. Methods and seeds explain these values; the rest is the spread (fedshift.analysis.verdicts). The
intervals of all differences from the reference hold jointly at 95% (Dunnett, "A Multiple Comparison Procedure
for Comparing Several Treatments with a Control", JASA 50, 1955).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.page import csv, piped
from fedshift.analysis.quantities import lower_is_better, selected
from fedshift.analysis.verdicts import residual, simultaneous
from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import write_text

USUAL = "fedavg"  # the method that others are compared with, if it is one of them


@dataclass(frozen=True)
class Ranking:
    """Methods by their mean, the best first.

    `table`: one row per method, with the columns below.
    `against`: the method that others are compared with.
    `seeds`, `blocks`: their numbers.
    `left`: methods and blocks left out, in words.
    `lower`: whether lower values are better.

    Columns of `table`:

    `mean`: over blocks and seeds, in the metric's unit.
    `difference`: from `against`.
    `low`, `high`: ends of its interval; NaN with fewer than two seeds, and for `against` itself.
    `worst`, `where`: the worst of several blocks, and its name.
    """

    table: pd.DataFrame
    against: str
    seeds: int
    blocks: int
    left: list[str]
    lower: bool

    @property
    def better(self) -> list[str]:
        """The methods that are better than `against`."""
        better = self.table["high"] < 0 if self.lower else self.table["low"] > 0
        return self.table.loc[better, "method"].tolist()

    @property
    def worse(self) -> list[str]:
        """The methods that are worse than `against`."""
        worse = self.table["low"] > 0 if self.lower else self.table["high"] < 0
        return self.table.loc[worse, "method"].tolist()

    @property
    def sentence(self) -> str:
        """Which methods are distinguishable from `against`, and what would decide the others."""
        if self.seeds < 2:
            return "With one seed no methods are distinguishable. Train a second."
        names = {"better": self.better, "worse": self.worse}
        parts = [f"{word} than {self.against}: {', '.join(of)}" for word, of in names.items() if of]
        decided = sum(map(len, names.values())) == len(self.table) - 1
        if not decided and self.table["high"].isna().all():
            return f"All seeds are equal: without a spread, no method is distinguishable from {self.against}."
        if not decided:
            half = ((self.table["high"] - self.table["low"]) / 2).max()
            rest = f"{'the others are not' if parts else 'no method is'} distinguishable from {self.against}"
            parts.append(f"{rest} with {self.seeds} seeds (intervals of ±{half:.1f})")
        text = "; ".join(parts)
        more = "" if decided else " More seeds decide: four times as many halve the intervals."
        return f"{text[0].upper()}{text[1:]}.{more}"


def ranking(collections: Sequence[Collected], metric: str, against: str = "") -> Ranking:
    """Rank the methods of one or several experiments by `metric` (experiments.quantity).

    The round is the one that each protocol reports. A method needs all its seeds in a block. Methods without
    any block are left out, then those with the fewest until one block is shared, then blocks that some
    methods do not have.

    Raises FedshiftError with fewer than two methods, or if `against` is not one of them.
    """
    scores, left = _scores(collections, metric)
    if len(scores) < 2 or scores.empty:
        what = f"{len(scores)} methods have all seeds of one data set and held-out domain; two are the least"
        cure = "Train more: fedshift status EXPERIMENT shows what is missing."
        raise FedshiftError("ranking", what, cure)
    names = [*scores.index]
    if against and against not in names:
        raise unknown("--against", "method with results", against, names)
    base = against or (USUAL if USUAL in names else names[0])
    seeds = scores.T.groupby(level="seed").mean().T
    spread, lower = residual(seeds), lower_is_better(metric)
    table = pd.DataFrame({"mean": seeds.mean(axis=1)})
    table["difference"] = table["mean"] - float(table["mean"][base])
    half = math.nan
    if spread.known:
        error = spread.deviation * math.sqrt(2 / seeds.shape[1])
        half = simultaneous(len(names) - 1, spread.freedom) * error
    table["low"], table["high"] = table["difference"] - half, table["difference"] + half
    table.loc[base, ["low", "high"]] = math.nan
    by_block = scores.T.groupby(level="block").mean().T
    if by_block.shape[1] > 1:
        table["worst"] = by_block.max(axis=1) if lower else by_block.min(axis=1)
        table["where"] = by_block.idxmax(axis=1) if lower else by_block.idxmin(axis=1)
    table = table.sort_values("mean", ascending=lower, kind="stable")
    return Ranking(table.reset_index(), base, seeds.shape[1], by_block.shape[1], left, lower)


def _scores(collections: Sequence[Collected], metric: str) -> tuple[pd.DataFrame, list[str]]:
    """Values of methods by (block, seed), and what was left out."""
    parts = []
    for collected in collections:
        axes = [axis for axis in collected.keys[1:] if axis != "seed"]
        values = selected(collected, quantities=[metric])[[*collected.keys, metric]]
        frame = collected.of_each_run(values)
        frame = frame if "seed" in frame else frame.assign(seed=0)
        whole = frame.groupby(["method", *axes], dropna=False)[metric].transform(lambda of: of.notna().all())
        places = frame[axes].itertuples(index=False, name=None)
        blocks = [f"{collected.experiment.name}: {', '.join(map(str, at))}" for at in places]
        parts.append(frame.assign(block=blocks)[whole])
    together = pd.concat(parts)
    cells = together.groupby(["method", "block"])["seed"].size().unstack("block")
    rows = dict.fromkeys(name for collected in collections for name in collected.experiment.rows)
    left = [f"{name}: no block has all its seeds" for name in rows if name not in cells.index]
    cells = cells.reindex([name for name in rows if name in cells.index])
    shared = cells.dropna(axis=1)
    while len(cells) > 2 and shared.shape[1] < 1:  # an unfinished experiment
        fewest = cells[::-1].notna().sum(axis=1).idxmin()
        left.append(f"{fewest}: shares no block with the others")
        cells = cells.drop(index=fewest)
        shared = cells.dropna(axis=1)
    left += [f"{block}: not all methods have all seeds" for block in cells.columns.difference(shared.columns)]
    wide = together.pivot(index="method", columns=["block", "seed"], values=metric)
    wide = wide.loc[cells.index, wide.columns.get_level_values("block").isin(shared.columns)].dropna(axis=1)
    counts = wide.columns.get_level_values("seed").value_counts()
    common = counts[counts == shared.shape[1]].index  # seeds that all blocks have
    return wide.loc[:, wide.columns.get_level_values("seed").isin(common)], left


def write(folder: Path, result: Ranking, metric: str) -> Path:
    """Write ranks.csv and ranks.md; return their stem."""
    write_text(folder / "ranks.csv", csv(result.table))
    write_text(folder / "ranks.md", markdown(result, metric))
    return folder / "ranks"


def markdown(result: Ranking, metric: str) -> str:
    """The sentence, the table and the notes on it."""
    several = "worst" in result.table
    head = ["method", metric, f"difference from {result.against} [95%, all at once]", "worst held-out domain"]
    rows = []
    for row in result.table.to_dict("records"):
        interval = "" if math.isnan(row["low"]) else f" [{row['low']:+z.1f}, {row['high']:+z.1f}]"
        gap = "" if row["method"] == result.against else f"{row['difference']:+z.1f}{interval}"
        worst = f"{row['worst']:.1f} ({row['where'].partition(': ')[2]})" if several else ""
        rows.append([str(row["method"]), f"{row['mean']:.1f}", gap, worst])
    seeds = f"{result.seeds} seed{'s' * (result.seeds != 1)}"
    lines = [
        f"Mean over {result.blocks} pairs of data set and held-out domain, and {seeds}.",
        *(f"Left out: {text}." for text in result.left),
    ]
    width = 4 if several else 3
    table = piped([line[:width] for line in (head, *rows)], ["---", "--:", "--:", "--:"][:width])
    return "\n\n".join([result.sentence, table, "\n".join(f"- {line}" for line in lines)]) + "\n"
