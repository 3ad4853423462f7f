"""Claims of the papers (reference/claims.csv): what each compares, and which rows of an experiment it
names.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import read_rows
from fedshift.experiments.claim import Claim, Compared
from fedshift.experiments.schema import Experiment
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
