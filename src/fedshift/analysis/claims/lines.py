"""Verdicts in words: as a table (claims.csv), as lines of pages, and as footnotes."""

from __future__ import annotations

import math

import pandas as pd

from fedshift.analysis.claims import Verdict
from fedshift.analysis.claims.paired import Difference

RULE = (
    "Claims: differences in points between runs at the same target, seed and other axes, averaged within "
    "each seed (the domains are fixed, not sampled), with Student's 95% interval over seeds; a seed that "
    "lacks a run is left out. Confirmed where every interval lies on the claimed side of 0, refuted where "
    "one lies on the other (5% over all of a claim's together), else undecided: one seed decides nothing, "
    "and its interval is over its pairs (the other axes), which says how much domains differ and judges "
    "nothing. Beside an undecided claim: the true difference (for ~, the distance from the margin) that "
    "so many seeds see with probability 0.8, and how many seeds would see ours (noncentral t, our spread "
    "over seeds). Groups: confirmed where as many of their comparisons are as the paper's word needs, "
    "refuted where so many no longer can be. On print: whether the paper's own numbers bear the claim out "
    "(within the spread: nearer to 0 than the standard deviation of a difference of single runs, by the "
    "printed spreads)."
)


def table(verdicts: list[Verdict]) -> pd.DataFrame:
    """One row per claim and method on its right side."""
    rows = [
        {
            "claim": verdict.claim,
            "said": verdict.statement,
            "printed": verdict.printed,
            "orientation": verdict.orientation,
            "on_print": verdict.on_print.word,
            "right": difference.right,
            "difference": difference.mean,
            "low": difference.low,
            "high": difference.high,
            "seeds": difference.seeds,
            "planned": difference.planned,
            "pairs": _listed(difference.pairs),
            "pairs_low": difference.pairs_low,
            "pairs_high": difference.pairs_high,
            "detectable": difference.detectable,
            "needed": difference.needed,
            "verdict": verdict.verdict,
            "differs": "; ".join(verdict.differs),
            "words": _in_words(difference, verdict.verdict),
            "text": verdict.text,
        }
        for verdict in verdicts
        for difference in verdict.differences
    ]
    return pd.DataFrame(rows)


def lines(verdicts: list[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per claim, for pages."""
    return [
        (
            verdict.claim,
            verdict.statement,
            _printed(verdict),
            verdict.on_print.word,
            verdict.verdict,
            "; ".join(_in_words(difference, verdict.verdict) for difference in verdict.differences),
            verdict.text,
        )
        for verdict in verdicts
    ]


def footnotes(verdicts: list[Verdict]) -> list[str]:
    """How claims are judged, where there are some; why on another experiment than the paper's, each reason
    once.
    """
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        for reason in verdict.differs:
            reasons.setdefault(reason, []).append(verdict.claim)
    if not reasons:
        return [RULE] if verdicts else []
    named = (
        reason if len(claims) == len(verdicts) else f"{reason} ({', '.join(claims)})"
        for reason, claims in reasons.items()
    )
    return [
        RULE,
        f"Claims are judged here on another experiment than the paper's, whose difference is for "
        f"orientation: {'; '.join(named)}.",
    ]


def _printed(verdict: Verdict) -> str:
    if not math.isnan(verdict.orientation):
        return f"orientation: {verdict.orientation:+.1f}"
    return "" if math.isnan(verdict.printed) else f"{verdict.printed:+.1f}"


def _in_words(difference: Difference, verdict: str) -> str:
    """A difference in words: mean, interval, seeds, and what so many seeds can see."""
    seeds, planned, pairs = difference.seeds, difference.planned, difference.pairs
    if not seeds:
        return f"{difference.right}: no seed with all its runs"
    mean = f"{difference.right} {difference.mean:+z.1f}"
    left_out = f" of {planned}: the others lack a run" if seeds < planned else ""
    if seeds == 1:
        parts = f" ({_listed(pairs)})" if any(pairs) else ""
        interval = f" [{difference.pairs_low:+.1f}, {difference.pairs_high:+.1f}] over these {len(pairs)}"
        over = interval if len(pairs) > 1 else ""
        return f"{mean}{parts}{over}, 1 seed{left_out}; no interval over seeds"
    over_seeds = f"{mean} [{difference.low:+z.1f}, {difference.high:+z.1f}], {seeds} seeds{left_out}"
    if verdict != "undecided":
        return over_seeds
    needed = "more than 1000" if math.isinf(difference.needed) else f"{difference.needed:.0f}"
    if math.isclose(difference.low, difference.high, abs_tol=1e-9):
        return f"{over_seeds}: the same in each"
    return (
        f"{over_seeds}; {seeds} see differences from {difference.detectable:.1f} on, this one takes {needed}"
    )


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)
