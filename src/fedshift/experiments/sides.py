"""The sides of a claim (a row of reference/claims.csv) as sums of printed numbers, rows of
reference/published.csv.

Names and columns are those of the printed table that the claim's `item` names, but for

- "item 2b:FedAvg": the row of another table; "FedRD [E=5]": of another setting; "hFedF@d=1 ood": another
  column;
- "mean over d of id": the mean of the columns d=1, d=2 and d=3;
- "rel id" of a row: by how much hFedF's mean over d is above the row's (Table 5);
- "+1.3": a number that the claim itself names;
- what reference/claims.yaml spells out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fedshift.common.files import read_rows
from fedshift.common.yaml_file import read
from fedshift.experiments.paper_claims import NUMBER, names
from fedshift.storage.workspace import Workspace

ITEM = re.compile(r"item (\w+):(.*)")
SETTING = re.compile(r"(.*) \[(.*)\]")
DOMAINS = (1, 2, 3)  # hFedF's numbers of domains per client
ITEMS = {"prose A.1.2": "5"}  # what is no table's name -> the table that it speaks of
Index = dict[tuple[str, str, str, str, str], dict[str, str]]


class Side(NamedTuple):
    """A sum: row_uid in reference/published.csv with its factor, and a constant."""

    name: str
    terms: tuple[tuple[float, str], ...]
    constant: float = 0.0


def sides(workspace: Workspace, row: Mapping[str, str]) -> list[Side]:
    """The left side of a claim, then each on its right; none where the paper prints no number for one of
    them.
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
