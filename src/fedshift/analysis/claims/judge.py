"""Every comparison that an experiment tests, by paired differences between its runs.

A paper's value is an average over its domains, which are fixed, and over seeds, which are sampled. So the
differences of a seed are averaged first, and the 95% interval is over seeds. A seed with a missing run is
left out, as an average over fewer domains is another quantity. One seed has no interval.

For two rows of one experiment, the spread is pooled over all rows that have these runs
(fedshift.analysis.verdicts.residual). Otherwise it is the spread of the differences themselves. That is the
case for sums, for rows of two experiments, and for metrics other than accuracies.

A comparison is "as published" if the interval is on the side of 0 on which the paper has it, "against" if it
is on the other side, otherwise "open". If the paper gives no numbers, its statement is taken as it is.

For "~" (equal) and ">=" (not worse), the bound is the margin instead of 0. The margin is the one of the paper
and data set in reference/published.yaml, a tenth of the published value for costs, or the one that the
experiment declares.

A comparison with "the best of several" must hold for each of them. Where one is enough, the interval of each
is at level 5% divided by their number (Bonferroni).

Rounds up to a value: a finished run that never reaches it counts as if it did one round after the longest run
of its experiment. That is worse than any run that reaches it; two such runs are equal.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

import pandas as pd

from fedshift.analysis.cells import of_runs
from fedshift.analysis.claims.comparison import (
    Comparison,
    Printed,
    bounds,
    comparisons,
    on_print,
    side_names,
    statement,
)
from fedshift.analysis.clients import recorded_by_round
from fedshift.analysis.collected import Collected, is_there, read
from fedshift.analysis.quantities import curves
from fedshift.analysis.verdicts import (
    ALIKE,
    LEVEL,
    UNKNOWN,
    Interval,
    Outcome,
    Spread,
    around,
    residual,
    standard_error,
)  # fmt: skip
from fedshift.common.errors import unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column, recorded, recorded_of
from fedshift.experiments.paper_claims import Sum
from fedshift.experiments.schema import SELECTED, Compared, Table
from fedshift.storage.workspace import Workspace

VALUE, LATE = "value", "late"
Terms = list[tuple[float, pd.DataFrame]]


@dataclass(frozen=True)
class Difference:
    """The left side minus one right side: mean over seeds, with the parts of its interval.

    Accuracies are in points.

    `seeds`: how many of the `planned` seeds have all their pairs.
    `pairs`: the mean over these seeds, by the values of the other axes that vary ("photo").
    `by_seed`: for each of `seeds`, the mean over its pairs.
    `error`, `freedom`: standard error (0 for counted values; NaN: unknown) and degrees of freedom.
    `late`: runs that never reach the value that the metric names.
    `lacking`: if no seed is complete, the sides that have no complete seed by themselves.
    """

    right: str
    mean: float
    seeds: int
    planned: int
    pairs: dict[str, float]
    by_seed: tuple[float, ...]
    error: float = math.nan
    freedom: float = 0.0
    late: int = 0
    lacking: tuple[str, ...] = ()

    def interval(self, level: float = LEVEL) -> Interval:
        """The interval at a level; its ends are NaN where no spread is known."""
        return around(self.mean, self.error, self.freedom, level)

    @property
    def low(self) -> float:
        """The lower end of the 95% interval."""
        return self.interval().low

    @property
    def high(self) -> float:
        """The upper end of the 95% interval."""
        return self.interval().high


@dataclass(frozen=True)
class Verdict:
    """A row of reference/claims.csv with our differences and the verdict.

    `differs`: why the paper's experiment is not the same as ours.
    `on_print`: the claim on the paper's own numbers.
    """

    claim: str
    statement: str
    text: str
    differs: tuple[str, ...]
    differences: list[Difference]
    verdict: Outcome
    on_print: Printed

    @property
    def printed(self) -> float:
        """The published difference; NaN where there is none, or it is from another experiment."""
        return math.nan if self.differs else self.on_print.difference

    @property
    def orientation(self) -> float:
        """The published difference where the paper's experiment is another one."""
        return self.on_print.difference if self.differs else math.nan


