"""Groups of claims: "all", "most" and "almost all" of their comparisons."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.claims import Verdict
from fedshift.analysis.claims import groups as claim_groups
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project
from ..judging import HFEDF, collected, less_by


@pytest.mark.parametrize(
    ("row", "count"),
    [
        (("all", 6, 6, 4), 6),
        (("most", 4, 4, 3), 3),
        (("most", 20, 20, 10), 11),
        (("almost all", 18, 18, 14), 14),
        (("almost all", 3, 0, 0), 2),
    ],
)
def test_what_a_quantifier_needs(row: tuple[Any, ...], count: int) -> None:
    keys = ("quantifier", "comparisons", "with_published_numbers", "hold_in_published_numbers")
    assert claim_groups.needed(dict(zip(keys, map(str, row), strict=True))) == count


@pytest.mark.parametrize(
    ("name", "verdicts", "expected"),
    [
        ("HF-C01", ("confirmed",) * 3, ("confirmed", 3, 0, 0, 1)),  # most of 4
        ("HF-C01", ("confirmed", "confirmed", "refuted"), ("undecided", 2, 1, 0, 1)),
        ("HF-C01", ("refuted", "refuted", "undecided"), ("refuted", 0, 2, 1, 1)),
        ("HF-C22", ("confirmed",) * 5, ("undecided", 5, 0, 0, 1)),  # all 6
        ("HF-C22", ("confirmed",) * 4 + ("refuted",), ("refuted", 4, 1, 0, 1)),
        (
            "FDSE-C02",
            ("confirmed",) * 14 + ("refuted",) * 4,
            ("confirmed", 14, 4, 0, 0),
        ),  # almost all: 14 of 18
        ("FDSE-C02", ("confirmed",) * 13 + ("refuted",) * 5, ("refuted", 13, 5, 0, 0)),
    ],
)
def test_verdicts_on_groups(name: str, verdicts: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    members = [
        Verdict(f"{name}.{place}", "", "", math.nan, math.nan, (), [], verdict)
        for place, verdict in enumerate(verdicts, 1)
    ]
    (group,) = claim_groups.groups(Workspace(REFERENCE.parent), members)
    counts = (group.confirmed, group.refuted, group.undecided, group.untested)
    assert (group.verdict, *counts) == expected


def test_groups_are_those_of_the_list_of_claims() -> None:
    """Every claim is of a group, and every group counts its claims."""
    names = pd.read_csv(REFERENCE / "claims.csv")["id"].str.rpartition(".")[0].value_counts()
    known = pd.read_csv(REFERENCE / "claims_groups.csv").set_index("claim")
    assert names.to_dict() == known["comparisons"].to_dict()
    assert set(known["quantifier"]) == {"all", "almost all", "most"}


def test_groups_stand_below_the_claims(project: Project) -> None:
    ood = {"hfedf": HFEDF, "fedavg": less_by(3, 2, 4)}
    found = collected(project, ood, claims={"HF-C04.1": {"metric": "ood"}})
    stem = tables.write(project.workspace, found)
    line = "| HF-C04 | all 1 | confirmed | 1 | 0 | 0 | 0 | Sec 4.2: +3.3 ood on PACS under extreme shift |"
    assert line in stem.with_suffix(".md").read_text()
    assert "<h2>Claims, together</h2>" in stem.with_suffix(".html").read_text()
    written = pd.read_csv(stem.with_name("claims_groups.csv"))
    assert written.loc[0, ["claim", "verdict", "confirmed"]].tolist() == ["HF-C04", "confirmed", 1]
