"""The rule of all verdicts: a difference with its 95% interval; and the verdict on each number of a table.

One spread serves many differences: the standard deviation of one seed, pooled over the methods of a table.
With two or three seeds the spread of a single method says next to nothing (of two seeds, an interval may be
0.1 or 46 points wide by chance), while all methods of a table share data sets, splits and rounds. Where
methods spread unequally, the interval is right on average over a table, too wide for calm methods and too
narrow for restless ones (docs/verdicts.md has the simulation).

- A number beside a printed one: half-width t(f) sqrt(s^2 / n + s'^2 / n'), with s the pooled spread of ours
  over n seeds and s' that of the paper over its n'; a paper that prints none is taken to spread as ours, and
  the other way round where ours has one seed. Spreads are apart for each metric and data set, and for
  averages over domains.
- One method beside another on the same seeds: rows and seeds explain each value, what is left is the spread
  (two-way analysis of variance); half-width t(f) s sqrt(2 / n). Of two rows this is Student's paired t.
- What is counted (parameters, bytes, layers) needs no seeds: it is the printed value to its last digit, or in
  the same words, or it is not. A setting that was copied from the paper gets no word.
"""

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from fedshift.analysis.collected import BESIDE, Collected
from fedshift.analysis.published import AVERAGE, COPIED, Published, by_uid, judged_by, margin, setting
from fedshift.experiments.paper_claims import table_of
from fedshift.experiments.protocols import protocol
from fedshift.storage.workspace import Workspace

LEVEL = 0.05
ALIKE = 1e-9  # a standard deviation of no more is rounding
Word = Literal["consistent", "different", "too few seeds"]
WORDS: tuple[Word, ...] = ("consistent", "different", "too few seeds")
Outcome = Literal["as published", "against", "open", "not run"]  # of a comparison of methods
OUTCOMES: tuple[Outcome, ...] = ("as published", "against", "open", "not run")


class Spread(NamedTuple):
    """The standard deviation of one seed (NaN: unknown), and its degrees of freedom."""

    deviation: float
    freedom: float

    @property
    def known(self) -> bool:
        """Whether it tells anything: seeds that are all alike do not."""
        return self.freedom > 0 and self.deviation > ALIKE


UNKNOWN = Spread(math.nan, 0)


