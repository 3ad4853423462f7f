"""Comparisons and sentences in words: claims.csv, lines of pages, and footnotes."""

import math
from collections.abc import Collection, Mapping, Sequence

import pandas as pd

from fedshift.analysis.claims.judge import Difference, Verdict
from fedshift.analysis.verdicts import OUTCOMES
from fedshift.storage.workspace import Workspace

RULE = (
    "Comparisons: differences in points, left minus right, between runs at the same target, seed and other "
    "axes, averaged within each seed, with a 95% interval over seeds. *As published*: the interval lies on "
    "the side of 0 (of >= and ~: of the margin) on which the paper has it, *against*: on the other, "
    "*open*: neither. A seed with a missing run is left out, one seed has no interval. By the paper's "
    "numbers: whether these are on the claimed side, without a test. The rule, with its error rates: "
    "docs/verdicts.md."
)


def table(verdicts: Sequence[Verdict]) -> pd.DataFrame:
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
            "verdict": verdict.verdict,
            "differs": "; ".join(verdict.differs),
            "words": in_words(difference),
            "text": verdict.text,
        }
        for verdict in verdicts
        for difference in verdict.differences
    ]
    return pd.DataFrame(rows)


def lines(verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per claim, for pages."""
    listed: list[tuple[str, ...]] = []
    for verdict in verdicts:
        printed, said = "", verdict.on_print
        if said.word != "not printed":
            printed = f"{'orientation: ' if verdict.differs else ''}{said.difference:+.1f}"
        ours = compared([difference.seeds for difference in verdict.differences])
        ours += "; ".join(dict.fromkeys(map(in_words, verdict.differences)))
        line = (verdict.claim, verdict.statement, printed, said.word, verdict.verdict, ours, verdict.text)
        listed.append(line)
    return listed


def compared(seeds: Collection[int]) -> str:
    """ "2 of 5 compared: ", the prefix of a list of differences; "" if all pairs have runs, or none.

    `seeds`: the number of seeds of each pair.
    """
    run = sum(map(bool, seeds))
    return f"{run} of {len(seeds)} compared: " if 0 < run < len(seeds) else ""


def footnotes(verdicts: Sequence[Verdict]) -> list[str]:
    """The rule for judging claims, and why experiments differ from the paper's, each reason once.

    Empty without claims.
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
    why = "Comparisons are judged here on another experiment than the paper's, shown for orientation"
    return [RULE, f"{why}: {'; '.join(named)}."]


def sentences(workspace: Workspace, outcomes: Mapping[str, str]) -> pd.DataFrame:
    """The rows of reference/claims_groups.csv that contain these comparisons (id -> outcome).

    Such a row is a paper's statement on many comparisons at once. Added columns:

    `said`: how many comparisons the paper makes the statement for, "all 6", "most of 4".
    A column for each of OUTCOMES: how many comparisons have it here.
    `others`: comparisons that are not tested here, or not on the paper's experiment.
    """
    groups = [claim.rpartition(".")[0] for claim in outcomes]
    counts = pd.crosstab(
        pd.Series(groups, name="claim", dtype=str), pd.Series([*outcomes.values()], dtype=str)
    )
    counts = counts.reindex(columns=[*OUTCOMES], fill_value=0)
    rows = pd.read_csv(workspace.reference / "claims_groups.csv").merge(counts, on="claim")
    of = rows["quantifier"].map(lambda word: "" if word == "all" else "of ")
    rows["said"] = rows["quantifier"] + " " + of + rows["comparisons"].astype(str)
    return rows.assign(others=rows["comparisons"] - rows[[*OUTCOMES]].sum(axis=1))


def sentence_lines(workspace: Workspace, verdicts: Sequence[Verdict]) -> list[tuple[str, ...]]:
    """One line of text per sentence of which an experiment tests a comparison, for pages."""
    if not verdicts:
        return []
    found = sentences(workspace, {verdict.claim: verdict.verdict for verdict in verdicts})
    shown = found[["claim", "said", *OUTCOMES, "others", "text"]].astype(str)
    return [*shown.itertuples(index=False, name=None)]


def in_words(difference: Difference) -> str:
    """A difference in words: mean, interval, seeds."""
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
        return f"{mean}{parts}, 1 seed{left_out}: no interval"
    if math.isnan(difference.low):
        return f"{mean}, {seeds} seeds{left_out}: the same in each, so no interval"
    return f"{mean} [{difference.low:+z.1f}, {difference.high:+z.1f}], {seeds} seeds{left_out}"


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)
