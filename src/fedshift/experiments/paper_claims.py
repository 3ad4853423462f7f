"""Claims of the papers (reference/claims.csv): what each compares, and which rows of an experiment it
names.
"""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import read_rows
from fedshift.common.yaml_file import read
from fedshift.experiments.schema import Claim, Compared, Experiment
from fedshift.storage.workspace import Workspace

NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")  # on a side of a claim


@functools.cache
def _read(path: Path) -> dict[str, dict[str, str]]:
    return {row["id"]: row for row in read_rows(path)}


def paper_claims(workspace: Workspace) -> dict[str, dict[str, str]]:
    """The rows of reference/claims.csv by id, in its order."""
    return _read(workspace.reference / "claims.csv")


def paper_claim(workspace: Workspace, name: str, where: str) -> dict[str, str]:
    """A row of reference/claims.csv. Raises FedshiftError at `where` for an unknown id."""
    known = paper_claims(workspace)
    if name not in known:
        raise unknown(where, "claim of reference/claims.csv", name, known)
    return known[name]


class Sides(NamedTuple):
    """The rows that a claim compares, each on its left with each on its right, which may be a number."""

    left: list[Compared]
    right: list[Compared | float]


def compared(row: dict[str, str], experiment: Experiment, claim: Claim, where: str) -> Sides:
    """The experiment's rows that a claim (a row of reference/claims.csv) compares, with metric, rounds and
    values of the claim.

    Raises FedshiftError where a printed name is no row of the experiment, or `rows` has a name that the
    claim or the experiment has not.
    """
    printed = [row["left"], *names(row["right"])]
    for name in claim.rows:
        if name not in printed:
            raise unknown(f"{where}.rows", "method of this claim", name, printed)
    left, *right = (
        [_complete(chosen, claim, experiment, f"{where}.rows.{name}") for chosen in _chosen(claim, name)]
        or [_complete(_row(name, experiment, where), claim, experiment, where)]
        for name in printed
        if name in claim.rows or not NUMBER.fullmatch(name)
    )
    rights = [side for several in right for side in several]
    return Sides(left, [*rights, *(float(name) for name in printed if NUMBER.fullmatch(name))])


def _chosen(claim: Claim, name: str) -> list[str | Compared]:
    rows = claim.rows.get(name, [])
    return rows if isinstance(rows, list) else [rows]


def _complete(chosen: str | Compared, claim: Claim, experiment: Experiment, where: str) -> Compared:
    """A side with what the claim says for all of them."""
    side = Compared(row=chosen) if isinstance(chosen, str) else chosen
    for row in [] if side.experiment else [side.row, *side.range, *side.peak]:
        if row not in experiment.rows:
            raise unknown(where, "row of this experiment", row, experiment.rows)
    return Compared(
        row=side.row,
        where={**({} if side.experiment else claim.where), **side.where},
        metric=side.metric or claim.metric,
        rounds=side.rounds or claim.rounds,
        experiment=side.experiment or experiment.name,
        range=side.range,
        peak=side.peak,
        plus=[_complete(other, claim, experiment, where) for other in side.plus],
        minus=[_complete(other, claim, experiment, where) for other in side.minus],
    )


def names(right: str) -> list[str]:
    """The methods on the right of a claim: of "max(a|b)" and "min(a|b)" each."""
    inner = re.fullmatch(r"(?:max|min)\((.*)\)", right)
    return inner[1].split("|") if inner else [right]


def _row(printed: str, experiment: Experiment, where: str) -> str:
    """The experiment's name of a method that the paper prints."""
    plain = {_plain(label): label for label in experiment.rows}
    if _plain(printed) not in plain:
        cure = f"Train it here, or say which row it is: rows: {{{printed!r}: <row>}}."
        raise FedshiftError(where, f"speaks of '{printed}', which is no row of this experiment", cure)
    return plain[_plain(printed)]


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).casefold()


