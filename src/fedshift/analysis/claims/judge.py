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

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import pandas as pd

from fedshift.analysis.cells import of_runs
from fedshift.analysis.claims.comparison import Comparison, Printed, bounds, comparisons, named, on_print
from fedshift.analysis.clients import recorded_by_round
from fedshift.analysis.collected import Collected, is_there, read
from fedshift.analysis.quantities import curves
from fedshift.analysis.verdicts import (
    ALIKE,
    LEVEL,
    UNKNOWN,
    Outcome,
    Spread,
    around,
    residual,
    standard_error,
)
from fedshift.common.errors import unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.column import column, recorded, recorded_of
from fedshift.experiments.paper_claims import Sum
from fedshift.experiments.schema import SELECTED, Compared, Table
from fedshift.storage.workspace import Workspace

VALUE, LATE, DIFFERENCE = "value", "late", "difference"
UNSHARED = "\x1f"  # the value on an axis over which each term of a sum is averaged; no axis has it
COLUMNS = [
    "claim", "said", "printed", "orientation", "on_print", "right", DIFFERENCE, "low", "high", "seeds",
    "planned", "pairs", "verdict", "differs", "text", "by_seed", "error", "freedom", LATE, "lacking",
]  # fmt: skip


def verdicts(workspace: Workspace, collected: Collected) -> pd.DataFrame:
    """A row for each claim that the experiment tests and pair of its sides, in the order of `comparisons`.

    Columns of the claim:

    `claim`, `text`: its id and the paper's sentence.
    `said`: the claim in one line.
    `printed`: the published difference; NaN where there is none, or it is from another experiment.
    `orientation`: the published difference where the paper's experiment is another one.
    `on_print`: the word of fedshift.analysis.claims.comparison.Printed.
    `verdict`: one of fedshift.analysis.verdicts.OUTCOMES.
    `differs`: why the paper's experiment is not the same as ours.

    Columns of the pair, with accuracies in points:

    `right`: the right side's name, or both names if the claim has several left sides.
    `difference`, `low`, `high`: left minus right, the mean over seeds with its 95% interval.
    `seeds`: how many of the `planned` seeds have all their runs.
    `pairs`: the mean over these seeds, by the values of the other axes that vary ("photo").
    `by_seed`: for each of `seeds`, the mean over its pairs.
    `error`, `freedom`: standard error (0 for counted values; NaN: unknown) and degrees of freedom.
    `late`: runs that never reach the value that the metric names.
    `lacking`: if no seed is complete, the sides that have no complete seed by themselves.

    The values of another experiment are read if it was collected; otherwise the claim has no seed.

    Raises FedshiftError for a declared claim that is not in the list, or whose methods the experiment does
    not train.
    """
    home, rows = collected.experiment, list[dict[str, Any]]()
    tested = comparisons(workspace, home)
    gaps = iter(_gaps(workspace, collected, tested))
    for one in tested:
        names, stated = named(one, home.name)
        own = [*itertools.islice(gaps, len(names))]
        said, differs = on_print(workspace, one.claim, one), tuple(dict.fromkeys(one.differs()))
        claim = {
            "claim": one.claim["id"],
            "said": stated,
            "printed": math.nan if differs else said.difference,
            "orientation": said.difference if differs else math.nan,
            "on_print": said.word,
            "verdict": outcome(one, own, said),
            "differs": differs,
            "text": one.claim["text"],
        }
        several = len({left for left, _ in names}) > 1
        for of, gap in zip(names, own, strict=True):
            lacking = tuple(itertools.compress(of, gap["lacking"]))
            right = " and ".join(of) if several else of[1]
            rows.append({**claim, **gap, "right": right, "lacking": lacking})
    return pd.DataFrame(rows, columns=COLUMNS)


