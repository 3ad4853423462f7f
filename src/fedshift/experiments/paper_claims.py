"""Claims of the papers (reference/claims.csv): their sides, and the rows of an experiment for these."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.files import read_rows
from fedshift.common.yaml_file import read
from fedshift.experiments.schema import Claim, Compared, Experiment
from fedshift.storage.workspace import Workspace

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")  # on a side of a claim
ITEM = re.compile(r"item (\w+):(.*)")
SETTING = re.compile(r"(.*) \[(.*)\]")
DOMAINS = (1, 2, 3)  # hFedF's numbers of domains per client
ITEMS = {"prose A.1.2": "5"}  # items that are not a table's name -> their table
# (paper, table, data set, row, column) -> setting -> row_uid
Index = dict[tuple[str, str, str, str, str], dict[str, str]]
Cell = TypeVar("Cell")


class Sum(NamedTuple, Generic[Cell]):
    """A side of a claim: cells with their factors, and a constant.

    A cell is a row_uid of reference/published.csv, or a row of an experiment.
    """

    terms: tuple[tuple[float, Cell], ...]
    constant: float = 0.0

    @property
    def cells(self) -> list[Cell]:
        """The cells alone."""
        return [cell for _, cell in self.terms]


@functools.cache
def paper_claims(workspace: Workspace) -> dict[str, dict[str, str]]:
    """The rows of reference/claims.csv by id, in its order."""
    return {row["id"]: row for row in read_rows(workspace.reference / "claims.csv")}


def paper_claim(workspace: Workspace, name: str, where: str) -> dict[str, str]:
    """A row of reference/claims.csv. Raises FedshiftError at `where` for an unknown id."""
    known = paper_claims(workspace)
    check_known(where, "claim of reference/claims.csv", name, known)
    return known[name]


def compared(
    row: dict[str, str], experiment: Experiment, claim: Claim, where: str
) -> tuple[list[Sum[Compared]], list[Sum[Compared]]]:
    """The sides of a claim as rows of an experiment: those on its left, then those and numbers on its right.

    Each cell has the metric, rounds and axis values of the claim. Raises FedshiftError if a name in the claim
    is not a row of the experiment. The same holds for a name in `rows` that is unknown to the claim or the
    experiment.

    row: the claim's row of reference/claims.csv
    """
    printed, declared = [row["left"], *names(row["right"])], claim.sides
    for name in declared:
        check_known(f"{where}.rows", "method of this claim", name, printed)
    sides: list[list[Sum[Compared]]] = []
    numbers: list[Sum[Compared]] = []
    for name in printed:
        if NUMBER.fullmatch(name) and name not in declared:
            numbers.append(Sum((), float(name)))
            continue
        chosen = declared.get(name) or [Compared(row=_row(name, experiment, where))]
        terms = (_terms(one, claim, experiment, f"{where}.rows.{name}") for one in chosen)
        sides.append([Sum((*each,)) for each in terms])
    left, *right = sides
    return left, [*(side for several in right for side in several), *numbers]


def _terms(
    side: Compared, claim: Claim, experiment: Experiment, where: str, factor: float = 1.0
) -> Iterator[tuple[float, Compared]]:
    """The terms of a side, completed with the settings of its claim."""
    for row in [] if side.experiment else [side.row, *side.range, *side.peak]:
        check_known(where, "row of this experiment", row, experiment.rows)
    complete = {
        "where": {**({} if side.experiment else claim.where), **side.where},
        "metric": side.metric or claim.metric,
        "rounds": side.rounds or claim.rounds,
        "experiment": side.experiment or experiment.name,
    }
    yield factor, side.model_copy(update={**complete, "plus": [], "minus": []})
    for sign, others in ((factor, side.plus), (-factor, side.minus)):
        for other in others:
            yield from _terms(other, claim, experiment, where, sign)


def names(right: str) -> list[str]:
    """The methods on the right of a claim: each one in "max(a|b)" and "min(a|b)"."""
    inner = re.fullmatch(r"(?:max|min)\((.*)\)", right)
    return inner[1].split("|") if inner else [right]


def _row(printed: str, experiment: Experiment, where: str) -> str:
    """The experiment's row for a method's name in the paper."""

    def plain(name: str) -> str:
        return "".join(filter(str.isalnum, name)).casefold()

    labels = {plain(label): label for label in experiment.rows}
    if plain(printed) not in labels:
        cure = f"Train it here, or say which row it is: rows: {{{printed!r}: <row>}}."
        raise FedshiftError(where, f"speaks of '{printed}', which is not a row of this experiment", cure)
    return labels[plain(printed)]


@functools.cache
def sides(workspace: Workspace) -> dict[str, list[Sum[str]]]:
    """The sides of each claim, left first, as sums of published numbers; empty if a number is not published.

    Names and columns are those of the table in the claim's `item`, except these forms:

    - "item 2b:FedAvg": a row of another table
    - "FedRD [E=5]": a row of another setting
    - "hFedF@d=1 ood": another column
    - "mean over d of id": mean of the columns d=1, d=2 and d=3
    - "rel id" of a row: how much hFedF's mean over d is above the row's (Table 5)
    - "+1.3": a number in the claim itself
    - sides that reference/claims.yaml defines
    """
    spelled = read(workspace.reference / "claims.yaml").get("sides", {})
    index: Index = {}
    for row in read_rows(workspace.reference / "published.csv"):
        key = (row["paper"], row["table"], row["dataset"], row["method"], row["column"])
        index.setdefault(key, {})[row["setting"]] = row["row_uid"]
    found = {}
    for claim, row in paper_claims(workspace).items():
        every: list[Sum[str] | None] = []
        for name in (row["left"], *names(row["right"])):
            own = spelled.get(claim, {}).get(name, {})
            terms = tuple((float(factor), uid) for uid, factor in own.items())
            every.append(Sum(terms) if terms else _side(index, row, name))
        printed = [side for side in every if side]
        found[claim] = printed if every[0] and every[0].terms and all(every) else []
    return found


def table_of(uid: str) -> tuple[str, str]:
    """Paper and table of a row_uid."""
    paper, table, *_ = uid.split("|")
    return paper, table.removeprefix("T")


def _side(index: Index, row: Mapping[str, str], name: str) -> Sum[str] | None:
    """A side of a claim as published numbers; None if one of them is not published."""
    if NUMBER.fullmatch(name):
        return Sum((), float(name))
    in_table = ITEM.fullmatch(name)
    table, rest = in_table.groups() if in_table else (ITEMS.get(row["item"], row["item"]), name)
    rest, _, column = rest.partition("@")
    of_setting = SETTING.fullmatch(rest)
    method, setting = of_setting.groups() if of_setting else (rest, row["setting"])
    terms = []
    for factor, (label, own) in _columns(method, column or row["metric"]):
        found = index.get((row["paper"], table, row["dataset"], label, own), {})
        terms.append((factor, next(iter(found.values())) if len(found) == 1 else found.get(setting, "")))
    return Sum(tuple(terms)) if all(uid for _, uid in terms) else None


def _columns(method: str, column: str) -> list[tuple[float, tuple[str, str]]]:
    """The terms whose sum is a column: factors with row and published column."""
    if mean := re.fullmatch(r"mean over d of (\w+)", column):
        return [(1 / len(DOMAINS), (method, f"d={d} {mean[1]}")) for d in DOMAINS]
    if gain := re.fullmatch(r"rel (\w+)", column):
        whole, less = (_columns(row, f"mean over d of {gain[1]}") for row in ("hFedF", method))
        return [*whole, *((-factor, of) for factor, of in less)]
    return [(1.0, (method, column))]
