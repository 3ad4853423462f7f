"""A claim as sums of cells of experiments, ready to be judged; and its outcome on the paper's own numbers.

`join` has all claims, each with the experiments that test it, or the reason why there is none.

Most comparisons follow from reference/claims.csv: each published number has one cell
(fedshift.analysis.coverage). That cell may belong to another experiment than the claim's left side. The other
comparisons are declared under `claims` of an experiment.
"""

import functools
import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import pandas as pd

from fedshift.analysis import published
from fedshift.analysis.coverage import Number, Place, numbers
from fedshift.analysis.page import PLAIN
from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.yaml_file import read
from fedshift.experiments.axes import axes_of
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.experiments.paper_claims import Sum, compared, paper_claim, paper_claims, sides, table_of
from fedshift.experiments.protocols import Partial, protocol
from fedshift.experiments.schema import COST_MARGIN, SELECTED, Claim, Compared, Experiment
from fedshift.experiments.task import Cell
from fedshift.storage.workspace import Workspace

EXACT = 1e-9  # a smaller difference is our rounding
# Why a claim has no place, by the words of reference/claims.yaml. For a claim on published numbers, the
# reason is that of the number without a cell (fedshift.analysis.coverage).
NEEDS = {
    "outlines": "needs outlines of the objects, which no data set here has (StableFDG Fig. 5, 6)",
    "network": "is of a network's size alone, or a vector's length: of no runs",
}
UNTESTED = "no experiment here tests it"  # in a project without the experiments that test it
OnPrint = Literal["holds", "fails", "within the spread", "within the rounding", "not printed"]


@dataclass(frozen=True)
class Comparison:
    """A claim (a row of reference/claims.csv) as pairs of its left side and one right side.

    `margin`: that of "~", ">=" and "<=", in the unit of the metric.
    `differs`: returns the settings in which the runs differ from the paper's. It is called only when needed,
        as resolving specifications takes seconds.
    """

    claim: Mapping[str, str]
    pairs: list[tuple[Sum[Compared], Sum[Compared]]]
    margin: float
    differs: Callable[[], Iterable[str]]

    @property
    def relation(self) -> str:
        """ ">", ">=", "<", "<=", or "~"."""
        return self.claim["relation"]

    @property
    def one_is_enough(self) -> bool:
        """Whether the claim holds if it holds for one right side alone.

        True for "below the best of them", "above the least of them", and "as good as the best" ("~").
        """
        return self.claim["right"].startswith("max(" if self.relation in ("<", "<=", "~") else "min(")

    @property
    def exact(self) -> bool:
        """Whether every compared value is counted or declared, so that equal seeds are not a coincidence."""
        return all(published.judged_by(published.ids(cell.metric)[0]) == "exact" for cell in self.cells)

    @property
    def cells(self) -> list[Compared]:
        """The cells of all sides."""
        return [cell for pair in self.pairs for side in pair for cell in side.cells]


def bounds(relation: str, margin: float) -> list[tuple[int, float]]:
    """The bounds that a difference must be above (1) or below (-1).

    They are 0 for ">" and "<", the margin on the other side of 0 for ">=" and "<=", and both for "~".
    """
    above, below = (1, -margin), (-1, margin)
    return {">": [(1, 0.0)], "<": [(-1, 0.0)], ">=": [above], "<=": [below], "~": [above, below]}[relation]


def comparisons(workspace: Workspace, experiment: Experiment) -> list[Comparison]:
    """The claims that an experiment tests: those that follow from its tables, then those that it declares.

    A claim follows from the tables if its left side is one of their published values.

    Raises FedshiftError for a declared claim that is not in the list, or whose methods the experiment does
    not train, and for a paper without a margin in reference/published.yaml.
    """
    derived = generated(workspace, [experiment])
    own = [comparison for comparison in derived if comparison.claim["id"] not in experiment.claims]
    return [*own, *declared(workspace, experiment)]


def generated(workspace: Workspace, homes: Iterable[Experiment]) -> Iterator[Comparison]:
    """The claims whose published numbers all have a cell, in the order of the reference.

    The left side is in a table that one of the experiments `homes` reproduces.
    """
    mine = {of for home in homes for of in _printed(home)}
    every = sides(workspace) if mine else {}
    derived = {name: of for name, of in every.items() if of and table_of(of[0].cells[0]) in mine}
    if not derived:
        return
    tables = {table_of(uid) for of in derived.values() for side in of for uid in side.cells}
    names = [name for name in available(workspace) if tables & {*_printed(load(workspace, name))}]
    known = {number.uid: number.places[0] for number in numbers(workspace, names) if number.places}
    for name, printed in derived.items():
        uids = dict.fromkeys(uid for side in printed for uid in side.cells)
        if uids.keys() <= known.keys():
            row, differs = paper_claims(workspace)[name], partial(_differs, [known[uid] for uid in uids])
            left, *right = (_sum(workspace, side, known) for side in printed)
            bound = _margin(workspace, row, left, printed[1])
            yield Comparison(row, [(left, other) for other in right], bound, differs)


