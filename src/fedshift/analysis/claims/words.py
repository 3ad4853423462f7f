"""Comparisons and sentences in words: claims.csv, lines of pages, and footnotes."""

import math
from collections.abc import Collection, Hashable, Mapping
from typing import Any

import pandas as pd

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


def table(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The columns of `judge.verdicts` that claims.csv has, with lists and differences in words."""
    return verdicts.loc[:, :"differs"].assign(
        pairs=verdicts["pairs"].map(_listed),
        differs=verdicts["differs"].map("; ".join),
        words=[in_words(gap) for gap in verdicts.to_dict("records")],
        text=verdicts["text"],
    )


def lines(verdicts: pd.DataFrame) -> list[tuple[str, ...]]:
    """One line of text per claim, for pages."""
    listed: list[tuple[str, ...]] = []
    for _, gaps in verdicts.groupby("claim", sort=False):
        one, printed = gaps.iloc[0], ""
        if one["on_print"] != "not printed":
            printed = (
                f"orientation: {one['orientation']:+.1f}" if one["differs"] else f"{one['printed']:+.1f}"
            )
        ours = compared([*gaps["seeds"]]) + "; ".join(dict.fromkeys(map(in_words, gaps.to_dict("records"))))
        listed.append(
            (one["claim"], one["said"], printed, one["on_print"], one["verdict"], ours, one["text"])
        )
    return listed


def compared(seeds: Collection[int]) -> str:
    """ "2 of 5 compared: ", the prefix of a list of differences; "" if all pairs have runs, or none.

    `seeds`: the number of seeds of each pair.
    """
    run = sum(map(bool, seeds))
    return f"{run} of {len(seeds)} compared: " if 0 < run < len(seeds) else ""


def footnotes(verdicts: pd.DataFrame) -> list[str]:
    """The rule for judging claims, and why experiments differ from the paper's, each reason once.

    Empty without claims.
    """
    claims = verdicts.drop_duplicates("claim")
    reasons = claims.explode("differs").dropna(subset="differs").groupby("differs", sort=False)["claim"]
    if not len(reasons):
        return [RULE] if len(claims) else []
    named = (
        str(reason) if len(of) == len(claims) else f"{reason} ({', '.join(of)})" for reason, of in reasons
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


def sentence_lines(workspace: Workspace, verdicts: pd.DataFrame) -> list[tuple[str, ...]]:
    """One line of text per sentence of which an experiment tests a comparison, for pages."""
    if verdicts.empty:
        return []
    found = sentences(workspace, dict(zip(verdicts["claim"], verdicts["verdict"], strict=True)))
    shown = found[["claim", "said", *OUTCOMES, "others", "text"]].astype(str)
    return [*shown.itertuples(index=False, name=None)]


def in_words(gap: Mapping[Hashable, Any]) -> str:
    """A row of `judge.verdicts` in words: mean, interval, seeds."""
    right, seeds, late = gap["right"], gap["seeds"], gap["late"]
    if not seeds:
        lacking = " and ".join(gap["lacking"])
        return (
            f"{lacking}: no seed with all its runs"
            if lacking
            else f"{right}: no seed with all runs of both sides"
        )
    mean = f"{right} {gap['difference']:+z.1f}"
    left_out = f" of {gap['planned']}: the others lack a run" if seeds < gap["planned"] else ""
    left_out += f" ({late} {'run never gets' if late == 1 else 'runs never get'} there)" if late else ""
    if seeds == 1:
        parts = f" ({_listed(gap['pairs'])})" if any(gap["pairs"]) else ""
        return f"{mean}{parts}, 1 seed{left_out}: no interval"
    if math.isnan(gap["low"]):
        return f"{mean}, {seeds} seeds{left_out}: the same in each, so no interval"
    return f"{mean} [{gap['low']:+z.1f}, {gap['high']:+z.1f}], {seeds} seeds{left_out}"


def _listed(pairs: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f}" for name, value in pairs.items() if name)
