"""Judge: the cells of an experiment's tables, each that stands beside a printed number with its interval and
word.

An accuracy (`points`), or a time as a ratio to another row's (`percent`), gets the interval of
fedshift.analysis.verdicts.rule and one of WORDS. Its spread is pooled over the methods and held-out domains
of the table, apart for each metric and data set, and for averages over domains. What is counted (parameters,
bytes, layers) needs no seeds: it is the printed value to its last digit, or in the same words, or it is not.
A setting that was copied from the paper gets no word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.printed import names as printed_names
from fedshift.analysis.printed.published import Published, by_uid
from fedshift.analysis.printed.spec import margin, setting
from fedshift.analysis.quantities.uneven import AVERAGE
from fedshift.analysis.verdicts.rule import (
    UNKNOWN,
    WORDS,
    Spread,
    beside_print,
    pooled,
    root_mean_square,
    word,
)
from fedshift.experiments.protocols import protocol
from fedshift.storage.workspace import Workspace

COUNTED, POINTS = "counted", "points"  # of `rule`, with "percent"
OVER_SEEDS = ("std", "ci95")  # printed spreads that are over seeds
ROUNDING = 1e-9  # of floating point
Row = Mapping[Hashable, Any]


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
    ours = _spreads(cells, lambda cell: (_sample(cell["std"], cell["seeds"], ddof), int(cell["seeds"])))
    printed = _spreads(
        cells, lambda cell: _sampled(workspace, known[cell["uid"]]) if cell["uid"] else (math.nan, 0)
    )
    rows: dict[Hashable, dict[str, Any]] = {}
    for place, cell in judged.to_dict("index").items():
        of = known[cell["uid"]]
        rule = printed_names.rule(of.name)
        if of.name.startswith(printed_names.COPIED):
            continue
        if rule == "exact":
            rows[place] = {"rule": COUNTED, "verdict": WORDS[0] if _equal(cell, of) else WORDS[1]}
            continue
        margins = margin(workspace, of.row.paper)
        bound = margins.of(of.row.dataset)
        if rule == "percent":
            bound = abs(cell["mean"] - cell["difference"]) * margins.percent / 100
        group = _group(cell)
        spreads = ours.get(group, UNKNOWN), printed.get(group, UNKNOWN)
        interval = beside_print(cell["difference"], int(cell["seeds"]), spreads[0], _seeds(of), spreads[1])
        numbers = {"low": interval.low, "high": interval.high, "margin": bound}
        rows[place] = numbers | {"rule": rule, "verdict": word(interval, bound)}
    found = pd.DataFrame.from_dict(rows, orient="index", columns=["low", "high", "margin", "rule", "verdict"])
    found = found.reindex(cells.index)
    texts = {column: found[column].fillna("") for column in ("rule", "verdict")}
    bounds = {column: found[column].astype(float) for column in ("low", "high", "margin")}
    return cells.assign(**bounds, **texts)


def summaries(cells: pd.DataFrame) -> list[tuple[str, ...]]:
    """A line of text for each printed table that cells stand beside: its name, how many numbers were
    compared, how many of each of WORDS, and how far they lie from print; what is counted has a line of its
    own.
    """
    found = cells[cells["verdict"] != ""].drop_duplicates("uid")
    counted = found["rule"] == COUNTED
    tables = found["uid"].map(table_of) + counted.map({True: " (counted)", False: ""})
    return [_summary(str(table), rows) for table, rows in found.groupby(tables, sort=False)]


def _summary(table: str, rows: pd.DataFrame) -> tuple[str, ...]:
    words = [str((rows["verdict"] == word).sum()) for word in WORDS]
    points = rows[rows["rule"] == POINTS]
    if points.empty:
        return (table, str(len(rows)), *words, "", "")
    halves = ((points["high"] - points["low"]) / 2).dropna()
    distance = f"{root_mean_square([*points['difference']]):.1f}"
    return (table, str(len(rows)), *words, distance, "" if halves.empty else f"±{halves.median():.1f}")


def table_of(uid: str) -> str:
    """The printed table that a number's uid is of: "2", "A8"."""
    return uid.split("|")[1].removeprefix("T")


def _group(cell: Row) -> tuple[Any, ...]:
    """What shares a spread: cells of one metric and data set, averages over domains apart."""
    return cell["metric"], cell.get("data.dataset"), cell.get("target") == AVERAGE


def _spreads(
    cells: pd.DataFrame, sample: Callable[[Row], tuple[float, int]]
) -> dict[tuple[Any, ...], Spread]:
    """Group -> the spread of its cells."""
    groups: dict[tuple[Any, ...], list[tuple[float, int]]] = {}
    for cell in cells.to_dict("records"):
        groups.setdefault(_group(cell), []).append(sample(cell))
    return {group: pooled(samples) for group, samples in groups.items()}


def _equal(cell: Row, printed: Published) -> bool:
    """Whether what is counted is what is printed."""
    if cell["published_text"]:
        return bool(cell["text"] == cell["published_text"])
    return bool(abs(cell["difference"]) <= printed.half + ROUNDING * abs(printed.judged))


def _sampled(workspace: Workspace, printed: Published) -> tuple[float, int]:
    """The printed deviation over seeds (n - 1) and their number; NaN where it is none over seeds."""
    if printed.kind not in OVER_SEEDS or not printed.n.isdigit():
        return math.nan, 0
    known, n = setting(workspace, printed.row), int(printed.n)
    ddof = protocol(workspace, known.protocol).ddof if known and printed.kind == "std" else 1
    return _sample(printed.std, n, ddof), n


def _seeds(printed: Published) -> int:
    """Over how many seeds a number is printed: one where the paper does not say."""
    told = re.match(r"\d+", printed.n)
    return int(told[0]) if told else 1


def _sample(deviation: float, n: int, ddof: int) -> float:
    """The standard deviation of n values that was divided by n - ddof, divided by n - 1."""
    return deviation * math.sqrt((n - ddof) / (n - 1)) if n > 1 else math.nan
