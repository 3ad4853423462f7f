"""The rule of all verdicts: a difference with its 95% interval; and the verdict on each number of a table.

One spread serves many differences: the standard deviation of one seed, pooled over the methods of a table.
With two or three seeds, the spread of a single method is almost uninformative: with two seeds, an interval
may be 0.1 or 46 points wide by chance. All methods of a table share data sets, splits and rounds. Where
spreads differ between methods, the interval is right on average over a table. It is then too wide for methods
with a small spread, and too narrow for those with a large one (simulation: docs/verdicts.md).

- Our number and a published one: half-width t(f) sqrt(s^2 / n + s'^2 / n'). Here s is our pooled spread over
  n seeds, and s' that of the paper over its n'. A paper without a spread is assumed to have ours, and vice
  versa where ours has one seed. There is one spread for each metric and data set, and one for averages over
  domains.
- Two methods on the same seeds: rows and seeds explain each value, the rest is the spread (two-way analysis
  of variance). The half-width is t(f) s sqrt(2 / n). With two rows, this is Student's paired t.
- Counted values (parameters, bytes, layers) need no seeds. They agree with the published value to its last
  digit, or in the same words, or they do not. A setting that was copied from the paper has no verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

from fedshift.analysis.collected import BESIDE, SELECT, Collected
from fedshift.analysis.published import AVERAGE, COPIED, Published, by_uid, judged_by, margin, setting
from fedshift.experiments.paper_claims import table_of
from fedshift.experiments.protocols import protocol
from fedshift.storage.workspace import Workspace

LEVEL = 0.05
ALIKE = 1e-9  # a smaller standard deviation is rounding
Word = Literal["consistent", "different", "too few seeds"]
WORDS: tuple[Word, ...] = get_args(Word)
Outcome = Literal["as published", "against", "open", "not run"]  # of a comparison of methods
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


class Spread(NamedTuple):
    """The standard deviation of one seed (NaN: unknown), and its degrees of freedom."""

    deviation: float
    freedom: float

    @property
    def known(self) -> bool:
        """Whether the spread is informative; it is not if all seeds are equal."""
        return self.freedom > 0 and self.deviation > ALIKE


UNKNOWN = Spread(math.nan, 0)


class Interval(NamedTuple):
    """A difference with its interval; low and high are NaN where no spread is known."""

    difference: float
    low: float = math.nan
    high: float = math.nan


def pooled(samples: Iterable[tuple[float, int]], ddof: int = 1) -> Spread:
    """The common spread of samples, each with its standard deviation (divided by n - ddof) and n.

    Samples of one value, or without a deviation, contribute nothing.
    """
    told = [(deviation, n) for deviation, n in samples if n > 1 and not math.isnan(deviation)]
    freedom = sum(n - 1 for _, n in told)
    if not freedom:
        return UNKNOWN
    return Spread(math.sqrt(sum(deviation**2 * (n - ddof) for deviation, n in told) / freedom), freedom)


def residual(values: pd.DataFrame) -> Spread:
    """The spread that rows (methods) and columns (seeds) leave unexplained.

    A row with a missing seed is left out. UNKNOWN with fewer than two rows or two seeds.
    """
    table = values.dropna().to_numpy(float)
    rows, seeds = table.shape
    if rows < 2 or seeds < 2:
        return UNKNOWN
    freedom = (rows - 1) * (seeds - 1)
    left = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    return Spread(math.sqrt(float((left**2).sum()) / freedom), freedom)


def beside_print(difference: float, n: int, ours: Spread, printed_n: int, printed: Spread) -> Interval:
    """The interval of our mean over `n` seeds minus a published mean over `printed_n` seeds.

    A side without a spread has that of the other side.
    """
    if not ours.known and not printed.known:
        return Interval(difference)
    own, theirs = (ours if ours.known else printed), (printed if printed.known else ours)
    parts = own.deviation**2 / n, theirs.deviation**2 / printed_n
    freedom = own.freedom
    if own is not theirs:  # Welch 1947
        freedom = sum(parts) ** 2 / (parts[0] ** 2 / own.freedom + parts[1] ** 2 / theirs.freedom)
    return around(difference, math.sqrt(sum(parts)), freedom)


def standard_error(differences: pd.Series[float], shared: Spread) -> Spread:
    """The standard error of the mean of paired differences, one for each seed; UNKNOWN without a spread.

    `shared`: the spread of one seed of one row. If it is not known, that of the differences counts.
    """
    n, rows, spread = len(differences), 2, shared
    if not shared.known:
        rows, spread = 1, pooled([(float(differences.std()), n)])
    return Spread(spread.deviation * math.sqrt(rows / n), spread.freedom) if n and spread.known else UNKNOWN


def around(difference: float, error: float, freedom: float, level: float = LEVEL) -> Interval:
    """A difference with Student's interval given by its standard error; without ends if that is NaN."""
    from scipy.special import stdtrit  # scipy.stats takes seconds to import

    half = float(stdtrit(freedom, 1 - level / 2)) * error
    return Interval(difference, difference - half, difference + half)


def word(interval: Interval, margin: float) -> Word:
    """ "different" if 0 is outside the interval, otherwise "consistent" or "too few seeds".

    It is "consistent" if neither side of the interval is wider than the margin.
    """
    if interval.low > 0 or interval.high < 0:
        return "different"
    return "consistent" if interval.high - interval.low <= 2 * margin else "too few seeds"


