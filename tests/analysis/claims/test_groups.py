"""Groups of claims: "all", "most" and "almost all" of their comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from fedshift.analysis import tables
from fedshift.analysis.claims.groups import Group, Member, needed, together
from fedshift.analysis.claims.levels import UNKNOWN, Levels
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
    assert needed(dict(zip(keys, map(str, row), strict=True))) == count


LEVELS = {"confirmed": Levels(0.001, 1), "refuted": Levels(1, 0.001), "undecided": Levels(0.4, 1)}


def of(name: str, *words: str | tuple[str, Levels]) -> Group:
    """A sentence of which these comparisons are tested."""
    pairs = [word if isinstance(word, tuple) else (word, LEVELS.get(word, UNKNOWN)) for word in words]
    tested = {f"{name}.{place}": Member(*pair) for place, pair in enumerate(pairs, 1)}
    (group,) = together(Workspace(REFERENCE.parent), tested)
    return group


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("HF-C01", ("confirmed",) * 3, ("confirmed", 3, 0, 0, 0, 1)),  # most of 4
        ("HF-C01", ("confirmed", "confirmed", "refuted"), ("undecided", 2, 1, 0, 0, 1)),
        ("HF-C01", ("refuted", "refuted", "undecided"), ("refuted", 0, 2, 1, 0, 1)),
        ("HF-C22", ("confirmed",) * 5, ("undecided", 5, 0, 0, 0, 1)),  # all 6
        ("HF-C22", ("confirmed",) * 4 + ("refuted",), ("refuted", 4, 1, 0, 0, 1)),
        ("FDSE-C02", ("confirmed",) * 14 + ("refuted",) * 4, ("confirmed", 14, 4, 0, 0, 0)),  # almost all
        ("FDSE-C02", ("confirmed",) * 13 + ("refuted",) * 5, ("refuted", 13, 5, 0, 0, 0)),  # 14 of 18
        ("HF-C22", ("not run",) * 2, ("not run", 0, 0, 0, 2, 4)),
        ("HF-C22", ("not run", "undecided"), ("undecided", 0, 0, 1, 1, 4)),
        ("HF-C22", ("not comparable", "not tested"), ("not comparable", 0, 0, 0, 0, 6)),
        ("HF-C22", ("not tested",) * 6, ("not tested", 0, 0, 0, 0, 6)),
    ],
)
def test_verdicts_on_groups(name: str, words: tuple[str, ...], expected: tuple[Any, ...]) -> None:
    group = of(name, *words)
    counts = (group.confirmed, group.refuted, group.undecided, group.not_run, group.untested)
    assert (group.verdict, *counts) == expected


@pytest.mark.parametrize(
    ("name", "single", "count", "verdict"),
    [
        ("HF-C25", Levels(1, 0.04), 1, "undecided"),  # one of all 18, refuted by itself
        ("HF-C25", Levels(1, 0.0028), 1, "undecided"),
        ("HF-C25", Levels(1, 0.0027), 1, "refuted"),  # 0.05 / 18
        ("HF-C25", Levels(0.04, 1), 18, "confirmed"),  # each of all, by itself
        ("SF-C04", Levels(0.04, 1), 11, "undecided"),  # 11 of 20
        ("SF-C04", Levels(0.0051, 1), 11, "undecided"),
        ("SF-C04", Levels(0.0049, 1), 11, "confirmed"),  # 0.05 / (20 - 11 + 1)
        ("SF-C04", Levels(1, 0.0046), 10, "undecided"),
        ("SF-C04", Levels(1, 0.0045), 10, "refuted"),  # 0.05 / (20 - 10 + 1)
        ("SF-C04", Levels(1, 0.0001), 9, "undecided"),
    ],
)
def test_a_group_is_corrected_for_its_comparisons(
    name: str, single: Levels, count: int, verdict: str
) -> None:
    word = "confirmed" if single.confirmed < 1 else "refuted"
    assert of(name, *[(word, single)] * count).verdict == verdict


def test_a_tie_is_seldom_refuted() -> None:
    """All 18 comparisons of no difference, of three seeds each: it was 36%, and is declared as 2.5%."""
    rng = np.random.default_rng(0)
    p = ttest_1samp(rng.normal(size=(1000, 18, 3)), 0, axis=2, alternative="less").pvalue
    words = [of("HF-C25", *(("undecided", Levels(1, min(1, 2 * one))) for one in row)).verdict for row in p]
    assert 5 <= words.count("refuted") <= 40


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
    line = (
        "| HF-C04 | all 1 | confirmed | 1 | 0 | 0 | 0 | 0 | Sec 4.2: +3.3 ood on PACS under extreme shift |"
    )
    assert line in stem.with_suffix(".md").read_text()
    written = pd.read_csv(stem.with_name("claims_groups.csv"))
    assert written.loc[0, ["claim", "verdict", "confirmed"]].tolist() == ["HF-C04", "confirmed", 1]


def test_a_comparison_without_runs_is_not_undecided(project: Project) -> None:
    """HF-C04.1 has no run of FedAvg; the list of comparisons says so, and so does that of sentences."""
    found = collected(project, {"hfedf": HFEDF, "fedavg": [None] * 6}, claims={"HF-C04.1": {"metric": "ood"}})
    text = tables.write(project.workspace, found).with_suffix(".md").read_text()
    assert "| HF-C04 | all 1 | not run | 0 | 0 | 0 | 1 | 0 |" in text
