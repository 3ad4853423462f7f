"""Every comparison that an experiment tests, by paired differences between its runs.

What a paper prints is an average over its domains, which are fixed, then over seeds, which are sampled: so
the differences of a seed are averaged first, and the 95% interval is over seeds. A seed that lacks a run is
left out: an average over fewer domains is another quantity. One seed has no interval.

Of two rows of one experiment the spread is pooled over all rows that have these runs
(fedshift.analysis.verdicts.residual); of sums, of rows of two experiments, and of what is no accuracy,
it is that of the differences themselves.

A comparison is "as published" where the interval lies on the side of 0 on which the paper prints it,
"against" where it lies on the other, else "open". A paper that prints no numbers for it is taken at its word.
Of "~" (equal) and ">=" (not worse) the bound is not 0 but the margin: that of the paper and data set in
reference/published.yaml, of costs a tenth of what is printed, or the one that the experiment declares. Beside
"the best of several" it must hold for each of them; where it need hold for one alone, that one's interval is
at 5% over how many they are (Bonferroni).

Rounds up to a value: a finished run that never gets there counts as if it did one round after the longest run
of its experiment: worse than any that does; two such runs are equal.

On the paper's own numbers (`on_print`), without a test: whether what is printed bears out what is said.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, NamedTuple

import pandas as pd

from fedshift.analysis.claims.comparison import Comparison, Sum, bounds, comparisons, points
from fedshift.analysis.claims.values import LATE, VALUE, Values, values_of
from fedshift.analysis.claims.words import pair_names, side_names, statement
from fedshift.analysis.collected import Collected
from fedshift.analysis.published import Published, by_uid, scaled
from fedshift.analysis.verdicts import (
    ALIKE,
    LEVEL,
    UNKNOWN,
    Interval,
    Outcome,
    Spread,
    around,
    pooled,
    residual,
)  # fmt: skip
from fedshift.experiments.column import column
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import Side, sides
from fedshift.storage.workspace import Workspace

EXACT = 1e-9  # a difference of no more is rounding of ours
OnPrint = Literal["holds", "fails", "within the spread", "within the rounding", "not printed"]
WORDS: tuple[OnPrint, ...] = ("holds", "fails", "within the spread", "within the rounding", "not printed")


class Printed(NamedTuple):
    """A claim on printed numbers, without a test: left less right, of several the best, in the unit of the
    metric that runs are judged by (NaN where one is not printed); whether that is on the claim's side of its
    bound; and the word.

    Numbers are those that fedshift.analysis.published takes the printed for; of several on the right
    a slip whose right value nobody knows is left out. "within the spread": nearer to the bound than the
    standard deviation of the difference of one run of each side, by the printed spreads; "within the
    rounding": nearer than half of the last digits of all numbers together; "holds" and "fails": farther.
    """

    difference: float
    holds: bool
    word: OnPrint

    @property
    def printed(self) -> bool:
        """Whether the paper prints numbers for it."""
        return not math.isnan(self.difference)


class Value(NamedTuple):
    """A side: its value, its variance over single runs (NaN: not printed), and by how much rounding may have
    moved it.
    """

    value: float
    variance: float
    rounding: float


NOT_PRINTED = Printed(math.nan, False, "not printed")


def on_print(workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None) -> Printed:
    """How a row of reference/claims.csv stands on what the paper prints; comparison: how an experiment judges
    it, None where none does. Raises FedshiftError for a paper that has no margin.
    """
    left, right = _sides(workspace, row, comparison)
    difference = round(left.value - right.value, 6)
    if math.isnan(difference):
        return NOT_PRINTED
    within = comparison.margin if comparison else points(workspace, row)
    limits = bounds(row["relation"], within)
    holds = {
        ">": difference > limits[0],
        ">=": difference >= limits[0],
        "<": difference < limits[0],
        "<=": difference <= limits[0],
        "~": limits[0] <= difference <= limits[-1],
    }[row["relation"]]
    distance = min(abs(difference - limit) for limit in limits)
    if distance <= math.sqrt(left.variance + right.variance):
        return Printed(difference, holds, "within the spread")
    if distance + EXACT < left.rounding + right.rounding:
        return Printed(difference, holds, "within the rounding")
    return Printed(difference, holds, "holds" if holds else "fails")


def _sides(
    workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None
) -> tuple[Value, Value]:
    """The left side and the best on the right; as the list of claims has them where they are no printed
    results.
    """
    found = [_value(workspace, side, comparison) for side in sides(workspace, row)]
    if not found:
        listed = [_number(row[f"published_{side}"]) for side in ("left", "right")]
        return Value(listed[0], math.nan, 0.0), Value(listed[1], math.nan, 0.0)
    best = max if row["right"].startswith("max") else min
    known = [one for one in found[1:] if not math.isnan(one.value)]
    return found[0], best(known or found[1:], key=lambda one: one.value)


def _value(workspace: Workspace, side: Side, comparison: Comparison | None) -> Value:
    known = by_uid(workspace)
    terms = [
        (factor, _scaled(workspace, known[uid], comparison)) for factor, uid in side.terms if uid in known
    ]
    if len(terms) < len(side.terms):
        return Value(math.nan, math.nan, 0.0)
    return Value(
        side.constant + sum(factor * printed.judged for factor, printed in terms),
        sum((factor * printed.std) ** 2 for factor, printed in terms),
        sum(abs(factor) * printed.half for factor, printed in terms),
    )


def _scaled(workspace: Workspace, printed: Published, comparison: Comparison | None) -> Published:
    """A printed number in the unit of the comparison: where runs are compared by ratios, such a ratio."""
    if comparison is None or column((cell := comparison.cells[0]).metric).relative != "ratio":
        return printed
    experiment = load(workspace, cell.experiment)
    table = next(table for table in experiment.tables.values() if cell.metric in table.metrics)
    return scaled(workspace, experiment, table, dict(cell.where), cell.metric, printed)


def _number(printed: str) -> float:
    try:
        return float(printed)
    except ValueError:  # a few are words
        return math.nan


SIGN = {">": 1, ">=": 1, "<": -1, "<=": -1}
NO_AXES = (VALUE, LATE)
Terms = list[tuple[float, pd.DataFrame]]


@dataclass(frozen=True)
class Difference:
    """The left side less one on the right: mean over seeds (of accuracies in points), with what its interval
    is made of.

    seeds: those that have all their pairs, of `planned`; pairs: the mean over these by the values of the
    other
        axes that vary ("photo"); by_seed: of each of `seeds` the mean over its pairs.
    error, freedom: standard error and degrees of freedom (0: none are known; infinity: counted, without
    error). late: runs that never get where the metric asks; lacking: where there is no seed, the sides that
    have none of
        their own.
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
        """With NaN where no spread is known."""
        if not self.freedom:
            return Interval(self.mean)
        if math.isinf(self.freedom):
            return Interval(self.mean, self.mean, self.mean)
        return around(self.mean, self.error, self.freedom, level)

    @property
    def low(self) -> float:
        """The lower end of the 95% interval."""
        return self.interval().low

    @property
    def high(self) -> float:
        """Its upper end."""
        return self.interval().high


