"""Verdicts in words: as a table (claims.csv), as lines of pages, and as footnotes."""

from __future__ import annotations

import math
from collections.abc import Collection

import pandas as pd

from fedshift.analysis.claims import Verdict
from fedshift.analysis.claims.paired import Difference

RULE = (
    "Comparisons: differences in points between runs at the same target, seed and other axes, averaged "
    "within each seed (the domains are fixed, not sampled), with Student's 95% interval over seeds; a seed "
    "that lacks a run is left out. Confirmed where every interval lies on the claimed side of 0 (for >=, "
    "not worse by the margin; for ~, within it), refuted where one lies on the other (5% over all of a "
    "comparison's together), else undecided: one seed decides nothing, and its interval is over its pairs "
    "(the other axes), which says how much domains differ and judges nothing; nor do seeds that are all "
    "alike, except of what is counted. Rounds up to a value: a run that never gets there counts as one round "
    "more than the longest. Beside an undecided one: the true difference (for >= and ~, the distance from "
    "the margin) that is detected at power 0.8 with so many seeds, and how many would detect ours "
    "(noncentral t, our spread over seeds). On print, without a test: holds where the printed difference is "
    "on the claimed side of 0 (for >= and ~, of the margin), else fails; within the spread: nearer to that "
    "bound than the standard deviation of a difference of two single runs, by the printed spreads; within "
    "the rounding: nearer than the printed digits tell."
)
SENTENCES = (
    "Sentences: confirmed where as many of their comparisons are, together at 5%, as the paper's word needs, "
    "refuted where so many are, together at 5%, that it can no longer have them (corrected for how many they "
    "are: one refuted comparison may leave its sentence undecided). Not here: comparisons that other "
    "experiments test, or none. Of all experiments together: fedshift scorecard."
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
            "verdict": word_of(verdict.verdict, _seeds(verdict)),
            **{f"p_{word}": f"{level:.4g}" for word, level in verdict.levels._asdict().items()},
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
            word_of(verdict.verdict, _seeds(verdict)),
            compared(_seeds(verdict))
            + "; ".join(
                dict.fromkeys(_in_words(difference, verdict.verdict) for difference in verdict.differences)
            ),
            verdict.text,
        )
        for verdict in verdicts
    ]


def word_of(verdict: str, seeds: Collection[int]) -> str:
    """What pages call a verdict; seeds: how many have all runs of each pair."""
    return verdict if any(seeds) else "not run"


def compared(seeds: Collection[int]) -> str:
    """How many pairs have runs, to stand before their differences; "" where all have, or none; seeds: as of
    `word_of`.
    """
    run = sum(map(bool, seeds))
    return f"{run} of {len(seeds)} compared: " if 0 < run < len(seeds) else ""


def _seeds(verdict: Verdict) -> list[int]:
    return [difference.seeds for difference in verdict.differences]


def footnotes(verdicts: list[Verdict]) -> list[str]:
    """How claims are judged, where there are some; why on another experiment than the paper's, each reason
    once.
    """
    reasons: dict[str, list[str]] = {}
    for verdict in verdicts:
        for reason in verdict.differs:
            reasons.setdefault(reason, []).append(verdict.claim)
    if not reasons:
        return [RULE, SENTENCES] if verdicts else []
    named = (
        reason if len(claims) == len(verdicts) else f"{reason} ({', '.join(claims)})"
        for reason, claims in reasons.items()
    )
    return [
        RULE,
        SENTENCES,
        f"Comparisons are judged here on another experiment than the paper's, whose difference is for "
        f"orientation: {'; '.join(named)}.",
    ]


def _printed(verdict: Verdict) -> str:
    if not math.isnan(verdict.orientation):
        return f"orientation: {verdict.orientation:+.1f}"
    return "" if math.isnan(verdict.printed) else f"{verdict.printed:+.1f}"


def _in_words(difference: Difference, verdict: str) -> str:
    """A difference in words: mean, interval, seeds, and what so many seeds detect."""
    seeds, planned, pairs = difference.seeds, difference.planned, difference.pairs
    if not seeds:
        if not difference.lacking:
            return f"{difference.right}: no seed with all runs of both sides"
        return f"{' and '.join(difference.lacking)}: no seed with all its runs"
    mean = f"{difference.right} {difference.mean:+z.1f}"
    left_out = f" of {planned}: the others lack a run" if seeds < planned else ""
    late = difference.late
    left_out += f" ({late} {'run never gets' if late == 1 else 'runs never get'} there)" if late else ""
    if seeds == 1:
        parts = f" ({_listed(pairs)})" if any(pairs) else ""
        interval = f" [{difference.pairs_low:+.1f}, {difference.pairs_high:+.1f}] over these {len(pairs)}"
        over = interval if len(pairs) > 1 else ""
        return f"{mean}{parts}{over}, 1 seed{left_out}; no interval over seeds"
    if math.isnan(difference.low):
        return f"{mean}, {seeds} seeds{left_out}: the same in each, so no interval over seeds"
    over_seeds = f"{mean} [{difference.low:+z.1f}, {difference.high:+z.1f}], {seeds} seeds{left_out}"
    if verdict != "undecided":
        return over_seeds
    needed = "more than 1000" if math.isinf(difference.needed) else f"{difference.needed:.0f}"
    if math.isclose(difference.low, difference.high, abs_tol=1e-9):
        return f"{over_seeds}: the same in each"  # counted or declared
    detected = (
        f"{seeds} seeds detect {difference.detectable:.1f} or more; this difference would take {needed}"
    )
    return f"{over_seeds}; at power 0.8: {detected}"


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)
