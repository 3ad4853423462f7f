"""Claims: what a paper says of one method beside others, judged on paired differences between the runs of
both.

A pair is the same target, seed and whatever other axes there are, under both methods. What a paper prints is
an average over its domains, which are fixed, then over seeds, which are sampled: so the differences of a seed
are averaged first, and the 95% interval is Student's t over seeds. A seed that lacks a run is left out: an
average over fewer domains is another quantity. A claim is confirmed where every interval lies on its side of
0, refuted where one lies on the other side (at 5% over all of them together, by Bonferroni), else undecided:
one seed has no interval over seeds and decides nothing. What it has is an interval over its pairs - how much
the difference varies from domain to domain, not from seed to seed - which is shown and judges nothing.

"~" says that a method is as good as the best on its right, within a margin: confirmed where it is worse than
none of them by the margin and better than at least one by less, refuted where it is worse than one, or better
than each, by more.

What two seeds or more can decide is told beside an undecided claim (fedshift.analysis.power): the distance
from 0, or of "~" from the margin, that they see with probability 0.8, and the seeds that would see ours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

import pandas as pd

from fedshift.analysis.claim_settings import changes
from fedshift.analysis.collect import Collected
from fedshift.analysis.power import detectable, needed
from fedshift.analysis.select import selected
from fedshift.errors import unknown
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.experiments.schema import Claim
from fedshift.workspace import Workspace

LEVEL = 0.05
SIGN = {">": 1, ">=": 1, "<": -1, "<=": -1}


@dataclass(frozen=True)
class Difference:
    """The left method less one on the right, in points of accuracy: mean over seeds, with its 95% interval
    (NaN below two seeds).

    seeds: those that have all their pairs, of `planned`; pairs: the mean over these by the values of the
        other axes that vary ("photo");
    pairs_low, pairs_high: with one seed, the interval over its pairs (NaN with more seeds, or fewer pairs
    than two); detectable: the distance from the bound that so many seeds see; needed: the seeds that see ours
    (NaN below two seeds).
    """

    right: str
    mean: float
    low: float
    high: float
    seeds: int
    planned: int
    pairs: dict[str, float]
    pairs_low: float
    pairs_high: float
    detectable: float
    needed: float


@dataclass(frozen=True)
class Verdict:
    """A row of reference/claims.csv, the difference that the paper prints (NaN where it prints none), ours,
    and what follows.

    orientation: the printed difference where the paper's experiment is another (`printed` is NaN then), and
        `differs` says why.
    """

    claim: str
    said: str
    text: str
    printed: float
    orientation: float
    differs: tuple[str, ...]
    differences: list[Difference]
    verdict: Literal["confirmed", "refuted", "undecided"]


def verdicts(root: Path, collected: Collected) -> list[Verdict]:
    """One per claim that the experiment tests. Raises FedshiftError for a claim that is not in the list, or
    whose methods it does not train.
    """
    tested = collected.experiment.claims
    if not tested:
        return []
    keys = [*collected.keys]
    wanted = [claim.metric for claim in tested.values()]
    values = collected.runs[keys].merge(selected(collected, quantities=wanted), on=keys, how="left")
    return [_verdict(root, collected, values, name, claim) for name, claim in tested.items()]


def table(found: list[Verdict]) -> pd.DataFrame:
    """One row per claim and method on its right side."""
    rows = [
        {
            "claim": one.claim,
            "said": one.said,
            "printed": one.printed,
            "orientation": one.orientation,
            "right": each.right,
            "difference": each.mean,
            "low": each.low,
            "high": each.high,
            "seeds": each.seeds,
            "planned": each.planned,
            "pairs": _listed(each.pairs),
            "pairs_low": each.pairs_low,
            "pairs_high": each.pairs_high,
            "detectable": each.detectable,
            "needed": each.needed,
            "verdict": one.verdict,
            "differs": "; ".join(one.differs),
            "text": one.text,
        }
        for one in found
        for each in one.differences
    ]
    return pd.DataFrame(rows)


def lines(found: list[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per claim, for pages."""
    return [
        (
            one.claim,
            one.said,
            _printed(one),
            one.verdict,
            "; ".join(_told(each, one.verdict) for each in one.differences),
            one.text,
        )
        for one in found
    ]


def footnotes(found: list[Verdict]) -> list[str]:
    """Why claims are judged on another experiment than the paper's, each reason once."""
    reasons: dict[str, list[str]] = {}
    for one in found:
        for reason in one.differs:
            reasons.setdefault(reason, []).append(one.claim)
    if not reasons:
        return []
    named = (
        reason if len(claims) == len(found) else f"{reason} ({', '.join(claims)})"
        for reason, claims in reasons.items()
    )
    return [
        f"Claims are judged here on another experiment than the paper's, whose difference is for "
        f"orientation: {'; '.join(named)}."
    ]


def _printed(one: Verdict) -> str:
    if not math.isnan(one.orientation):
        return f"orientation: {one.orientation:+.1f}"
    return "" if math.isnan(one.printed) else f"{one.printed:+.1f}"