@dataclass(frozen=True)
class Verdict:
    """A row of reference/claims.csv, the difference that the paper prints (NaN where it prints none), ours,
    and what follows.

    orientation: the printed difference where the paper's experiment is another (`printed` is NaN then), and
        `differs` says why; on_print: the claim on the paper's own numbers.
    """

    claim: str
    statement: str
    text: str
    printed: float
    orientation: float
    differs: tuple[str, ...]
    differences: list[Difference]
    verdict: Outcome
    on_print: Printed = NOT_PRINTED


def verdicts(workspace: Workspace, collected: Collected) -> list[Verdict]:
    """A verdict per claim that the experiment tests (fedshift.analysis.claims.comparison).

    What a claim compares with in another experiment is read where that was collected; else the claim has no
    seed. Raises FedshiftError for a declared claim that is not in the list, or whose methods the experiment
    does not train.
    """
    tested = comparisons(workspace, collected.experiment)
    values = values_of(workspace, collected, [cell for comparison in tested for cell in comparison.cells])
    return [_verdict(workspace, collected.experiment.name, values, comparison) for comparison in tested]


def _verdict(workspace: Workspace, home: str, values: Values, comparison: Comparison) -> Verdict:
    """Judge one claim on the selected rounds of its runs; home: the experiment that tests it."""
    row, differs = comparison.claim, tuple(comparison.differs)
    where = f"experiments/{home}.yaml: claims.{row['id']}"
    differences = []
    for pair, name, names in zip(
        comparison.pairs, pair_names(comparison, home), side_names(comparison, home), strict=True
    ):
        left, right = ([(factor, values.of(cell, where)) for factor, cell in side.terms] for side in pair)
        minus = [(-factor, frame) for factor, frame in right]
        pairs = paired([*left, *minus], pair[0].constant - pair[1].constant)
        gap = estimate(pairs, name, _shared_spread(values, pair, pairs), comparison.exact)
        late = sum(int(frame[LATE].sum()) for _, frame in (*left, *right))
        lacking = () if gap.seeds else _lacking(names, (left, right))
        differences.append(replace(gap, late=late, lacking=lacking))
    said = on_print(workspace, row, comparison)
    return Verdict(
        row["id"],
        statement(comparison, home),
        row["text"],
        math.nan if differs else said.difference,
        said.difference if differs else math.nan,
        differs,
        differences,
        outcome(comparison, differences, said),
        said,
    )