def _differs(places: Iterable[Place]) -> Iterator[str]:
    """The settings in which cells differ from the paper, except the unit: that of a ratio's own base is 1."""
    return (text for place in places for text in place.differs if text != published.UNIT)


def declared(workspace: Workspace, experiment: Experiment) -> Iterator[Comparison]:
    """The comparisons under `claims` of the file; the margin is the paper's where a claim declares none."""
    for name, claim in experiment.claims.items():
        where = f"{experiment.file}: claims.{name}"
        row = paper_claim(workspace, name, where)
        left, right = compared(row, experiment, claim, where)
        bound = points(workspace, row) if claim.margin is None else claim.margin
        first = [side.cells[0] for side in (*left, *right) if side.terms]
        differs = partial(_changes, workspace, experiment, row, claim, first)
        yield Comparison(row, [*itertools.product(left, right)], bound, differs)


def _changes(
    workspace: Workspace,
    experiment: Experiment,
    row: Mapping[str, str],
    claim: Claim,
    compared: Sequence[Compared],
) -> list[str]:
    """The settings in which a claim's runs differ from the paper's: "federation.rounds 60, paper 200".

    Changes of a method's own entry and of the axes are the claim's subject, and do not count. Neither do data
    sets, where a side names its own.
    """
    if (paper := protocol(workspace, experiment.protocol).paper) != row["paper"]:
        return [f"protocol {experiment.protocol} ({paper or 'ours'}), paper {row['paper']}"]
    labels = {experiment.adapt[of.row].run if of.row in experiment.adapt else of.row for of in compared}
    try:
        every = _pairs(workspace, experiment.model_dump_json())
    except FedshiftError as error:  # an axis or a row is not valid under the plain protocol
        return [f"protocol {experiment.protocol} without changes cannot run it: {error.what}"]
    pairs = [
        pair for pair in every if pair[0].label in labels and claim.where.items() <= pair[0].axes.items()
    ]
    reasons = {
        f"{key} {ours}, paper {theirs}": None
        for cell, plain in pairs
        for key, ours, theirs in published.compare(cell.spec, plain.spec, (*published.FREE, *claim.subject))
    }
    if not pairs or any("data.dataset" in of.where for of in compared):
        return [*reasons]
    used = sorted({cell.spec.data.dataset for cell, _ in pairs})
    known = published.data_sets(workspace).get(row["dataset"], used[0])
    if used != [known]:
        reasons[f"data.dataset {', '.join(used)}, paper {known}"] = None
    held_out = {cell.spec.data.held_out[0] for cell, _ in pairs if cell.spec.data.held_out}
    # The domain in the claim's setting ("photo; d=1"), otherwise all domains in the paper.
    wanted = published.targets(workspace, row["paper"], known)
    wanted = wanted.intersection(re.split(r"[;,]\s*", row["setting"])) or wanted
    if held_out and wanted and "target" not in claim.where and held_out != wanted:
        reasons[f"data.target {', '.join(sorted(held_out))}, paper {', '.join(sorted(wanted))}"] = None
    return [*reasons]


@functools.lru_cache(128)
def _pairs(workspace: Workspace, text: str) -> list[tuple[Cell, Cell]]:
    """The runs of an experiment (JSON), each with the same run without the file's changes of its protocol."""
    declared = Experiment.model_validate_json(text)
    bare: Partial = {"tables": {}, "figures": [], "claims": {}, "published": {}}
    bare |= {"adapt": {}, "evaluations": []}
    data = {key: value for key, value in declared.spec.get("data", {}).items() if key == "dataset"}
    plain: Partial = {"spec": {"data": data}, "preset": "default"}
    experiments = (declared.model_copy(update=bare), declared.model_copy(update={**bare, **plain}))
    return [*zip(*(expand(workspace, experiment, built=False) for experiment in experiments), strict=True)]


def points(workspace: Workspace, row: Mapping[str, str]) -> float:
    """The margin of a claim's paper on its data set."""
    known = published.data_sets(workspace)
    return published.margin(workspace, row["paper"]).of(known.get(row["dataset"], ""))


