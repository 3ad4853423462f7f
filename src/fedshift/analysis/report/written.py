"""Written: the verdicts.csv and claims.csv of experiments, without what the reference no longer has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from fedshift.analysis.claims.groups import Member
from fedshift.analysis.claims.levels import UNKNOWN, Levels
from fedshift.analysis.claims.lines import word_of
from fedshift.common.files import read_rows
from fedshift.experiments.load import available
from fedshift.storage.workspace import Workspace

Row = dict[str, str]


@dataclass(frozen=True)
class Written:
    """numbers: experiment -> its rows of verdicts.csv; claims: comparison -> its rows of claims.csv, each
    with its `experiment`: where several test it, that of the paper's settings, then of most seeds.

    outdated: experiment -> the ids that its tables judge and the reference does not have, or has in other
        words, and all comparisons of a claims.csv without p values; none of their rows is above.
    """

    numbers: dict[str, list[Row]]
    claims: dict[str, list[Row]]
    outdated: dict[str, list[str]]


def written(workspace: Workspace, tables: Path, uids: Collection[str], texts: Mapping[str, str]) -> Written:
    """What lies below the folder `tables`.

    uids: of the printed numbers that the reference has; texts: comparison -> its text there.
    """
    found = Written({}, {}, {})
    for name in available(workspace):
        numbers, claims = (_rows(tables / name / file) for file in ("verdicts.csv", "claims.csv"))
        found.numbers[name] = [row for row in numbers if row["uid"] in uids]
        own: dict[str, list[Row]] = {}
        old = [row["uid"] for row in numbers if row["uid"] not in uids]
        for row in claims:
            claim = row["claim"]
            if texts.get(claim) == row["text"] and "p_refuted" in row:
                own.setdefault(claim, []).append({**row, "experiment": name})
            else:
                old.append(claim)
        for claim, rows in own.items():
            if claim not in found.claims or _rank(rows) > _rank(found.claims[claim]):
                found.claims[claim] = rows
        if old:
            found.outdated[name] = [*dict.fromkeys(old)]
    return found


def member(rows: list[Row]) -> Member:
    """A comparison by its rows: what counts for its sentence."""
    comparable, _ = _rank(rows)
    if not comparable:
        return Member("not comparable", UNKNOWN)
    word = word_of(rows[0]["verdict"], [int(row["seeds"]) for row in rows])
    return Member(word, Levels(*(float(rows[0][f"p_{name}"]) for name in Levels._fields)))


def _rank(rows: list[Row]) -> tuple[bool, int]:
    return not rows[0]["differs"], max(int(row["seeds"]) for row in rows)


def _rows(path: Path) -> list[Row]:
    """The rows of a file; none where it is not there."""
    return read_rows(path) if path.is_file() else []