def outcome(comparison: Comparison, differences: Sequence[Difference], said: Printed) -> Outcome:
    """The word on a comparison by the differences of its pairs."""
    if not any(gap.seeds for gap in differences):
        return "not run"

    def every(sign: int, bound: float) -> bool:
        return all(_beyond(gap.interval(), sign, bound) for gap in differences)

    def some(sign: int, bound: float) -> bool:
        level = LEVEL / len(differences)
        return any(_beyond(gap.interval(level), sign, bound) for gap in differences)

    low, high = comparison.bounds[0], comparison.bounds[-1]
    one, other = (some, every) if comparison.one_is_enough else (every, some)
    if comparison.relation == "~":
        holds, fails = every(1, low) and one(-1, high), some(-1, low) or other(1, high)
    else:
        sign = SIGN[comparison.relation]
        holds, fails = one(sign, low), other(-sign, low)
    if said.printed and not said.holds:
        holds, fails = fails, holds
    return "as published" if holds else "against" if fails else "open"


def paired(terms: Sequence[tuple[float, pd.DataFrame]], constant: float = 0.0) -> pd.DataFrame:
    """The sum of factor times `value`, and a constant, as `difference`: one row per seed and values of the
    other axes at which all terms are planned.

    terms: of each the factor, and what `Values.of` gives. An axis on which they share no value, or that not
    all of them have, is none of the pairs': the values of a term are averaged over it.
    """
    frames = [frame for _, frame in terms]
    axes = [axis for axis in frames[0] if axis not in NO_AXES and all(axis in frame for frame in frames)]
    common = {axis: set.intersection(*(set(frame[axis]) for frame in frames)) for axis in axes}
    shared = [axis for axis in axes if axis == "seed" or common[axis]]
    columns = [factor * frame.groupby(shared)[VALUE].mean(skipna=False) for factor, frame in terms]
    both = pd.concat(dict(enumerate(columns)), axis=1, join="inner")
    return (both.sum(axis=1, skipna=False) + constant).rename("difference").reset_index()