def verdicts(workspace: Workspace, collected: Collected) -> list[Verdict]:
    """A verdict for each claim that the experiment tests (fedshift.analysis.claims.comparison).

    The values of another experiment are read if it was collected; otherwise the claim has no seed.

    Raises FedshiftError for a declared claim that is not in the list, or whose methods the experiment does
    not train.
    """
    home, values = collected.experiment.name, Values(workspace, collected)
    tested = comparisons(workspace, collected.experiment)
    cells = (cell for comparison in tested for cell in comparison.cells)
    wanted = [cell.metric for cell in cells if cell.experiment == home]
    curves(collected, recorded(wanted))  # all are read from the records at once
    return [_verdict(workspace, home, values, comparison) for comparison in tested]


def _verdict(workspace: Workspace, home: str, values: Values, comparison: Comparison) -> Verdict:
    """Judge one claim on the selected rounds of its runs. `home`: the experiment that tests it."""
    names, words = side_names(comparison, home)
    row, stated = comparison.claim, statement(comparison, names, words)
    where = f"experiments/{home}.yaml: claims.{row['id']}"
    several = len({left for left, _ in names}) > 1
    differences = []
    for pair, of in zip(comparison.pairs, names, strict=True):
        left, right = ([(factor, values.of(cell, where)) for factor, cell in side.terms] for side in pair)
        minus = [(-factor, frame) for factor, frame in right]
        pairs = paired([*left, *minus], pair[0].constant - pair[1].constant)
        name = " and ".join(of) if several else of[1]
        gap = estimate(pairs, name, _shared_spread(values, pair, pairs), comparison.exact)
        late = sum(int(frame[LATE].sum()) for _, frame in (*left, *right))
        lacking = [
            side
            for side, terms in zip(of, (left, right), strict=True)
            if not gap.seeds and terms and not _has_whole_seed(terms)
        ]
        differences.append(replace(gap, late=late, lacking=tuple(lacking)))
    said, differs = on_print(workspace, row, comparison), tuple(dict.fromkeys(comparison.differs()))
    word = outcome(comparison, differences, said)
    return Verdict(row["id"], stated, row["text"], differs, differences, word, said)


def _has_whole_seed(terms: Terms) -> bool:
    if any(frame[VALUE].isna().all() for _, frame in terms):  # most often: nothing was trained
        return False
    return bool(estimate(paired(terms), "").seeds)


def outcome(comparison: Comparison, differences: Sequence[Difference], said: Printed) -> Outcome:
    """The outcome of a comparison, by the differences of its pairs."""
    if not any(gap.seeds for gap in differences):
        return "not run"

    strict = comparison.relation in (">", "<")

    def every(sign: int, bound: float) -> bool:
        return all(_beyond(gap.interval(), sign, bound, strict) for gap in differences)

    def some(sign: int, bound: float) -> bool:
        level = LEVEL / len(differences)
        return any(_beyond(gap.interval(level), sign, bound, strict) for gap in differences)

    limits = bounds(comparison.relation, comparison.margin)
    (sign, low), (_, high) = limits[0], limits[-1]
    one, other = (some, every) if comparison.one_is_enough else (every, some)
    if comparison.relation == "~":
        holds, fails = every(1, low) and one(-1, high), some(-1, low) or other(1, high)
    else:
        holds, fails = one(sign, low), other(-sign, low)
    if said.word != "not printed" and not said.holds:
        holds, fails = fails, holds
    return "as published" if holds else "against" if fails else "open"


def _beyond(interval: Interval, sign: int, bound: float, strict: bool) -> bool:
    """Whether an interval is above a bound (sign 1), or below it (sign -1)."""
    low, high = interval.low - bound, interval.high - bound
    if interval.low == interval.high:  # a counted or declared value, which may be equal to the bound
        return sign * low > ALIKE if strict else sign * low >= -ALIKE
    return low > 0 if sign > 0 else high < 0


