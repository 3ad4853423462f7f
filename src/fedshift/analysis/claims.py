"""Claims: what a paper says of one method beside others, judged on paired differences between the runs of both.

A pair is the same target, seed and whatever other axes there are, under both methods. The 95% interval of the mean difference is
Student's t over the pairs, which are taken as independent. A claim is confirmed where every interval lies on its side of 0, refuted
where one lies on the other side (at 5% over all of them together, by Bonferroni), else undecided: one pair decides nothing.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd

from fedshift.analysis.collect import Collected
from fedshift.analysis.select import selected
from fedshift.declared import Claim
from fedshift.errors import FedshiftError, unknown

LEVEL = 0.05
SIGN = {">": 1, ">=": 1, "<": -1, "<=": -1, "~": 1}


@dataclass(frozen=True)
class Difference:
    """The left method less one on the right, in points of accuracy: mean over `pairs`, with its 95% interval (NaN below two pairs)."""

    right: str
    mean: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True)
class Verdict:
    """A row of reference/claims.csv, the difference that the paper prints (NaN where it prints none), ours, and what follows."""

    claim: str
    said: str
    text: str
    printed: float
    differences: list[Difference]
    verdict: Literal["confirmed", "refuted", "undecided"]


def verdicts(root: Path, collected: Collected) -> list[Verdict]:
    """One per claim that the experiment tests. Raises FedshiftError for a claim that is not in the list, or whose methods it does not train."""
    tested = collected.experiment.claims
    if not tested:
        return []
    keys = [*collected.keys]
    values = collected.runs[keys].merge(selected(collected), on=keys, how="left")
    return [_verdict(root, collected, values, name, claim) for name, claim in tested.items()]


def table(found: list[Verdict]) -> pd.DataFrame:
    """One row per claim and method on its right side."""
    columns = ["claim", "said", "printed", "right", "difference", "low", "high", "pairs", "verdict", "text"]
    rows = [
        (one.claim, one.said, one.printed, each.right, each.mean, each.low, each.high, each.pairs, one.verdict, one.text)
        for one in found
        for each in one.differences
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def lines(found: list[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per claim, for pages."""
    return [
        (one.claim, one.said, "" if math.isnan(one.printed) else f"{one.printed:+.1f}", one.verdict, "; ".join(map(_told, one.differences)), one.text)
        for one in found
    ]  # fmt: skip


def difference(
    left: pd.Series[float], right: pd.Series[float], name: str, level: float = LEVEL
) -> Difference:
    """Of two series with the same index (the pairs); a pair that lacks a value is left out."""
    paired = (left - right).dropna()
    mean = float(paired.mean()) if len(paired) else math.nan
    if len(paired) < 2:
        return Difference(name, mean, math.nan, math.nan, len(paired))
    from scipy.stats import t

    half = float(t.ppf(1 - level / 2, len(paired) - 1) * paired.sem())
    return Difference(name, mean, mean - half, mean + half, len(paired))


def _verdict(root: Path, collected: Collected, values: pd.DataFrame, name: str, claim: Claim) -> Verdict:
    where, listed = f"experiments/{collected.experiment.name}.yaml: claims.{name}", _listed(root)
    if name not in listed.index:
        raise unknown(where, "claim of reference/claims.csv", name, list(listed.index))
    row = listed.loc[name]
    relation = str(row["relation"])
    names = [str(row["left"]), *_names(str(row["right"]))]
    if relation == "~" and len(names) > 2:
        raise FedshiftError(where, f"says that two are equal, but names {len(names)}", "Leave it out.")
    left, *right = (_row(each, collected, claim, where) for each in names)
    for axis, value in claim.where.items():
        if axis not in collected.keys[1:]:
            raise unknown(f"{where}.where", "axis", axis, collected.keys[1:])
        values = values[values[axis] == value]
    series = {
        label: part.set_index(collected.keys[1:])[claim.metric] for label, part in values.groupby("method")
    }
    none = pd.Series(dtype=float)
    pairs = [(series.get(left, none), series.get(each, none), each) for each in right]
    shown = [difference(*pair) for pair in pairs]
    together = [difference(*pair, level=LEVEL / len(pairs)) for pair in pairs]
    return Verdict(
        name,
        f"{left} {relation} {f'each of {len(right)}' if len(right) > 1 else right[0]}, {claim.metric}",
        str(row["text"]),
        _number(row["published_left"]) - _number(row["published_right"]),
        shown,
        _judged(relation, shown, together, claim.margin),
    )


def _told(one: Difference) -> str:
    interval = "no interval" if math.isnan(one.low) else f"[{one.low:+.1f}, {one.high:+.1f}]"
    return f"{one.right} {one.mean:+.1f} {interval}, {one.pairs}" if one.pairs else f"{one.right}: no pair"


def _judged(
    relation: str, shown: list[Difference], together: list[Difference], margin: float
) -> Literal["confirmed", "refuted", "undecided"]:
    if relation == "~":
        inside = [-margin < one.low and one.high < margin for one in shown]
        outside = [one.low > margin or one.high < -margin for one in together]
    else:
        sign = SIGN[relation]
        inside = [min(sign * one.low, sign * one.high) > 0 for one in shown]
        outside = [max(sign * one.low, sign * one.high) < 0 for one in together]
    return "confirmed" if all(inside) else "refuted" if any(outside) else "undecided"


def _names(right: str) -> list[str]:
    inner = re.fullmatch(r"(?:max|min)\((.*)\)", right)
    return inner[1].split("|") if inner else [right]


def _row(printed: str, collected: Collected, claim: Claim, where: str) -> str:
    """The experiment's name of a method that the paper prints."""
    if printed in claim.rows:
        return claim.rows[printed]
    plain = {_plain(label): label for label in collected.experiment.rows}
    if _plain(printed) not in plain:
        cure = f"Train it here, or say which row it is: rows: {{{printed!r}: <row>}}."
        raise FedshiftError(where, f"speaks of '{printed}', which is no row of this experiment", cure)
    return plain[_plain(printed)]


def _number(printed: object) -> float:
    try:
        return float(str(printed))
    except ValueError:  # a few are words
        return math.nan


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


@functools.cache
def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str).set_index("id")


def _listed(root: Path) -> pd.DataFrame:
    return _read(root / "reference" / "claims.csv")