def simultaneous(rows: int, freedom: float, level: float = LEVEL) -> float:
    """The quantile for the differences of `rows` methods from one other, all jointly (Dunnett 1955).

    All have the same number of seeds. It is simulated with 200,000 samples, with an error of about 0.01.
    """
    rng = np.random.default_rng(0)
    draws = np.zeros(200_000)
    shared = rng.standard_normal(draws.shape)
    for _ in range(rows):
        np.maximum(draws, np.abs(rng.standard_normal(draws.shape) - shared), out=draws)
    scale = np.sqrt(2 * rng.chisquare(freedom, draws.shape) / freedom)
    return float(np.quantile(draws / scale, 1 - level))


COUNTED, POINTS = "counted", "points"  # of `rule`, with "percent"
OVER_SEEDS = ("std", "ci95")  # published spreads that are over seeds
ROUNDING = 1e-9  # of floating point


def judge(workspace: Workspace, collected: Collected, cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of a table (fedshift.analysis.tables.cells) with low, high, margin, rule and verdict.

    Only cells that may be compared and have a seed are judged. `low`, `high` and `margin` are in the unit of
    the cell, and NaN for `counted`.

    Raises FedshiftError for a paper without a declared margin.
    """
    known, ddof = by_uid(workspace), collected.protocol.ddof
    judged = (cells["difference"].notna() | (cells["published_text"] != "")) & (cells["seeds"] > 0)
    if not judged.any():
        return cells
    rows: dict[Hashable, dict[str, Any]] = {}
    # Cells of one metric, rule and data set share a spread; averages over domains have their own.
    by = [cells[name] for name in ("metric", SELECT, "data.dataset") if name in cells]
    by += [cells["target"] == AVERAGE] if "target" in cells else []
    for _, group in cells.groupby(by, sort=False, observed=True, dropna=False):
        ours = pooled(zip(group["std"], group["seeds"], strict=True), ddof)
        theirs = pooled(_sampled(workspace, known[uid]) for uid in group["uid"] if uid)
        for place, cell in group[judged[group.index]].to_dict("index").items():
            rows[place] = _verdict(workspace, cell, known[cell["uid"]], ours, theirs)
    found = pd.DataFrame.from_dict(rows, orient="index", columns=["low", "high", "margin", "rule", "verdict"])
    found = found.reindex(cells.index).fillna({"rule": "", "verdict": ""})
    return cells.assign(**found.astype({str(name): BESIDE[str(name)] for name in found}))


def _verdict(
    workspace: Workspace, cell: Mapping[Hashable, Any], of: Published, ours: Spread, theirs: Spread
) -> dict[str, Any]:
    """The columns of one cell; none for a setting that was copied from the paper."""
    rule = judged_by(of.name)
    if of.name.startswith(COPIED):
        return {}
    if rule == "exact":
        if cell["published_text"]:
            equal = cell["text"] == cell["published_text"]
        else:
            equal = abs(cell["difference"]) <= of.half + ROUNDING * abs(of.judged)
        return {"rule": COUNTED, "verdict": WORDS[0] if equal else WORDS[1]}
    margins = margin(workspace, of.row.paper)
    bound = margins.of(of.row.ds_id)
    if rule == "percent":
        bound = abs(cell["mean"] - cell["difference"]) * margins.percent / 100
    told = re.match(r"\d+", of.n)  # number of seeds; one if the paper does not specify it
    seeds = int(told[0]) if told else 1
    interval = beside_print(cell["difference"], int(cell["seeds"]), ours, seeds, theirs)
    numbers = {"low": interval.low, "high": interval.high, "margin": bound}
    return numbers | {"rule": rule, "verdict": word(interval, bound)}


def summaries(cells: pd.DataFrame) -> list[tuple[str, ...]]:
    """A line of text for each published table that cells are compared with.

    It has the table's name, the number of compared values, the number of each of WORDS, the root mean square
    distance, and the median half-width. Counted values have a separate line.
    """
    found = cells[cells["verdict"] != ""].drop_duplicates("uid")
    counted = found["rule"] == COUNTED
    tables = found["uid"].map(lambda uid: table_of(uid)[1]) + counted.map({True: " (counted)", False: ""})
    lines = []
    for table, rows in found.groupby(tables, sort=False):
        words = [str((rows["verdict"] == word).sum()) for word in WORDS]
        points = rows[rows["rule"] == POINTS]
        halves = ((points["high"] - points["low"]) / 2).dropna()
        distance = "" if points.empty else f"{(points['difference'] ** 2).mean() ** 0.5:.1f}"
        half = "" if halves.empty else f"±{halves.median():.1f}"
        lines.append((str(table), str(len(rows)), *words, distance, half))
    return lines


def _sampled(workspace: Workspace, printed: Published) -> tuple[float, int]:
    """The published deviation over seeds (divided by n - 1) and their number; NaN if it is not over seeds."""
    n = int(printed.n) if printed.n.isdigit() else 0
    if printed.kind not in OVER_SEEDS or n < 2:
        return math.nan, 0
    known = setting(workspace, printed.row)
    ddof = protocol(workspace, known.protocol).ddof if known and printed.kind == "std" else 1
    return printed.std * math.sqrt((n - ddof) / (n - 1)), n
