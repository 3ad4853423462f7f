"""Ranking: methods compared over blocks (data sets, held-out domains, other axes), not cell by cell.

Mean ranks with the Friedman test and Nemenyi's critical difference (Demšar, "Statistical Comparisons of
Classifiers over Multiple Data Sets", JMLR 7, 2006); the interquartile mean with a stratified bootstrap
interval and the probability of improvement (Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice", NeurIPS 2021). The held-out domains of one data set share their training domains, so
they are no independent blocks: read p as a lower bound where a data set has several.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.layout.page import csv, piped
from fedshift.analysis.quantities.aggregation import lower_is_better
from fedshift.analysis.quantities.select import selected
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text

DRAWS = 2_000  # of the bootstrap
COLUMNS = ["method", "rank", "iqm", "low", "high", "improvement"]


@dataclass(frozen=True)
class Ranking:
    """Methods over blocks.

    table: COLUMNS by mean rank, 1 the best: rank over blocks; iqm: interquartile mean over blocks and seeds,
        in the metric's unit, low and high its 95% interval, NaN where no block has two seeds; improvement:
        probability that a seed of the first method is better than one of this method in the same block, NaN
        for the first
    blocks: how many were compared
    left: methods and blocks left out, in words
    statistic, p: of the Friedman test; NaN with fewer than three methods
    critical: mean ranks that differ by less are not told apart at `alpha` (Nemenyi)
    """

    table: pd.DataFrame
    blocks: int
    left: list[str]
    statistic: float
    p: float
    critical: float
    alpha: float

    @property
    def alike(self) -> list[str]:
        """The methods that are not told apart from the first, itself among them."""
        behind = self.table["rank"] - self.table["rank"].iloc[0]
        return self.table.loc[behind < self.critical, "method"].tolist()


def ranking(collections: Sequence[Collected], metric: str, alpha: float = 0.05) -> Ranking:
    """Rank the methods of one experiment or several by `metric` (experiments.quantity) in the round that each
    protocol reports.

    A method counts where it has all seeds in a block. Methods without any block are left out, then those with
    the fewest until two blocks are shared, then blocks that not all methods have. Raises FedshiftError with
    fewer than two methods or two blocks.
    """
    scores, left = _scores(collections, metric)
    if scores.shape[0] < 2 or scores.shape[1] < 2:
        what = f"{scores.shape[0]} methods share {scores.shape[1]} blocks, and two of each are the least"
        cure = "Train more (fedshift status EXPERIMENT says what is missing), or more held-out domains; "
        cure += "an experiment of a single one leaves `ranks` out of its `figures`."
        raise FedshiftError("ranking", what, cure)
    names, values = [*scores.index], np.array(scores.values.tolist(), dtype=object)
    means = np.array([[np.mean(seeds) for seeds in row] for row in values])
    return _ranked(names, means, values, left, alpha, lower_is_better(metric))


def _scores(collections: Sequence[Collected], metric: str) -> tuple[pd.DataFrame, list[str]]:
    """Methods by blocks, each entry the values of its seeds; and what was left out."""
    parts = []
    for collected in collections:
        axes = [axis for axis in collected.keys[1:] if axis != "seed"]
        planned = collected.runs.groupby(["method", *axes], dropna=False).size()
        frame = selected(collected, quantities=[metric]).dropna(subset=metric)
        seeds = frame.groupby(["method", *axes], dropna=False)[metric].apply(list)
        whole = seeds[seeds.map(len) == planned.reindex(seeds.index)].reset_index()
        places = whole[["method", *axes]].itertuples(index=False, name=None)
        blocks = [f"{collected.experiment.name}: {', '.join(map(str, at))}" for _, *at in places]
        parts.append(whole.assign(block=blocks))
    together = pd.concat(parts)
    scores = together.pivot(index="method", columns="block", values=metric)
    rows = dict.fromkeys(name for collected in collections for name in collected.experiment.rows)
    left = [f"{name}: no block has all its seeds" for name in rows if name not in scores.index]
    scores = scores.reindex([name for name in rows if name in scores.index])
    shared = scores.dropna(axis=1)
    while len(scores) > 2 and shared.shape[1] < 2:  # an unfinished experiment
        fewest = scores[::-1].notna().sum(axis=1).idxmin()
        left.append(f"{fewest}: shares fewer than two blocks with the others")
        scores = scores.drop(index=fewest)
        shared = scores.dropna(axis=1)
    left += [
        f"{block}: not all methods have all seeds" for block in scores.columns.difference(shared.columns)
    ]
    return shared, left


def _ranked(
    names: list[str],
    means: NDArray[np.float64],
    values: NDArray[np.object_],
    left: list[str],
    alpha: float,
    lower: bool,
) -> Ranking:
    """Of means [M, blocks] and the seeds behind them."""
    methods, blocks = means.shape
    ranks = stats.rankdata(means if lower else -means, axis=0).mean(1)
    order = np.argsort(ranks, kind="stable")
    statistic, p = stats.friedmanchisquare(*means) if methods > 2 else (np.nan, np.nan)
    first = values[order[0]]
    rows = []
    for place, m in enumerate(order):
        low, high = _interval(values[m])
        better = np.nan if place == 0 else _improvement(first, values[m], lower)
        rows.append([names[m], ranks[m], _iqm(np.concatenate(list(values[m]))), low, high, better])
    return Ranking(
        pd.DataFrame(rows, columns=COLUMNS), blocks, left, float(statistic), float(p),
        critical(methods, blocks, alpha), alpha,
    )  # fmt: skip


def critical(methods: int, blocks: int, alpha: float) -> float:
    """Nemenyi's critical difference of mean ranks (Demšar, Sec. 3.2.2)."""
    quantile = stats.studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def _iqm(values: NDArray[np.float64]) -> float:
    return float(stats.trim_mean(values, 0.25))