ITEM = re.compile(r"item (\w+):(.*)")
SETTING = re.compile(r"(.*) \[(.*)\]")
DOMAINS = (1, 2, 3)  # hFedF's numbers of domains per client
ITEMS = {"prose A.1.2": "5"}  # what is no table's name -> the table that it speaks of
Index = dict[tuple[str, str, str, str, str], dict[str, str]]


class Side(NamedTuple):
    """A side of a claim as a sum: row_uids in reference/published.csv with their factors, and a constant."""

    name: str
    terms: tuple[tuple[float, str], ...]
    constant: float = 0.0


def sides(workspace: Workspace, row: Mapping[str, str]) -> list[Side]:
    """The left side of a claim, then each on its right, as sums of published numbers; none where the paper
    publishes no number for one of them.

    Names and columns are those of the table that the claim's `item` names, except "item 2b:FedAvg" (the row
    of another table), "FedRD [E=5]" (of another setting), "hFedF@d=1 ood" (another column), "mean over d of
    id" (of the columns d=1, d=2 and d=3), "rel id" of a row (by how much hFedF's mean over d is above the
    row's, Table 5), "+1.3" (a number in the claim itself), and what reference/claims.yaml spells out.
    """
    spelled = _spelled(workspace).get(row["id"], {})
    found = [
        Side(name, tuple((float(factor), uid) for uid, factor in spelled[name].items()))
        if name in spelled
        else _side(_index(workspace.reference / "published.csv"), row, name)
        for name in (row["left"], *names(row["right"]))
    ]
    return [side for side in found if side] if found[0] and found[0].terms and all(found) else []


def table_of(uid: str) -> tuple[str, str]:
    """Paper and table of a row_uid."""
    paper, table, *_ = uid.split("|")
    return paper, table.removeprefix("T")


@functools.cache
def _spelled(workspace: Workspace) -> dict[str, dict[str, dict[str, float]]]:
    return dict(read(workspace.reference / "claims.yaml").get("sides", {}))


@functools.cache
def _index(path: Path) -> Index:
    """(paper, table, data set, row, column) -> setting -> row_uid."""
    index: Index = {}
    for row in read_rows(path):
        key = (row["paper"], row["table"], row["dataset"], row["method"], row["column"])
        index.setdefault(key, {})[row["setting"]] = row["row_uid"]
    return index


def _side(index: Index, row: Mapping[str, str], name: str) -> Side | None:
    """A side of a claim, in the words of the reference, as printed numbers; None where one is not printed."""
    if NUMBER.fullmatch(name):
        return Side(name, (), float(name))
    in_table = ITEM.fullmatch(name)
    table, rest = in_table.groups() if in_table else (ITEMS.get(row["item"], row["item"]), name)
    rest, _, column = rest.partition("@")
    of_setting = SETTING.fullmatch(rest)
    method, setting = of_setting.groups() if of_setting else (rest, row["setting"])

    def uid(method: str, column: str) -> str:
        found = index.get((row["paper"], table, row["dataset"], method, column), {})
        return next(iter(found.values())) if len(found) == 1 else found.get(setting, "")

    terms = [(factor, uid(*of)) for factor, of in _columns(method, column or row["metric"])]
    return Side(name, tuple(terms)) if all(uid for _, uid in terms) else None


def _columns(method: str, column: str) -> list[tuple[float, tuple[str, str]]]:
    """What a column is the sum of: factors with row and printed column."""
    if mean := re.fullmatch(r"mean over d of (\w+)", column):
        return [(1 / len(DOMAINS), (method, f"d={d} {mean[1]}")) for d in DOMAINS]
    if gain := re.fullmatch(r"rel (\w+)", column):
        whole, less = (_columns(row, f"mean over d of {gain[1]}") for row in ("hFedF", method))
        return [*whole, *((-factor, of) for factor, of in less)]
    return [(1.0, (method, column))]