class Interval(NamedTuple):
    """A difference with its interval; low and high are NaN where no spread is known."""

    difference: float
    low: float = math.nan
    high: float = math.nan

    @property
    def half(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


def pooled(samples: Iterable[tuple[float, int]]) -> Spread:
    """The common spread of samples, of each its standard deviation (divided by n - 1) and n; those of one
    value, or without a deviation, say nothing.
    """
    told = [(deviation, n - 1) for deviation, n in samples if n > 1 and not math.isnan(deviation)]
    freedom = sum(of for _, of in told)
    if not freedom:
        return UNKNOWN
    return Spread(math.sqrt(sum(deviation**2 * of for deviation, of in told) / freedom), freedom)


def residual(values: pd.DataFrame) -> Spread:
    """The spread that rows (methods) and columns (seeds) leave unexplained; a row that lacks a seed is left
    out. Two rows and two seeds are the least.
    """
    table = values.dropna().to_numpy(float)
    rows, seeds = table.shape
    if rows < 2 or seeds < 2:
        return UNKNOWN
    freedom = (rows - 1) * (seeds - 1)
    left = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    return Spread(math.sqrt(float((left**2).sum()) / freedom), freedom)


def beside_print(difference: float, n: int, ours: Spread, printed_n: int, printed: Spread) -> Interval:
    """Ours over n seeds less a printed mean over `printed_n`; a side without a spread has the other's."""
    if not ours.known and not printed.known:
        return Interval(difference)
    own, theirs = (ours if ours.known else printed), (printed if printed.known else ours)
    parts = own.deviation**2 / n, theirs.deviation**2 / printed_n
    freedom = own.freedom
    if own is not theirs:  # Welch 1947
        freedom = sum(parts) ** 2 / (parts[0] ** 2 / own.freedom + parts[1] ** 2 / theirs.freedom)
    return around(difference, math.sqrt(sum(parts)), freedom)


def around(difference: float, error: float, freedom: float, level: float = LEVEL) -> Interval:
    """A difference with the interval of its standard error."""
    half = quantile(freedom, level) * error
    return Interval(difference, difference - half, difference + half)


def quantile(freedom: float, level: float = LEVEL) -> float:
    """Student's, of both sides together."""
    from scipy.special import stdtrit  # scipy.stats takes seconds to import

    return float(stdtrit(freedom, 1 - level / 2))


def word(interval: Interval, margin: float) -> Word:
    """ "different" where 0 lies outside, else "consistent" where the interval is no wider than the margin on
    either side, else "too few seeds".
    """
    if interval.low > 0 or interval.high < 0:
        return "different"
    return "consistent" if interval.half <= margin else "too few seeds"


def simultaneous(rows: int, freedom: float, level: float = LEVEL) -> float:
    """The quantile for the differences of `rows` methods from one other, all at once (Dunnett 1955), of
    equally many seeds each; of 200,000 draws, so right to about 0.01.
    """
    rng = np.random.default_rng(0)
    draws = np.zeros(200_000)
    shared = rng.standard_normal(draws.shape)
    for _ in range(rows):
        np.maximum(draws, np.abs(rng.standard_normal(draws.shape) - shared), out=draws)
    scale = np.sqrt(2 * rng.chisquare(freedom, draws.shape) / freedom)
    return float(np.quantile(draws / scale, 1 - level))


def root_mean_square(values: Sequence[float]) -> float:
    """Of nothing NaN."""
    return math.sqrt(sum(value**2 for value in values) / len(values)) if values else math.nan


COUNTED, POINTS = "counted", "points"  # of `rule`, with "percent"
OVER_SEEDS = ("std", "ci95")  # printed spreads that are over seeds
ROUNDING = 1e-9  # of floating point
Sample = tuple[float, int]  # a standard deviation, and of how many values


def judge(workspace: Workspace, collected: Collected, cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of a table (fedshift.analysis.tables.cells) with low, high, margin, rule and verdict of
    those that may be compared and have a seed.

    low, high, margin: in the unit of the cell; of `counted` NaN. Raises FedshiftError for a paper without a
    declared margin.
    """
    known, ddof = by_uid(workspace), collected.protocol.ddof
    judged = cells[(cells["difference"].notna() | (cells["published_text"] != "")) & (cells["seeds"] > 0)]
    if judged.empty:
        return cells
    groups: dict[tuple[Any, ...], tuple[list[Sample], list[Sample]]] = {}
    for cell in cells.to_dict("records"):
        ours, printed = groups.setdefault(_group(cell), ([], []))
        ours.append((_sample(cell["std"], cell["seeds"], ddof), int(cell["seeds"])))
        printed.append(_sampled(workspace, known[cell["uid"]]) if cell["uid"] else (math.nan, 0))
    spreads = {group: (pooled(ours), pooled(printed)) for group, (ours, printed) in groups.items()}
    rows: dict[Hashable, dict[str, Any]] = {}
    for place, cell in judged.to_dict("index").items():
        of = known[cell["uid"]]
        rule = judged_by(of.name)
        if of.name.startswith(COPIED):
            continue
        if rule == "exact":
            if cell["published_text"]:
                equal = cell["text"] == cell["published_text"]
            else:
                equal = abs(cell["difference"]) <= of.half + ROUNDING * abs(of.judged)
            rows[place] = {"rule": COUNTED, "verdict": WORDS[0] if equal else WORDS[1]}
            continue
        margins = margin(workspace, of.row.paper)
        bound = margins.of(of.row.ds_id)
        if rule == "percent":
            bound = abs(cell["mean"] - cell["difference"]) * margins.percent / 100
        own, theirs = spreads[_group(cell)]
        told = re.match(r"\d+", of.n)  # over how many seeds; one where the paper does not say
        seeds = int(told[0]) if told else 1
        interval = beside_print(cell["difference"], int(cell["seeds"]), own, seeds, theirs)
        numbers = {"low": interval.low, "high": interval.high, "margin": bound}
        rows[place] = numbers | {"rule": rule, "verdict": word(interval, bound)}
    found = pd.DataFrame.from_dict(rows, orient="index", columns=["low", "high", "margin", "rule", "verdict"])
    found = found.reindex(cells.index).fillna({"rule": "", "verdict": ""})
    return cells.assign(**found.astype({str(name): BESIDE[str(name)] for name in found}))


def summaries(cells: pd.DataFrame) -> list[tuple[str, ...]]:
    """A line of text for each printed table that cells stand beside: its name, how many numbers were
    compared, how many of each of WORDS, and how far they lie from print; what is counted has a line of its
    own.
    """
    found = cells[cells["verdict"] != ""].drop_duplicates("uid")
    counted = found["rule"] == COUNTED
    tables = found["uid"].map(lambda uid: table_of(uid)[1]) + counted.map({True: " (counted)", False: ""})
    lines = []
    for table, rows in found.groupby(tables, sort=False):
        words = [str((rows["verdict"] == word).sum()) for word in WORDS]
        points = rows[rows["rule"] == POINTS]
        halves = ((points["high"] - points["low"]) / 2).dropna()
        distance = "" if points.empty else f"{root_mean_square([*points['difference']]):.1f}"
        half = "" if halves.empty else f"±{halves.median():.1f}"
        lines.append((str(table), str(len(rows)), *words, distance, half))
    return lines


def _group(cell: Mapping[Hashable, Any]) -> tuple[Any, ...]:
    """What shares a spread: cells of one metric and data set, averages over domains apart."""
    return cell["metric"], cell.get("data.dataset"), cell.get("target") == AVERAGE


def _sampled(workspace: Workspace, printed: Published) -> Sample:
    """The printed deviation over seeds (n - 1) and their number; NaN where it is none over seeds."""
    if printed.kind not in OVER_SEEDS or not printed.n.isdigit():
        return math.nan, 0
    known, n = setting(workspace, printed.row), int(printed.n)
    ddof = protocol(workspace, known.protocol).ddof if known and printed.kind == "std" else 1
    return _sample(printed.std, n, ddof), n


def _sample(deviation: float, n: int, ddof: int) -> float:
    """The standard deviation of n values that was divided by n - ddof, divided by n - 1."""
    return deviation * math.sqrt((n - ddof) / (n - 1)) if n > 1 else math.nan
