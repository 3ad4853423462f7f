"""Verdicts on claims as pages and files show them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.claims import Verdict, verdicts
from fedshift.analysis.claims import lines as claim_lines
from fedshift.analysis.claims.lines import RULE, SENTENCES
from fedshift.analysis.verdicts.power import detectable
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project
from ..judging import HFEDF, collected, judged, less_by, told


def test_an_undecided_claim_says_what_its_seeds_see_and_how_many_it_needs(project: Project) -> None:
    """Seeds 0, 1, 2 above: mean 1, deviation 1. Three seeds see 2.9 deviations; 1 deviation needs 10 seeds."""
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(0, 1, 2)})
    (against,) = one.differences
    assert one.verdict == "undecided"
    assert against.detectable == pytest.approx(detectable(1, 3))
    assert against.needed == 10
    assert (
        told(one)
        == f"fedavg +1.0 [-1.5, +3.5], 3 seeds; at power 0.8: 3 seeds detect {detectable(1, 3):.1f} or more; this difference would take 10"
    )
    row = claim_lines.table([one]).iloc[0]
    assert (row["detectable"], row["needed"]) == (against.detectable, 10)


def test_a_claim_whose_sides_are_alike_in_each_seed_asks_for_no_more_seeds(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(0, 0, 0)})
    said = "fedavg +0.0, 3 seeds: the same in each, so no interval over seeds"
    assert (one.verdict, told(one)) == ("undecided", said)


def test_a_claim_of_which_no_pair_has_runs_is_not_run(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": [None] * 6})
    (line,) = claim_lines.lines([one])
    assert line[4:6] == ("not run", "fedavg: no seed with all its runs")
    assert claim_lines.table([one])["verdict"].tolist() == ["not run"]


def test_a_claim_of_which_some_pairs_have_runs_says_how_many(project: Project) -> None:
    ood = {"hfedf": HFEDF, "fedavg": less_by(3, 2, 4)}
    missing = dict.fromkeys(("fedprox", "pfedhn", "fedsr", "fedgma"), [None] * 6)
    one = judged(project, "HF-C01.2", {**ood, **missing})
    assert told(one).startswith("1 of 5 compared: fedavg +3.0 [+0.5, +5.5], 3 seeds; ")
    assert {*claim_lines.table([one])["verdict"]} == {"undecided"}


def of_hfedf(project: Project, **changed: Any) -> Verdict:
    """HF-C04.1 in an experiment that declares what the paper has, but for `changed`; two methods, seeds 0 and 1."""
    declared: dict[str, Any] = {
        "protocol": "hfedf", "spec": {"data": {"dataset": "pacs"}}, "claims": {"HF-C04.1": {"metric": "ood"}},
        "axes": {"target": ["art_painting", "cartoon", "photo", "sketch"], "seed": [0, 1]},
    }  # fmt: skip
    values = {"hfedf": [0.6] * 8, "fedavg": [0.57, 0.58] * 4}
    if "axes" in changed:
        values = {method: found[:2] for method, found in values.items()}
    (verdict,) = verdicts(Workspace(REFERENCE.parent), collected(project, values, **{**declared, **changed}))
    return verdict


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        ({}, ()),
        (
            {"spec": {"data": {"dataset": "pacs"}, "federation": {"rounds": 60}}},
            ("federation.rounds 60, paper 200",),
        ),
        (
            {"axes": {"target": ["photo"], "seed": [0, 1]}},
            ("data.target photo, paper art_painting, cartoon, photo, sketch",),
        ),
    ],
)
def test_a_printed_difference_of_another_experiment_is_for_orientation(
    project: Project, changed: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    one = of_hfedf(project, **changed)
    assert one.differs == reasons
    shown, apart = (one.orientation, one.printed) if reasons else (one.printed, one.orientation)
    assert shown == pytest.approx(54.6 - 51.3) and math.isnan(apart)
    assert claim_lines.lines([one])[0][2] == ("orientation: +3.3" if reasons else "+3.3")
    rule, sentences, *lines = claim_lines.footnotes([one])
    assert (rule, sentences) == (RULE, SENTENCES)
    assert [reason in line for reason in reasons for line in lines] == [True] * len(reasons)


def test_pages_and_files_show_them(project: Project) -> None:
    ood = {"hfedf": HFEDF, "fedavg": less_by(3, 2, 4)}
    found = collected(project, ood, claims={"HF-C04.1": {"metric": "ood"}})
    stem = tables.write(project.workspace, found)
    written = pd.read_csv(stem.with_name("claims.csv"))
    assert written.loc[0, ["claim", "right", "verdict"]].tolist() == ["HF-C04.1", "fedavg", "confirmed"]
    assert written.loc[0, ["seeds", "planned"]].tolist() == [3, 3]
    line = "| HF-C04.1 | hfedf > fedavg, ood | orientation: +3.3 | holds | confirmed | fedavg +3.0 [+0.5, +5.5], 3 seeds |"
    text = stem.with_suffix(".md").read_text()
    assert line in text
    assert f"- {RULE}" in text