def outcome(comparison: Comparison, gaps: Sequence[Mapping[str, Any]], said: Printed) -> Outcome:
    """The outcome of a comparison, by the differences of its pairs (`estimate`)."""
    if not any(gap["seeds"] for gap in gaps):
        return "not run"

    strict, enough = comparison.relation in (">", "<"), comparison.one_is_enough

    def beyond(sign: int, bound: float, some: bool) -> bool:
        """Whether every interval is above a bound (sign 1), or below it (sign -1); or some at its level."""
        found = []
        for gap in gaps:
            level = LEVEL / len(gaps) if some else LEVEL
            _, low, high = around(gap[DIFFERENCE], gap["error"], gap["freedom"], level)
            if low == high:  # a counted or declared value, which may be equal to the bound
                found.append(sign * (low - bound) > ALIKE if strict else sign * (low - bound) >= -ALIKE)
            else:
                found.append(low - bound > 0 if sign > 0 else high - bound < 0)
        return any(found) if some else all(found)

    limits = bounds(comparison.relation, comparison.margin)
    (sign, low), (_, high) = limits[0], limits[-1]
    if comparison.relation == "~":
        holds = beyond(1, low, some=False) and beyond(-1, high, some=enough)
        fails = beyond(-1, low, some=True) or beyond(1, high, some=not enough)
    else:
        holds, fails = beyond(sign, low, some=enough), beyond(-sign, low, some=not enough)
    if said.word != "not printed" and not said.holds:
        holds, fails = fails, holds
    return "as published" if holds else "against" if fails else "open"


