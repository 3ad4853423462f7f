"""Claims of the papers (reference/claims.csv): what each compares, and which rows of an experiment it
names.
"""

from __future__ import annotations

import csv
import functools
import re
from pathlib import Path

from fedshift.errors import FedshiftError, unknown
from fedshift.experiments.schema import Claim, Experiment
from fedshift.workspace import Workspace


@functools.cache
def _read(path: Path) -> dict[str, dict[str, str]]:
    with path.open(newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def paper_claim(workspace: Workspace, name: str, where: str) -> dict[str, str]:
    """A row of reference/claims.csv. Raises FedshiftError at `where` for an unknown id."""
    known = _read(workspace.reference / "claims.csv")
    if name not in known:
        raise unknown(where, "claim of reference/claims.csv", name, known)
    return known[name]


def compared(row: dict[str, str], experiment: Experiment, claim: Claim, where: str) -> list[str]:
    """The experiment's rows that a claim (a row of reference/claims.csv) compares: its left side, then those
    on its right.

    Raises FedshiftError where a printed name is no row of the experiment, or `rows` has a name that the
    claim or the experiment has not.
    """
    printed = [row["left"], *_names(row["right"])]
    for name, label in claim.rows.items():
        if name not in printed:
            raise unknown(f"{where}.rows", "method of this claim", name, printed)
        if label not in experiment.rows:
            raise unknown(f"{where}.rows.{name}", "row of this experiment", label, experiment.rows)
    return [claim.rows.get(name) or _row(name, experiment, where) for name in printed]


def _names(right: str) -> list[str]:
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