def difference(
    pairs: pd.DataFrame, right: str, level: float = LEVEL, margin: float | None = None
) -> Difference:
    """Of `pairs`: columns `seed`, the other axes, and `difference` (NaN where a run of either method is
    missing).

    margin: of "~", whose bounds are there and not at 0.
    """
    by_seed = pairs.groupby("seed")["difference"].agg(lambda values: values.mean(skipna=False))
    whole = by_seed.dropna()
    mean, shown = float(whole.mean()), _by_other_axes(pairs[pairs["seed"].isin(whole.index)])
    half = _half(whole, level)
    over_pairs = _half(pd.Series(shown), level) if len(whole) == 1 else math.nan
    interval, of_pairs = (mean - half, mean + half), (mean - over_pairs, mean + over_pairs)
    deviation = float(whole.std(ddof=1)) if len(whole) > 1 else math.nan
    distance = abs(mean) if margin is None else abs(margin - abs(mean))
    power = detectable(deviation, len(whole), level), needed(distance, deviation, level)
    return Difference(right, mean, *interval, len(whole), len(by_seed), shown, *of_pairs, *power)


def _half(values: pd.Series[float], level: float) -> float:
    """Half of Student's interval for the mean of `values`; NaN below two."""
    if len(values) < 2:
        return math.nan
    from scipy.stats import t

    return float(t.ppf(1 - level / 2, len(values) - 1) * values.sem())


def _by_other_axes(pairs: pd.DataFrame) -> dict[str, float]:
    axes = [column for column in pairs if column not in ("seed", "difference")]
    axes = [axis for axis in axes if pairs[axis].nunique(dropna=False) > 1] or axes
    found: dict[str, list[float]] = defaultdict(list)
    for pair in pairs.to_dict("records"):
        found[", ".join(str(pair[axis]) for axis in axes)].append(pair["difference"])
    return {name: fmean(values) for name, values in found.items()}


def _pairs(values: pd.DataFrame, axes: list[str], left: str, right: str, metric: str) -> pd.DataFrame:
    """One row per combination of `axes` at which both methods are planned."""
    ours, theirs = (values.loc[values["method"] == label, [*axes, metric]] for label in (left, right))
    both = ours.merge(theirs, on=axes)
    return both[axes].assign(difference=both[f"{metric}_x"] - both[f"{metric}_y"])


def _verdict(root: Path, collected: Collected, values: pd.DataFrame, name: str, claim: Claim) -> Verdict:
    """Judge one claim on the selected rounds of the runs that it speaks of."""
    where = f"experiments/{collected.experiment.name}.yaml: claims.{name}"
    row = paper_claim(Workspace(root), name, where)
    relation, (left, *right) = row["relation"], compared(row, collected.experiment, claim, where)
    axes = [*dict.fromkeys([*collected.keys[1:], "seed"])]
    values = values.assign(seed=values.get("seed", 0))  # without that axis all runs are of one seed
    for axis, value in claim.where.items():
        if axis not in collected.keys[1:]:
            raise unknown(f"{where}.where", "axis", axis, collected.keys[1:])
        values = values[values[axis] == value]
    pairs = [(_pairs(values, axes, left, each, claim.metric), each) for each in right]
    bound = claim.margin if relation == "~" else None
    shown = [difference(*pair, margin=bound) for pair in pairs]
    together = [difference(*pair, level=LEVEL / len(pairs)) for pair in pairs]
    differs = tuple(changes(root, collected.experiment, row, claim, [left, *right]))
    printed = _number(row["published_left"]) - _number(row["published_right"])
    several = f"{'the best' if relation == '~' else 'each'} of {len(right)}"
    return Verdict(
        name,
        f"{left} {relation} {several if len(right) > 1 else right[0]}, {claim.metric}",
        row["text"],
        math.nan if differs else printed,
        printed if differs else math.nan,
        differs,
        shown,
        _judged(relation, shown, together, claim.margin),
    )


def _told(one: Difference, verdict: str) -> str:
    """A difference in words: mean, interval, seeds, and what so many seeds can see."""
    if not one.seeds:
        return f"{one.right}: no seed with all its runs"
    left_out = f" of {one.planned}: the others lack a run" if one.seeds < one.planned else ""
    if one.seeds == 1:
        parts = f" ({_listed(one.pairs)})" if any(one.pairs) else ""
        over = (
            f" [{one.pairs_low:+.1f}, {one.pairs_high:+.1f}] over these {len(one.pairs)}"
            if len(one.pairs) > 1
            else ""
        )
        return f"{one.right} {one.mean:+.1f}{parts}{over}, 1 seed{left_out}; no interval over seeds"
    seeds = "more than 1000" if math.isinf(one.needed) else f"{one.needed:.0f}"
    power = f"; they see {one.detectable:.1f}, ours needs {seeds}" if verdict == "undecided" else ""
    return (
        f"{one.right} {one.mean:+.1f} [{one.low:+.1f}, {one.high:+.1f}], {one.seeds} seeds{left_out}{power}"
    )


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)


def _judged(
    relation: str, shown: list[Difference], together: list[Difference], margin: float
) -> Literal["confirmed", "refuted", "undecided"]:
    """The verdict of a relation: intervals alone confirm, those at the joint level refute."""
    if relation == "~":
        confirmed = all(one.low > -margin for one in shown) and any(one.high < margin for one in shown)
        refuted = any(one.high < -margin for one in together) or all(one.low > margin for one in together)
    else:
        sign = SIGN[relation]
        confirmed = all(min(sign * one.low, sign * one.high) > 0 for one in shown)
        refuted = any(max(sign * one.low, sign * one.high) < 0 for one in together)
    return "confirmed" if confirmed else "refuted" if refuted else "undecided"


def _number(printed: str) -> float:
    try:
        return float(printed)
    except ValueError:  # a few are words
        return math.nan