def estimate(pairs: pd.DataFrame, right: str, shared: Spread = UNKNOWN, exact: bool = False) -> Difference:
    """The mean difference of `pairs`.

    pairs: columns `seed`, the other axes, and `difference` (NaN where a run of either side is missing);
    shared: the spread of one seed of one row, where it is pooled; exact: whether what is compared is counted
    or
        declared, so that seeds which are alike are no coincidence.
    """
    by_seed = pairs.groupby("seed")["difference"].mean(skipna=False)
    whole = by_seed.dropna()
    n, by_point = len(whole), _by_other_axes(pairs[pairs["seed"].isin(whole.index)])
    own = pooled([(float(whole.std(ddof=1)), n)]) if n > 1 else UNKNOWN
    error, freedom = math.nan, 0.0
    if n and shared.known:
        error, freedom = shared.deviation * math.sqrt(2 / n), shared.freedom
    elif own.known:
        error, freedom = own.deviation / math.sqrt(n), own.freedom
    elif exact and n:
        error, freedom = 0.0, math.inf
    mean, values = float(whole.mean()), (*map(float, whole),)
    return Difference(right, mean, n, len(by_seed), by_point, values, error, freedom)


def _shared_spread(values: Values, pair: tuple[Sum, Sum], pairs: pd.DataFrame) -> Spread:
    """The spread that all rows share with the two of a pair, where both are one cell of the same accuracy."""
    cells = [cell for side in pair for _, cell in side.terms]
    if len(cells) != 2 or any(side.constant for side in pair) or any(len(side.terms) != 1 for side in pair):
        return UNKNOWN
    left, right = cells
    same = left.model_copy(update={"row": right.row}) == right and not (left.range or left.peak)
    if not same or column(left.metric).kind != "quantity":
        return UNKNOWN
    whole = pairs.dropna().groupby("seed").size()
    seeds = whole[whole == pairs.groupby("seed").size().max()].index
    if len(seeds) < 2:
        return UNKNOWN
    axes = [axis for axis in pairs if axis not in ("seed", "difference")]
    frame = values.rows(left)
    at = pairs.loc[pairs["seed"].isin(seeds), ["seed", *axes]].merge(frame, on=["seed", *axes])
    full = at.dropna(subset=VALUE).groupby(["method", "seed"])[VALUE].agg(["mean", "size"])
    means = full["mean"].where(full["size"] == full["size"].max())
    return residual(means.unstack("seed"))


def _beyond(interval: Interval, sign: int, bound: float) -> bool:
    """Whether an interval lies above a bound (sign 1), or below it (-1)."""
    low, high = interval.low - bound, interval.high - bound
    if interval.low == interval.high:
        return sign * low >= -ALIKE  # counted or declared
    return low > 0 if sign > 0 else high < 0


def _lacking(names: tuple[str, str], sides: tuple[Terms, Terms]) -> tuple[str, ...]:
    """The sides of a pair, by their names, of which no seed has all its runs."""
    return tuple(
        name for name, terms in zip(names, sides, strict=True) if terms and not _has_whole_seed(terms)
    )


def _has_whole_seed(terms: Terms) -> bool:
    if any(frame[VALUE].isna().all() for _, frame in terms):  # most often: nothing was trained
        return False
    pairs = paired(terms)
    return bool(pairs["difference"].notna().groupby(pairs["seed"]).all().any())


def _by_other_axes(pairs: pd.DataFrame) -> dict[str, float]:
    axes = [column for column in pairs if column not in ("seed", "difference")]
    axes = [axis for axis in axes if pairs[axis].nunique(dropna=False) > 1] or axes
    differences: dict[str, list[float]] = defaultdict(list)
    for pair in pairs.to_dict("records"):
        differences[", ".join(str(pair[axis]) for axis in axes)].append(pair["difference"])
    return {name: fmean(values) for name, values in differences.items()}