def _margin(workspace: Workspace, row: Mapping[str, str], left: Sum[Compared], printed: Sum[str]) -> float:
    """The margin: for costs a share of the published value, otherwise the paper's margin in points."""
    own = column(left.terms[0][1].metric)
    if own.kind != "cost":
        return points(workspace, row)
    if own.relative:
        return COST_MARGIN
    known = published.by_uid(workspace)
    return COST_MARGIN * abs(
        printed.constant + sum(factor * known[uid].value for factor, uid in printed.terms)
    )


def _printed(experiment: Experiment) -> list[tuple[str, str]]:
    """The paper's tables that an experiment reproduces."""
    return [(experiment.paper, name) for table in experiment.tables.values() for name in table.printed]


def _sum(workspace: Workspace, side: Sum[str], known: Mapping[str, Place]) -> Sum[Compared]:
    """The cells of published numbers. All cells of a row along one axis become a single one, their mean."""
    groups: dict[tuple[float, str, str, str], list[dict[str, Any]]] = {}
    for factor, uid in side.terms:
        place = known[uid]
        where = {axis: value for axis, value in place.values.items() if value != published.AVERAGE}
        groups.setdefault((factor, place.experiment, place.row, place.metric), []).append(where)
    terms: list[tuple[float, Compared]] = []
    for (factor, name, row, metric), group in groups.items():
        first = group[0]
        varied = [axis for axis in first if len({where[axis] for where in group}) > 1]
        if len(varied) == 1 and len(group) == _count(workspace, name, varied[0]):
            factor *= len(group)
            group = [{axis: value for axis, value in first.items() if axis not in varied}]
        for where in group:
            cell = Compared(experiment=name, row=row, metric=metric, where=where, rounds=SELECTED)
            terms.append((factor, cell))
    return Sum(tuple(terms), side.constant)


def _count(workspace: Workspace, name: str, axis: str) -> int:
    """The number of values on an axis of an experiment."""
    experiment = load(workspace, name)
    every = axes_of(experiment, protocol(workspace, experiment.protocol))
    return next(len(one.values) for one in every if one.name == axis)


def named(comparison: Comparison, home: str) -> tuple[list[tuple[str, str]], str]:
    """The names of both sides of each pair, and the claim in one line, "hfedf > each of 5, ood, d 1".

    Metric, values on axes and rounds that all cells share are only in the line. `home`: the experiment that
    tests the claim, which is left out of the names.
    """

    def places(cell: Compared) -> list[str]:
        return [
            str(of) if axis in PLAIN else f"{axis.rpartition('.')[2]} {of}" for axis, of in cell.where.items()
        ]

    cells = comparison.cells
    metrics, rounds = ({getattr(cell, name) for cell in cells} for name in ("metric", "rounds"))
    shared = [place for place in places(cells[0]) if all(place in places(cell) for cell in cells)]

    def name(cell: Compared) -> str:
        own = [place for place in places(cell) if place not in shared]
        own += [cell.metric] * (len(metrics) > 1) + [cell.rounds] * (len(rounds) > 1)
        own += [cell.experiment] * (cell.experiment != home)
        word = "range of " * bool(cell.range) + "peak of " * bool(cell.peak)
        row = word + ", ".join([cell.row, *cell.range, *cell.peak])
        return f"{row} ({', '.join(own)})" if own else row

    def side(of: Sum[Compared]) -> str:
        parts = [("- " if factor < 0 else "+ ") + name(cell) for factor, cell in of.terms]
        return " ".join(parts).removeprefix("+ ") or f"{of.constant:g}"

    names = [(side(left), side(right)) for left, right in comparison.pairs]
    several = "the best of" if comparison.one_is_enough else "each of"
    left, right = (
        next(iter(of)) if len(of) == 1 else f"{word} {len(of)}"
        for of, word in zip(map(set, zip(*names, strict=True)), ("each of", several), strict=True)
    )
    words = [*(metrics if len(metrics) == 1 else ()), *shared]
    words += [*(rounds - {SELECTED} if len(rounds) == 1 else ())]
    return names, ", ".join([f"{left} {comparison.relation} {right}", *words])


class Printed(NamedTuple):
    """A claim on the paper's own numbers, without a test.

    The numbers are those that fedshift.analysis.published takes as correct. Among several right sides, a
    misprint whose correct value is unknown is left out.

    `difference`: left minus right (the best of several), in the unit of the metric that runs are judged by.
        NaN if a number is not published.
    `holds`: whether it is on the claim's side of its bound.
    `word`: "holds" or "fails", unless the difference is close to the bound. "within the spread": closer than
        the standard deviation of the difference between single runs of both sides, by the published spreads.
        "within the rounding": closer than half of the last digits of all numbers together.
    """

    difference: float
    holds: bool
    word: OnPrint


