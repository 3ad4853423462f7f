"""Judge: every printed number of the tables that an experiment is, with the verdict on its cell.

A number is "not comparable" where its cell's runs are declared otherwise than the paper's
(fedshift.analysis.printed.comparable) or nobody knows what was meant, "not run" where no seed has all runs of
the cell, and else what its rule says (fedshift.analysis.printed.names): accuracies and gains what
fedshift.analysis.verdicts.equivalence says among the numbers of its printed table, with a margin in points;
times, as ratios, the same with a margin in percent of the printed one; what is counted or declared is inside
where it is the printed value to its last digit, or in its words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.printed import names as printed_names
from fedshift.analysis.printed.published import Published, by_uid, scaled
from fedshift.analysis.printed.spec import margin, setting
from fedshift.analysis.quantities.uneven import AVERAGE
from fedshift.analysis.verdicts import equivalence
from fedshift.analysis.verdicts.coverage import Number, numbers
from fedshift.analysis.verdicts.equivalence import Summary, Verdict
from fedshift.common.files import canonical_json
from fedshift.experiments.load import protocol
from fedshift.storage.workspace import Workspace

WORDS = ("inside", "outside", "undecided", "not run", "not comparable")
COLUMNS = [
    "uid", "paper", "printed_table", "table", "method", "at", "metric", "verdict", "why", "rule",
    "ours", "std", "seeds", "planned", "printed", "printed_std", "printed_seeds", "printed_spread",
    "margin", "difference", "low", "high", "p", "detectable", "needed", "cell",
]  # fmt: skip
SPREADS = {
    "": "none printed: a constant",
    "std": "standard deviation over seeds",
    "ci95": "95% half-width, as a standard deviation over seeds",
    "unstated_in_brackets": "in brackets, not said what it is: a constant",
    "std_seeds_and_clients?": "over seeds and clients, as inferred: a constant",
}
ROUNDING = 1e-9  # of floating point
Cell = dict[str, Any]
UNKNOWN: Cell = {"mean": math.nan, "std": math.nan, "seeds": 0, "planned": 0, "differs": ""}  # not collected


def judge(workspace: Workspace, collected: Collected, tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """COLUMNS of each printed number that has a cell in the experiment, in the order of the reference.

    tables: the experiment's, as fedshift.analysis.tables.cells makes them. std, printed_std: of a sample
    (n - 1); margin, difference, low, high, detectable: percentage points; of `rule` percent, percent of the
    printed number; of exact, its unit; cell: its key (`keys_of`). Raises FedshiftError for a paper without
    a declared margin.
    """
    experiment = collected.experiment
    printed: dict[str, list[Number]] = {}
    if any(table.printed for table in experiment.tables.values()):
        for number in numbers(workspace, [experiment.name]):
            if number.places:
                printed.setdefault(number.table, []).append(number)
    cells = _cells(collected, tables)
    rows = [row for members in printed.values() for row in _judged(workspace, collected, members, cells)]
    return pd.DataFrame(rows, columns=COLUMNS)


def incomparable(workspace: Workspace, number: Number) -> str:
    """Why a printed number cannot be compared, whatever is run; "" where it can be."""
    if not number.places:
        return number.reason
    printed = by_uid(workspace)[number.uid]
    return "; ".join(number.places[0].differs) or (printed.remark if math.isnan(printed.judged) else "")


def keys_of(collected: Collected, name: str, table: pd.DataFrame) -> list[str]:
    """What `cell` of COLUMNS calls each cell of a table; "" of those in another round than the protocol
    reports.
    """
    rule, axes = collected.protocol.select, [axis for axis in collected.keys[1:] if axis in table]
    return [
        _key(name, cell["method"], cell["metric"], {axis: cell[axis] for axis in axes})
        if cell.get("select", rule) == rule
        else ""
        for cell in table.to_dict("records")
    ]


def _cells(collected: Collected, tables: Mapping[str, pd.DataFrame]) -> dict[str, Cell]:
    """The cells in the round that the protocol reports, by key."""
    cells = {}
    for name, table in tables.items():
        for key, cell in zip(keys_of(collected, name, table), table.to_dict("records"), strict=True):
            if key:
                cells[key] = {str(column): value for column, value in cell.items()}
    return cells


def _key(table: str, row: str, metric: str, values: Mapping[str, Any]) -> str:
    return canonical_json([table, row, metric, {axis: str(value) for axis, value in values.items()}])


def _judged(
    workspace: Workspace, collected: Collected, members: list[Number], cells: Mapping[str, Cell]
) -> list[Cell]:
    """The rows of one printed table."""
    margins, experiment = margin(workspace, members[0].paper), collected.experiment
    rows: list[Cell] = []
    tested: dict[str, list[tuple[Cell, Summary, Summary]]] = {"points": [], "percent": []}
    for number in members:
        place, printed = number.places[0], by_uid(workspace)[number.uid]
        values = {axis: "mean" if value == AVERAGE else value for axis, value in place.values.items()}
        table = experiment.tables[place.table]
        printed = scaled(workspace, experiment, table, values, place.metric, printed)
        cell = cells.get(_key(place.table, place.row, place.metric, place.values), UNKNOWN)
        seeds, rule = int(cell["seeds"]), printed_names.rule(printed.name)
        ours = Summary(cell["mean"], _sample(cell["std"], seeds, collected.protocol.ddof), seeds)
        theirs = _summary(workspace, printed)
        bound = {"points": margins.points, "percent": margins.percent}.get(rule, printed.half)
        row = _row(number, printed, ours, theirs)
        rows.append(row | {"planned": cell["planned"], "rule": rule, "margin": bound})
        if why := cell["differs"] or incomparable(workspace, number):
            rows[-1] |= {"verdict": "not comparable", "why": why}
        elif not seeds:
            rows[-1] |= {"verdict": "not run", "why": "no seed has all its runs"}
        elif rule == "exact":
            rows[-1] |= _exact(cell, printed)
        elif rule == "percent":
            tested[rule].append((rows[-1], _percent(ours, printed), Summary(100)))
        else:
            tested[rule].append((rows[-1], ours, theirs))
    for rule, points in (("points", margins.points), ("percent", margins.percent)):
        pairs = [(ours, theirs) for _, ours, theirs in tested[rule]]
        for (row, ours, _), verdict in zip(tested[rule], equivalence.judge(pairs, points), strict=True):
            row |= _columns(verdict, ours, points)
    return rows


def _percent(ours: Summary, printed: Published) -> Summary:
    """Ours in percent of the printed number."""
    return Summary(100 * ours.mean / printed.judged, 100 * ours.deviation / printed.judged, ours.n)


def _exact(cell: Cell, printed: Published) -> Cell:
    """On what is counted or declared: the same to the last printed digit, or in the same words."""
    if cell["text"]:
        same = cell["text"] == cell["published_text"]
        why = "" if same else f"ours {cell['text']}, paper {cell['published_text']}"
        return {"verdict": "inside" if same else "outside", "why": why}
    difference = cell["mean"] - printed.judged
    same = abs(difference) <= printed.half + ROUNDING * abs(printed.judged)
    beyond = f"{abs(difference) - printed.half:.3g} beyond the printed rounding"
    why = "" if same else beyond if printed.half else "another value"
    return {"verdict": "inside" if same else "outside", "why": why, "difference": difference}


def _row(number: Number, printed: Published, ours: Summary, theirs: Summary) -> Cell:
    """What both sides are."""
    place = number.places[0]
    return {
        "uid": number.uid,
        "paper": number.paper,
        "printed_table": number.table,
        "table": place.table,
        "method": place.row,
        "at": ", ".join(f"{axis} {value}" for axis, value in place.values.items()),
        "metric": place.metric,
        "ours": ours.mean,
        "std": ours.deviation,
        "seeds": ours.n,
        "printed": printed.judged,
        "printed_std": theirs.deviation if theirs.sampled else printed.std,
        "printed_seeds": printed.n,
        "printed_spread": SPREADS[printed.kind],
        "cell": _key(place.table, place.row, place.metric, place.values),
    }


def _columns(verdict: Verdict, ours: Summary, points: float) -> Cell:
    """A verdict's columns."""
    why = ""
    if verdict.word == "outside":
        why = f"{abs(verdict.difference) - points:.1f} beyond the margin"
    elif not ours.sampled:
        why = "one seed" if ours.n == 1 else "all seeds alike"
    named = ("difference", "low", "high", "p", "detectable", "needed")
    return {"verdict": verdict.word, "why": why, **{name: getattr(verdict, name) for name in named}}


def _summary(workspace: Workspace, printed: Published) -> Summary:
    """The printed number, a constant where a standard deviation over seeds, or how many, is not said."""
    if printed.kind not in ("std", "ci95") or not printed.n.isdigit():
        return Summary(printed.judged)
    known, n = setting(workspace, printed.row), int(printed.n)
    ddof = protocol(workspace, known.protocol).ddof if known and printed.kind == "std" else 1
    return Summary(printed.judged, _sample(printed.std, n, ddof), n)


def _sample(deviation: float, n: int, ddof: int) -> float:
    """The standard deviation of n values that was divided by n - ddof, divided by n - 1."""
    return deviation * math.sqrt((n - ddof) / (n - 1)) if n > 1 else math.nan