def _gaps(workspace: Workspace, collected: Collected, tested: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The columns of `verdicts` of each pair of sides; `lacking` is whether a side has no complete seed."""
    pairs = [(one, pair) for one in tested for pair in one.pairs]
    terms = pd.DataFrame(
        [
            (number, side, (1, -1)[side] * factor, _runs_of(cell), cell.row, left.constant - right.constant)
            for number, (_, (left, right)) in enumerate(pairs)
            for side, of in enumerate((left, right))
            for factor, cell in of.terms
        ],
        columns=["pair", "side", "factor", "cell", "method", "constant"],
    )
    runs = _runs(workspace, collected, tested)
    late = terms.merge(runs, on=["cell", "method"]).groupby("pair")[LATE].sum()
    sides = summed(terms, runs, ["pair", "side"]).groupby(["pair", "side", "seed"])[DIFFERENCE]
    whole = {(pair, side) for pair, side, _ in sides.mean(skipna=False).dropna().index}
    differences = summed(terms, runs, ["pair"])
    by_pair, by_cell = dict([*differences.groupby("pair")]), dict([*runs.groupby("cell")])
    gaps = []
    for number, (one, pair) in enumerate(pairs):
        places = by_pair.get(number, differences[:0]).drop(columns="pair")
        every = by_cell.get(_same(*pair), runs[:0])
        shared = len(every) and places[DIFFERENCE].notna().any()
        gap = estimate(places, _spread(places, every) if shared else UNKNOWN, one.exact)
        lacking = [
            bool(not gap["seeds"] and pair[side].terms and (number, side) not in whole) for side in (0, 1)
        ]
        gaps.append({**gap, LATE: int(late.get(number, 0)), "lacking": lacking})
    return gaps


def _runs_of(cell: Compared) -> str:
    """What a cell has in common with those of other rows: experiment, metric, rounds and values on axes."""
    alone = cell.range or cell.peak  # its values are of several rows
    return cell.model_copy(update={} if alone else {"row": ""}).model_dump_json()


def _same(left: Sum[Compared], right: Sum[Compared]) -> str:
    """The `_runs_of` both sides, if these are the same accuracy of two rows; otherwise ""."""
    if left.constant or right.constant or len(left.terms) != 1 or len(right.terms) != 1:
        return ""
    (_, one), (_, other) = *left.terms, *right.terms
    same = _runs_of(one) == _runs_of(other) and not (one.range or one.peak)
    return _runs_of(one) if same and column(one.metric).kind == "quantity" else ""


def summed(terms: pd.DataFrame, runs: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Sums over terms of factor times value, plus a constant, as the column `difference`.

    One row for each sum, seed and values of the other axes at which all terms are planned; NaN where a run is
    missing. Terms are averaged over an axis that some of them do not have, or on which they share no value.
    Such an axis is UNSHARED in the sum.

    `terms`: `factor`, `cell` and `method` of each; those with the same values of `by` are one sum, and have
        its `constant`.
    `runs`: `cell`, `method`, `value`, `seed` and the other axes, NaN on an axis that the cell does not have.
    """
    axes = [axis for axis in runs if axis not in ("cell", "method", VALUE, LATE)]
    numbered = terms.assign(term=range(len(terms)), terms=terms.groupby(by)["cell"].transform("size"))
    long = numbered.merge(runs, on=["cell", "method"])
    long[DIFFERENCE] = long["factor"] * long[VALUE]
    for axis in axes:
        common = long.groupby([*by, axis])["term"].transform("nunique") == long["terms"]
        shared = common.groupby([long[name] for name in by]).transform("any")
        long[axis] = long[axis].where(shared | (axis == "seed"), UNSHARED)
    keys = [*by, "terms", "constant", *axes]
    groups = long.groupby([*keys, "term"])[DIFFERENCE].mean(skipna=False).groupby(keys)
    sums = groups.sum(skipna=False).reset_index()
    sums[DIFFERENCE] += sums.pop("constant")
    return sums[groups.size().to_numpy() == sums.pop("terms")]


def estimate(places: pd.DataFrame, shared: Spread = UNKNOWN, exact: bool = False) -> dict[str, Any]:
    """The mean of differences: the columns of `verdicts` from `difference` to `freedom`.

    `places`: columns `seed`, the other axes, and `difference` (NaN where a run of either side is missing).
    `shared`: the spread of one seed of one row, where it is pooled.
    `exact`: whether the values are counted or declared, so that equal seeds are not a coincidence.
    """
    by_seed = places.groupby("seed")[DIFFERENCE].mean(skipna=False)
    whole = by_seed.dropna()
    n, kept = len(whole), places[places["seed"].isin(whole.index)]
    axes = [axis for axis in kept if axis not in ("seed", DIFFERENCE) and (kept[axis] != UNSHARED).all()]
    axes = [axis for axis in axes if kept[axis].nunique(dropna=False) > 1] or axes
    by_place: dict[str, list[float]] = defaultdict(list)
    for place in kept.to_dict("records"):
        by_place[", ".join(str(place[axis]) for axis in axes)].append(place[DIFFERENCE])
    error = standard_error(whole, shared)
    if exact and n and not error.known:
        error = Spread(0.0, 1)
    interval = around(float(whole.mean()), *error)
    pairs = {place: fmean(of) for place, of in by_place.items()}
    gap = {"seeds": n, "planned": len(by_seed), "pairs": pairs, "by_seed": (*map(float, whole),)}
    return interval._asdict() | gap | {"error": error.deviation, "freedom": error.freedom}


def _spread(places: pd.DataFrame, every: pd.DataFrame) -> Spread:
    """The spread pooled over all rows that have the same runs as the whole seeds of a pair."""
    counts = places.dropna().groupby("seed").size()
    seeds = counts.index[counts == places.groupby("seed").size().max()]
    if len(seeds) < 2:
        return UNKNOWN
    at = places[places["seed"].isin(seeds)].drop(columns=DIFFERENCE)
    at = at.loc[:, (at != UNSHARED).all()]
    rows = at.merge(every, on=[*at]).dropna(subset=VALUE)
    full = rows.groupby(["method", "seed"])[VALUE].agg(["mean", "size"])
    means = full["mean"].where(full["size"] == full["size"].max())
    return residual(means.unstack("seed"))


def _runs(workspace: Workspace, collected: Collected, tested: Sequence[Comparison]) -> pd.DataFrame:
    """The runs that are compared: `cell` (`_runs_of`), `method`, `seed` and the other axes, VALUE and LATE.

    All rows of an experiment have runs, as their spread is pooled. An experiment that was not collected has
    none. Without an axis of seeds, `seed` is 0. LATE marks a run that never reaches the value of the metric.

    Raises FedshiftError for an axis that another experiment does not have.
    """
    home = collected.experiment
    known: dict[str, Collected | None] = {home.name: collected}
    cells = [(cell, one) for one in tested for cell in one.cells]
    own = [cell.metric for cell, _ in cells if cell.experiment in known]
    curves(collected, recorded(own))  # all are read from the records at once
    values: dict[tuple[str, str, str], pd.DataFrame] = {}
    found = {"": pd.DataFrame(columns=["method", "seed", VALUE, LATE])}
    for cell, one in cells:
        if _runs_of(cell) in found:
            continue
        if (name := cell.experiment) not in known:
            known[name] = read(workspace, name) if is_there(workspace, name) else None
        if (of := known[name]) is None:
            continue
        axes, key = of.keys[1:], (name, cell.metric, cell.rounds)
        if key not in values:
            frame = _values(workspace, of, cell.metric, cell.rounds)
            frame[axes] = frame[axes].astype(object).fillna(NONE)
            values[key] = frame.assign(**{"seed": frame.get("seed", 0), LATE: frame.get(LATE, False)})
        frame = values[key]
        metric = column(cell.metric)
        _, number, domain = recorded_of(metric.name) if metric.kind == "recorded" else ("", "", "")
        if cell.range or cell.peak:
            frame = _over_rows(frame, cell)
        elif number == "of" and "target" in frame:  # of one client: its domain must not be held out
            frame = frame[frame["target"] != domain]
        for axis, value in cell.where.items():
            if axis not in axes:
                raise unknown(f"{home.file}: claims.{one.claim['id']}.where", "axis", axis, axes)
            frame = frame[frame[axis] == value]
        found[_runs_of(cell)] = frame
    runs = pd.concat(found, names=["cell"]).reset_index("cell")
    return runs.reset_index(drop=True).astype({VALUE: float, LATE: bool})


def _over_rows(frame: pd.DataFrame, cell: Compared) -> pd.DataFrame:
    """The range of the cell's rows, or the position of the largest; NaN at places where a row is missing."""

    def extent(values: pd.Series[float]) -> float:
        return float(values.max(skipna=False) - values.min(skipna=False))

    def peak(values: pd.Series[float]) -> float:
        return math.nan if values.isna().any() else 100 * float(values.argmax()) / max(len(values) - 1, 1)

    order = [cell.row, *cell.range, *cell.peak]
    rows = frame[frame["method"].isin(order)]
    rows = rows.sort_values("method", key=lambda method: method.map(order.index), kind="stable")
    groups = rows.groupby([*rows.columns.drop(["method", VALUE, LATE])])[VALUE]
    said = groups.agg(peak if cell.peak else extent).where(groups.size() == len(order))
    return said.reset_index().assign(method=cell.row, **{LATE: False})


def _values(workspace: Workspace, collected: Collected, metric: str, rounds: str) -> pd.DataFrame:
    """Every planned run with its VALUE; at the selected round as in tables, with LATE.

    A run that never reaches the value of the metric counts as if it did one round after the longest run.

    `rounds`: as in fedshift.experiments.schema.Claim.
    """
    own = column(metric)
    if rounds == SELECTED:
        # A relative metric is relative to the same row as in the table that has it.
        against = {name: of.against for of in collected.experiment.tables.values() for name in of.metrics}
        table = Table(metrics=[metric], against=against.get(metric, ""))
        values = partial(of_runs, workspace, collected, collected.protocol.select, table)
        value = values(late=True)[metric]
        late = value.notna() & values()[metric].isna() if own.kind == "rounds_to" else False
        return collected.runs[collected.keys].assign(**{VALUE: value, LATE: late})

    def fluctuation(curve: pd.Series[float]) -> float:
        """The standard deviation (divided by n) of the steps of a curve; NaN for fewer than two steps."""
        return float(curve.diff().std(ddof=0)) if len(curve) > 2 else math.nan

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
