"""Verdicts in words: as a table (claims.csv), as lines of pages, and as footnotes."""

from __future__ import annotations

import math

import pandas as pd

from fedshift.analysis.claims import Verdict
from fedshift.analysis.paired import Difference


def table(verdicts: list[Verdict]) -> pd.DataFrame:
    """One row per claim and method on its right side."""
    rows = [
        {
            "claim": verdict.claim,
            "said": verdict.statement,
            "printed": verdict.printed,
            "orientation": verdict.orientation,
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
            verdict.verdict,
            "; ".join(_in_words(difference, verdict.verdict) for difference in verdict.differences),
            verdict.text,
        )
        for verdict in verdicts
    ]


def footnotes(verdicts: list[Verdict]) -> list[str]:
    """Why claims are judged on another experiment than the paper's, each reason once."""
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        for reason in verdict.differs:
            reasons.setdefault(reason, []).append(verdict.claim)
    if not reasons:
        return []
    named = (
        reason if len(claims) == len(verdicts) else f"{reason} ({', '.join(claims)})"
        for reason, claims in reasons.items()
    )
    return [
        f"Claims are judged here on another experiment than the paper's, whose difference is for "
        f"orientation: {'; '.join(named)}."
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
    mean = f"{difference.right} {difference.mean:+.1f}"
    left_out = f" of {planned}: the others lack a run" if seeds < planned else ""
    if seeds == 1:
        parts = f" ({_listed(pairs)})" if any(pairs) else ""
        interval = f" [{difference.pairs_low:+.1f}, {difference.pairs_high:+.1f}] over these {len(pairs)}"
        over = interval if len(pairs) > 1 else ""
        return f"{mean}{parts}{over}, 1 seed{left_out}; no interval over seeds"
    needed = "more than 1000" if math.isinf(difference.needed) else f"{difference.needed:.0f}"
    power = f"; they see {difference.detectable:.1f}, ours needs {needed}" if verdict == "undecided" else ""
    return f"{mean} [{difference.low:+.1f}, {difference.high:+.1f}], {seeds} seeds{left_out}{power}"


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)