def paired(terms: Terms, constant: float = 0.0) -> pd.DataFrame:
    """Sums over terms of factor times `value`, plus a constant, as the column `difference`.

    One row for each seed and values of the other axes at which all terms are planned. An axis that some terms
    do not have, or on which they share no value, is not an axis of the pairs: each term is averaged over it.

    `terms`: the factor of each, and the result of `Values.of`.
    """
    frames = [frame for _, frame in terms]
    axes = [
        axis for axis in frames[0] if axis not in (VALUE, LATE) and all(axis in frame for frame in frames)
    ]
    common = {axis: set.intersection(*(set(frame[axis]) for frame in frames)) for axis in axes}
    shared = [axis for axis in axes if axis == "seed" or common[axis]]
    columns = [factor * frame.groupby(shared)[VALUE].mean(skipna=False) for factor, frame in terms]
    both = pd.concat(dict(enumerate(columns)), axis=1, join="inner")
    return (both.sum(axis=1, skipna=False) + constant).rename("difference").reset_index()


def estimate(pairs: pd.DataFrame, right: str, shared: Spread = UNKNOWN, exact: bool = False) -> Difference:
    """The mean difference of `pairs`.

    `pairs`: columns `seed`, the other axes, and `difference` (NaN where a run of either side is missing).
    `shared`: the spread of one seed of one row, where it is pooled.
    `exact`: whether the values are counted or declared, so that equal seeds are not a coincidence.
    """
    by_seed = pairs.groupby("seed")["difference"].mean(skipna=False)
    whole = by_seed.dropna()
    n, kept = len(whole), pairs[pairs["seed"].isin(whole.index)]
    axes = [axis for axis in pairs if axis not in ("seed", "difference")]
    axes = [axis for axis in axes if kept[axis].nunique(dropna=False) > 1] or axes
    by_place: dict[str, list[float]] = defaultdict(list)
    for pair in kept.to_dict("records"):
        by_place[", ".join(str(pair[axis]) for axis in axes)].append(pair["difference"])
    means = {place: fmean(of) for place, of in by_place.items()}
    error = standard_error(whole, shared)
    if exact and n and not error.known:
        error = Spread(0.0, 1)
    mean, values = float(whole.mean()), (*map(float, whole),)
    return Difference(right, mean, n, len(by_seed), means, values, *error)


def _shared_spread(values: Values, pair: tuple[Sum[Compared], Sum[Compared]], pairs: pd.DataFrame) -> Spread:
    """The spread pooled over all rows, if both sides of a pair are the same accuracy; otherwise UNKNOWN."""
    if any(side.constant or len(side.terms) != 1 for side in pair):
        return UNKNOWN
    left, right = (side.terms[0][1] for side in pair)
    same = left.model_copy(update={"row": right.row}) == right and not (left.range or left.peak)
    if not same or column(left.metric).kind != "quantity":
        return UNKNOWN
    whole = pairs.dropna().groupby("seed").size()
    seeds = whole[whole == pairs.groupby("seed").size().max()].index
    if len(seeds) < 2:
        return UNKNOWN
    at = pairs.loc[pairs["seed"].isin(seeds)].drop(columns="difference")
    at = at.merge(values.of(left, "", every_row=True), on=[*at.columns])
    full = at.dropna(subset=VALUE).groupby(["method", "seed"])[VALUE].agg(["mean", "size"])
    means = full["mean"].where(full["size"] == full["size"].max())
    return residual(means.unstack("seed"))


