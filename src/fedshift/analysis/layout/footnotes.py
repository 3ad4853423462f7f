"""Footnotes: what the marks in a table mean, and what must be known of the printed numbers in it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

FEWER, REMARK, CLIENTS = (
    "†",
    "‡",
    "¶",
    # beside a mean over fewer values than its neighbours'; beside a printed number that is not taken as it
    # stands; beside a value of fewer clients than take part
)
ORIENTATION = (
    "Orientation: the paper's number for another experiment than the row's, so no difference is shown: {}."
)


def footnotes(tables: Sequence[pd.DataFrame]) -> list[str]:
    """A sentence for each kind of remark in the tables of `fedshift.analysis.tables.cells`; each reason comes
    once.
    """
    cells = (
        pd.concat([table[["method", "fewer", "clients", "differs", "remark", "spread"]] for table in tables])
        if tables
        else None
    )
    if cells is None:
        return []
    reasons = cells.assign(differs=cells["differs"].str.split("; ")).explode("differs")
    lines = []
    if differs := _by_text(reasons, "differs"):
        lines.append(ORIENTATION.format(differs))
    if few := _by_text(cells, "fewer"):
        lines.append(f"{FEWER} A mean over fewer values than others in its column: {few}.")
    if few := _by_text(cells, "clients"):
        lines.append(
            f"{CLIENTS} Clients with a value: {few}. The others have no test image, or the metric is not "
            "defined on theirs."
        )
    if remarks := _by_text(cells, "remark"):
        lines.append(f"{REMARK} On the printed number: {remarks}.")
    if spread := _by_text(cells, "spread"):
        lines.append(f"Printed spread: {spread}.")
    return lines


def _by_text(cells: pd.DataFrame, column: str) -> str:
    """ "a (method, method); b": each text once, with its methods, unless these are all of the tables."""
    noted = cells[cells[column] != ""]
    groups = noted.groupby(column, sort=False, observed=True)["method"].unique()
    every = cells["method"].nunique()
    return "; ".join(
        str(text) if len(methods) == every else f"{text} ({', '.join(map(str, methods))})"
        for text, methods in groups.items()
    )