def _interval(blocks: Sequence[Sequence[float]]) -> tuple[float, float]:
    """95% of the interquartile means when seeds are drawn anew within each block, with replacement; NaN where
    no block has two.
    """
    if max(map(len, blocks)) < 2:
        return np.nan, np.nan
    rng = np.random.default_rng(0)
    drawn = [rng.choice(np.asarray(seeds), (DRAWS, len(seeds))) for seeds in blocks]
    low, high = np.quantile(stats.trim_mean(np.concatenate(drawn, 1), 0.25, axis=1), [0.025, 0.975])
    return float(low), float(high)


def _improvement(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], lower: bool) -> float:
    """The mean over blocks of P(ours better) + P(equal) / 2, over all pairs of seeds."""
    sign = -1 if lower else 1
    pairs = [np.sign(np.subtract.outer(a, b)) * sign for a, b in zip(ours, theirs, strict=True)]
    return float(np.mean([(pair + 1).mean() / 2 for pair in pairs]))


def write(folder: Path, result: Ranking, metric: str) -> Path:
    """Write ranks.csv and ranks.md; return their stem."""
    write_text(folder / "ranks.csv", csv(result.table))
    write_text(folder / "ranks.md", markdown(result, metric))
    return folder / "ranks"


def _between(low: float, high: float) -> str:
    return "" if np.isnan(low) else f" [{low:.1f}, {high:.1f}]"


def markdown(result: Ranking, metric: str) -> str:
    """The table and what it says."""
    head = ["method", "mean rank", "interquartile mean [95%]", "the first is better with probability"]
    rows = [
        [
            str(row["method"]),
            f"{row['rank']:.2f}",
            f"{row['iqm']:.1f}{_between(row['low'], row['high'])}",
            "" if row["improvement"] != row["improvement"] else f"{row['improvement']:.2f}",
        ]
        for row in result.table.to_dict("records")
    ]
    lines = [
        f"Ranked by {metric} over {result.blocks} blocks.",
        *([] if math.isnan(result.p) else [f"Friedman: chi2 = {result.statistic:.2f}, p = {result.p:.3g}."]),
        f"Nemenyi: mean ranks that differ by less than {result.critical:.2f} are not told apart "
        f"(alpha = {result.alpha:g}); with the first: {', '.join(result.alike[1:]) or 'none'}.",
        *(f"Left out: {text}." for text in result.left),
    ]
    table = piped([head, *rows], ["---", "--:", "--:", "--:"])
    return "\n\n".join([table, "\n".join(f"- {line}" for line in lines)]) + "\n"