class Values:
    """The values of this and other collected experiments that comparisons use; each is read once."""

    def __init__(self, workspace: Workspace, collected: Collected) -> None:
        self.workspace = workspace
        self.collected: dict[str, Collected | None] = {collected.experiment.name: collected}
        self.frames: dict[tuple[str, str, str], pd.DataFrame] = {}  # by experiment, metric and rounds

    def of(self, cell: Compared, where: str, every_row: bool = False) -> pd.DataFrame:
        """VALUE and LATE of a cell's runs, with their axes; no rows if its experiment was not collected.

        LATE marks a run that never reaches the value of the metric. It counts as if it did one round after
        the longest run. Without an axis of seeds, `seed` is 0.

        `every_row`: all rows of the experiment, with the column `method`.

        Raises FedshiftError at `where` for an axis that the experiment does not have.
        """
        name = cell.experiment
        if name not in self.collected:
            self.collected[name] = read(self.workspace, name) if is_there(self.workspace, name) else None
        if (collected := self.collected[name]) is None:
            return pd.DataFrame({"seed": [], VALUE: [], LATE: []})
        axes, key = collected.keys[1:], (name, cell.metric, cell.rounds)
        if key not in self.frames:
            of = _selected if cell.rounds == SELECTED else _over_rounds
            self.frames[key] = of(self.workspace, collected, cell.metric, cell.rounds)
        frame = self.frames[key]
        if cell.range or cell.peak:
            frame = _over_rows(frame, axes, cell)
        elif not every_row:
            frame = frame[frame["method"] == cell.row]
            own = column(cell.metric)
            _, number, domain = recorded_of(own.name) if own.kind == "recorded" else ("", "", "")
            if number == "of" and "target" in frame:  # of one client: its domain must not be held out
                frame = frame[frame["target"] != domain]
        for axis, value in cell.where.items():
            if axis not in axes:
                raise unknown(f"{where}.where", "axis", axis, axes)
            frame = frame[frame[axis] == value]
        runs = frame[["method", *axes] if every_row else axes].fillna(NONE)
        runs = runs.assign(**{VALUE: frame[VALUE], LATE: frame.get(LATE, False)})
        return runs if "seed" in axes else runs.assign(seed=0)


def _over_rows(frame: pd.DataFrame, axes: list[str], cell: Compared) -> pd.DataFrame:
    """The range of the cell's rows, or the position of the largest; NaN at places where a row is missing."""

    def extent(values: pd.Series[float]) -> float:
        return float(values.max(skipna=False) - values.min(skipna=False))

    def peak(values: pd.Series[float]) -> float:
        return math.nan if values.isna().any() else 100 * float(values.argmax()) / max(len(values) - 1, 1)

    order = [cell.row, *cell.range, *cell.peak]
    rows = frame[frame["method"].isin(order)]
    rows = rows.sort_values("method", key=lambda method: method.map(order.index), kind="stable")
    groups = rows.groupby(axes, dropna=False)[VALUE]
    said = groups.agg(peak if cell.peak else extent)
    return said.where(groups.size() == len(order)).reset_index()


def _selected(workspace: Workspace, collected: Collected, metric: str, _: str) -> pd.DataFrame:
    """Every planned run as in tables, with LATE for runs that never reach a value."""
    # A relative metric is relative to the same row as in the table that has it.
    against = {name: of.against for of in collected.experiment.tables.values() for name in of.metrics}
    table = Table(metrics=[metric], against=against.get(metric, ""))
    values = partial(of_runs, workspace, collected, collected.protocol.select, table)
    value = values(late=True)[metric]
    late = value.notna() & values()[metric].isna() if column(metric).kind == "rounds_to" else False
    return collected.runs[collected.keys].assign(**{VALUE: value, LATE: late})


def _over_rounds(workspace: Workspace, collected: Collected, metric: str, rounds: str) -> pd.DataFrame:
    """Every planned run, with its value over rounds. `rounds`: as in fedshift.experiments.schema.Claim."""

    def fluctuation(curve: pd.Series[float]) -> float:
        """The standard deviation (divided by n) of the steps of a curve; NaN for fewer than two steps."""
        return float(curve.diff().std(ddof=0)) if len(curve) > 2 else math.nan

    own = column(metric)
    if own.kind == "recorded":
        frame = recorded_by_round(workspace, collected, own.name)
    else:
        frame = curves(collected, [metric]).rename(columns={metric: VALUE})
    if at := re.fullmatch(r"round (\d+)", rounds):
        chosen = frame[frame["round"] == int(at[1])]
    else:
        curve = frame.sort_values("round").groupby(collected.keys, dropna=False)[VALUE]
        chosen = (curve.mean() if rounds == "mean" else curve.agg(fluctuation)).reset_index()
    return collected.of_each_run(chosen[[*collected.keys, VALUE]])