def on_print(workspace: Workspace, row: Mapping[str, str], comparison: Comparison | None) -> Printed:
    """The outcome of a row of reference/claims.csv on the paper's own numbers.

    `comparison`: how an experiment judges the claim; None if none does.

    Raises FedshiftError for a paper without a margin.
    """
    known, relation = published.by_uid(workspace), row["relation"]

    def value(side: Sum[str]) -> tuple[float, float, float]:
        """A side's value, variance over single runs (NaN: not published) and largest rounding error."""
        if not all(uid in known for uid in side.cells):
            return math.nan, math.nan, 0.0
        terms = [(factor, _scaled(workspace, uid, comparison)) for factor, uid in side.terms]
        return (
            side.constant + sum(factor * printed.judged for factor, printed in terms),
            sum((factor * printed.std) ** 2 for factor, printed in terms),
            sum(abs(factor) * printed.half for factor, printed in terms),
        )

    # Values that are not published results are in the list of claims; a few of them are words.
    listed = (pd.to_numeric(row[f"published_{side}"], errors="coerce") for side in ("left", "right"))
    left, *others = [*map(value, sides(workspace)[row["id"]])] or [
        (float(of), math.nan, 0.0) for of in listed
    ]
    best = max if row["right"].startswith("max") else min
    right = best([of for of in others if not math.isnan(of[0])] or others, key=lambda of: of[0])
    difference = round(left[0] - right[0], 6)
    if math.isnan(difference):
        return Printed(math.nan, False, "not printed")
    margin = comparison.margin if comparison else points(workspace, row)
    beyond = [sign * (difference - bound) for sign, bound in bounds(relation, margin)]
    holds = min(beyond) > 0 or (min(beyond) == 0 and relation not in (">", "<"))
    word: OnPrint = "holds" if holds else "fails"
    distance = min(map(abs, beyond))
    if distance <= math.sqrt(left[1] + right[1]):
        word = "within the spread"
    elif distance + EXACT < left[2] + right[2]:
        word = "within the rounding"
    return Printed(difference, holds, word)


def _scaled(workspace: Workspace, uid: str, comparison: Comparison | None) -> published.Published:
    """A published number in the unit of the comparison: a ratio where runs are compared by ratios."""
    printed = published.by_uid(workspace)[uid]
    if comparison is None or column((cell := comparison.cells[0]).metric).relative != "ratio":
        return printed
    experiment = load(workspace, cell.experiment)
    against = next(table.against for table in experiment.tables.values() if cell.metric in table.metrics)
    base = published.find(workspace, experiment, against, cell.where, cell.metric)
    return published.ratio(printed, base)


@dataclass(frozen=True)
class Joined:
    """A claim with its outcome on the paper's own numbers.

    `places`: the experiments and comparisons that test it; the first one counts.
    `reason`: why there is none.
    """

    claim: str
    paper: str
    item: str
    text: str
    on_print: Printed
    reason: str
    places: list[tuple[str, Comparison]]


def join(workspace: Workspace, numbers: Iterable[Number]) -> list[Joined]:
    """Every claim, in the order of the reference.

    `numbers`: all numbers of fedshift.analysis.coverage.

    Raises FedshiftError for a reason in reference/claims.yaml that is not one of NEEDS, and for a paper
    without a margin in reference/published.yaml.
    """
    reasons = {number.uid: number.reason for number in numbers}  # also by claim, and by group of claims
    for word, claims in read(workspace.reference / "claims.yaml").get("needs", {}).items():
        if word not in NEEDS:
            raise unknown("reference/claims.yaml: needs", "reason", word, NEEDS)
        reasons |= dict.fromkeys(claims, NEEDS[word])
    experiments = {name: load(workspace, name) for name in available(workspace)}
    every: dict[str, list[tuple[str, Comparison]]] = defaultdict(list)
    for comparison in generated(workspace, experiments.values()):
        home, name = comparison.cells[0].experiment, comparison.claim["id"]
        if name not in experiments[home].claims:  # it declares it, below
            every[name].append((home, comparison))
    for home, experiment in experiments.items():
        for comparison in declared(workspace, experiment):
            every[comparison.claim["id"]].append((home, comparison))
    joined = []
    for name, row in paper_claims(workspace).items():
        places = every[name]
        said, reason = on_print(workspace, row, places[0][1] if places else None), ""
        if not places:
            uids = [uid for side in sides(workspace)[name] for uid in side.cells]
            known = map(reasons.get, (name, name.rpartition(".")[0], *uids))
            reason = next(filter(None, known), UNTESTED)
        joined.append(Joined(name, row["paper"], row["item"], row["text"], said, reason, places))
    return joined
