"""Verdicts on printed numbers in words: counted, number by number, and as a footnote."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from fedshift.analysis.verdicts.judge import WORDS

RULE = (
    "Verdicts: inside where ours is the printed number within the margin ({}), outside where it is not, each "
    "by t tests at 5%, corrected within the printed table, else undecided. Seen: the distance from the "
    "margin that these seeds see with probability 0.8; needed: the seeds that would see ours. Standard "
    "deviations are of samples (n - 1) there, the paper's too. All of it: verdicts.csv; the rule: "
    "docs/verdicts.md."
)
EXACT = (
    "Verdicts on what is counted or declared (parameters, bytes, settings, layers): inside where ours is the "
    "printed value to its last digit, or in the same words, else outside."
)
UNITS = {"points": "points", "percent": "percent of a printed ratio of times"}


def counts(judged: pd.DataFrame) -> list[tuple[str, ...]]:
    """Of each printed table: its name, how many numbers, how many of each of WORDS; judged: what
    fedshift.analysis.verdicts.judge makes.
    """
    return [
        (str(name), str(len(rows)), *(str((rows["verdict"] == word).sum()) for word in WORDS))
        for name, rows in judged.groupby("printed_table", sort=False)
    ]


def numbers(judged: pd.DataFrame) -> list[tuple[str, ...]]:
    """One line of text per printed number, for pages."""
    return [
        (
            row["method"],
            f"{row['printed_table']}: {', '.join(filter(None, [row['at'], row['metric']]))}",
            row["verdict"],
            _side(row["ours"], row["std"], str(row["seeds"]), row["rule"]),
            _side(row["printed"], row["printed_std"], str(row["printed_seeds"]), row["rule"]),
            _difference(row),
            _number(row["p"], "{:.3f}"),
            _number(row["detectable"], "{:.2f}"),
            "more than 1000" if math.isinf(row["needed"]) else _number(row["needed"], "{:.0f}"),
            row["printed_spread"],
            str(row["why"]),
        )
        for row in judged.to_dict("records")
    ]


def footnotes(judged: pd.DataFrame) -> list[str]:
    """The rule with its margins, where there are verdicts."""
    tested = judged[judged["rule"] != "exact"]
    pairs = tested[["margin", "rule"]].drop_duplicates().itertuples(index=False)
    margins = ", ".join(f"{margin:g} {UNITS[rule]}" for margin, rule in pairs)
    exact = [EXACT] if (judged["rule"] == "exact").any() else []
    return [*([RULE.format(margins)] if margins else []), *exact]


def _side(mean: float, deviation: float, seeds: str, rule: str) -> str:
    """ "82.60 ± 3.14 (5)": mean, standard deviation, seeds, as far as they are known."""
    if math.isnan(mean):
        return ""
    if rule == "exact":
        return f"{mean:.6g}"
    spread = "" if math.isnan(deviation) else f" ± {deviation:.2f}"
    return f"{mean:.2f}{spread}" + (f" ({seeds})" if seeds else "")


def _difference(row: dict[Any, Any]) -> str:
    interval = f" [{row['low']:+.2f}, {row['high']:+.2f}]" if not math.isnan(row["low"]) else ""
    return _number(row["difference"], "{:+.3g}" if row["rule"] == "exact" else "{:+.2f}") + interval


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)
