"""All claims (reference/claims.csv) before anything is trained: how each stands on the paper's own numbers,
and the experiments that test it, or the reason why none does.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pandas as pd

from fedshift.analysis.claims.comparison import Comparison, bounds, declared, generated, points
from fedshift.analysis.coverage import Number
from fedshift.analysis.published import Published, by_uid, scaled
from fedshift.common.errors import unknown
from fedshift.common.yaml_file import read
from fedshift.experiments.column import column
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import Sum, paper_claims, sides
from fedshift.storage.workspace import Workspace

# Why a claim has no place, by the words of reference/claims.yaml; of one whose numbers are printed, the
# reason is that of the number without a cell (fedshift.analysis.coverage).
NEEDS = {
    "outlines": "needs outlines of the objects, which no data set here has (StableFDG Fig. 5, 6)",
    "network": "is of a network's size alone, or a vector's length: of no runs",
}
UNTESTED = "no experiment here tests it"  # of a project without the experiments that do
EXACT = 1e-9  # a difference of no more is rounding of ours
OnPrint = Literal["holds", "fails", "within the spread", "within the rounding", "not printed"]
WORDS: tuple[OnPrint, ...] = ("holds", "fails", "within the spread", "within the rounding", "not printed")


class Printed(NamedTuple):
    """A claim on printed numbers, without a test: left less right, of several the best, in the unit of the
    metric that runs are judged by (NaN where one is not printed); whether that is on the claim's side of its
    bound; and the word.

    Numbers are those that fedshift.analysis.published takes the printed for; of several on the right
    a slip whose right value nobody knows is left out. "within the spread": nearer to the bound than the
    standard deviation of the difference of one run of each side, by the printed spreads; "within the
    rounding": nearer than half of the last digits of all numbers together; "holds" and "fails": farther.
    """

    difference: float
    holds: bool
    word: OnPrint


@dataclass(frozen=True)
class Joined:
    """A claim: its places (experiment and comparison, the first the one that counts), or the reason why there
    is none; and how it stands on the paper's own numbers.
    """

    claim: str
    paper: str
    item: str
    text: str
    on_print: Printed
    reason: str
    places: list[tuple[str, Comparison]]


def join(workspace: Workspace, numbers: Iterable[Number]) -> list[Joined]:
    """Every claim, in the order of the reference; numbers: all of fedshift.analysis.coverage.

    Raises FedshiftError for a reason in reference/claims.yaml that is none of NEEDS, and for a paper without
    a margin in reference/published.yaml.
    """
    known = {number.uid: number for number in numbers}
    experiments = {name: load(workspace, name) for name in available(workspace)}
    every: dict[str, list[tuple[str, Comparison]]] = {}
    for comparison in generated(workspace, experiments.values(), known):
        home, name = comparison.cells[0].experiment, comparison.claim["id"]
        if name not in experiments[home].claims:  # it declares it, below
            every.setdefault(name, []).append((home, comparison))
    for home, experiment in experiments.items():
        for comparison in declared(workspace, experiment):
            every.setdefault(comparison.claim["id"], []).append((home, comparison))
    needs: dict[str, str] = {}  # claim, or group of them -> why it has no place
    for word, claims in read(workspace.reference / "claims.yaml").get("needs", {}).items():
        if word not in NEEDS:
            raise unknown("reference/claims.yaml: needs", "reason", word, NEEDS)
        needs |= dict.fromkeys(claims, NEEDS[word])
    joined = []
    for name, row in paper_claims(workspace).items():
        places = every.get(name, [])
        said, reason = on_print(workspace, row, places[0][1] if places else None), ""
        if not places:
            uids = [uid for side in sides(workspace, row) for _, uid in side.terms]
            reasons = [needs.get(name), needs.get(name.rpartition(".")[0])]
            reasons += [known[uid].reason for uid in uids if uid in known]
            reason = next(filter(None, reasons), UNTESTED)
        joined.append(Joined(name, row["paper"], row["item"], row["text"], said, reason, places))
    return joined


def on_print(workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None) -> Printed:
    """How a row of reference/claims.csv stands on what the paper prints; comparison: how an experiment judges
    it, None where none does. Raises FedshiftError for a paper that has no margin.
    """
    known, relation = by_uid(workspace), row["relation"]

    def value(side: Sum[str]) -> tuple[float, float, float]:
        """Of a side the value, its variance over single runs (NaN: not printed), and by how much rounding may
        have moved it.
        """
        if not all(uid in known for _, uid in side.terms):
            return math.nan, math.nan, 0.0
        terms = [(factor, _scaled(workspace, known[uid], comparison)) for factor, uid in side.terms]
        return (
            side.constant + sum(factor * printed.judged for factor, printed in terms),
            sum((factor * printed.std) ** 2 for factor, printed in terms),
            sum(abs(factor) * printed.half for factor, printed in terms),
        )

    # What is no printed result, the list of claims has itself; a few of these are words.
    listed = (pd.to_numeric(row[f"published_{side}"], errors="coerce") for side in ("left", "right"))
    left, *others = [*map(value, sides(workspace, row))] or [(float(of), math.nan, 0.0) for of in listed]
    best = max if row["right"].startswith("max") else min
    right = best([of for of in others if not math.isnan(of[0])] or others, key=lambda of: of[0])
    difference = round(left[0] - right[0], 6)
    if math.isnan(difference):
        return Printed(math.nan, False, "not printed")
    limits = bounds(relation, comparison.margin if comparison else points(workspace, row))
    holds = {
        ">": difference > limits[0],
        ">=": difference >= limits[0],
        "<": difference < limits[0],
        "<=": difference <= limits[0],
        "~": limits[0] <= difference <= limits[-1],
    }[relation]
    word: OnPrint = "holds" if holds else "fails"
    distance = min(abs(difference - limit) for limit in limits)
    if distance <= math.sqrt(left[1] + right[1]):
        word = "within the spread"
    elif distance + EXACT < left[2] + right[2]:
        word = "within the rounding"
    return Printed(difference, holds, word)


def _scaled(workspace: Workspace, printed: Published, comparison: Comparison | None) -> Published:
    """A printed number in the unit of the comparison: where runs are compared by ratios, such a ratio."""
    if comparison is None or column((cell := comparison.cells[0]).metric).relative != "ratio":
        return printed
    experiment = load(workspace, cell.experiment)
    table = next(table for table in experiment.tables.values() if cell.metric in table.metrics)
    return scaled(workspace, experiment, table, dict(cell.where), cell.metric, printed)
