"""Verdicts on claims as pages and files show them."""

import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.claims import words as claim_words
from fedshift.analysis.claims.judge import Verdict, verdicts
from fedshift.analysis.claims.words import RULE
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project
from ..judging import HFEDF, Values, collected, judged, less_by, told

NONE: Values = [None] * 6
LATER: Values = [None, *HFEDF[1:]]


def test_a_claim_whose_sides_are_alike_in_each_seed_asks_for_no_more_seeds(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(0, 0, 0)})
    said = "fedavg +0.0, 3 seeds: the same in each, so no interval"
    assert (one.verdict, told(one)) == ("open", said)


def test_a_claim_of_which_no_pair_has_runs_is_not_run(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": [None] * 6})
    (line,) = claim_words.lines([one])
    assert line[4:6] == ("not run", "fedavg: no seed with all its runs")
    assert claim_words.table([one])["verdict"].tolist() == ["not run"]


def test_a_claim_of_which_some_pairs_have_runs_says_how_many(project: Project) -> None:
    ood = {"hfedf": HFEDF, "fedavg": less_by(3, 2, 4)}
    missing = dict.fromkeys(("fedprox", "pfedhn", "fedsr", "fedgma"), [None] * 6)
    one = judged(project, "HF-C01.2", {**ood, **missing})
    assert told(one).startswith("1 of 5 compared: fedavg +3.0 [+0.5, +5.5], 3 seeds; ")
    assert {*claim_words.table([one])["verdict"]} == {"open"}


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
    assert claim_words.lines([one])[0][2] == ("orientation: +3.3" if reasons else "+3.3")
    rule, *lines = claim_words.footnotes([one])
    assert rule == RULE
    assert [reason in line for reason in reasons for line in lines] == [True] * len(reasons)


def test_pages_and_files_show_them(project: Project) -> None:
    ood = {"hfedf": HFEDF, "fedavg": less_by(3, 2, 4)}
    found = collected(project, ood, claims={"HF-C04.1": {"metric": "ood"}})
    stem = tables.write(project.workspace, found)
    written = pd.read_csv(stem.with_name("claims.csv"))
    assert written.loc[0, ["claim", "right", "verdict"]].tolist() == ["HF-C04.1", "fedavg", "as published"]
    assert written.loc[0, ["seeds", "planned"]].tolist() == [3, 3]
    line = "| HF-C04.1 | hfedf > fedavg, ood | orientation: +3.3 | holds | as published | fedavg +3.0 [+0.5, +5.5], 3 seeds |"
    text = stem.with_suffix(".md").read_text()
    assert line in text
    assert f"- {RULE}" in text


@pytest.mark.parametrize(
    ("hfedf", "fedavg", "said"),
    [
        (HFEDF, NONE, "fedavg: no seed with all its runs"),
        (NONE, HFEDF, "hfedf: no seed with all its runs"),
        (NONE, NONE, "hfedf and fedavg: no seed with all its runs"),
        ([HFEDF[0], None, None, HFEDF[3], None, None], LATER, "fedavg: no seed with all runs of both sides"),
    ],
)
def test_the_side_that_lacks_runs_is_named(
    project: Project, hfedf: Values, fedavg: Values, said: str
) -> None:
    methods = {"hfedf": hfedf, "fedavg": fedavg, "fedprox": HFEDF}
    assert told(judged(project, "HF-C04.1", methods)) == said


def test_a_sentence_is_the_list_of_its_comparisons() -> None:
    """HF-C01 says of most of 4: two are run, one is on another experiment than the paper's, one is not tested."""
    outcomes = {"HF-C01.1": "as published", "HF-C01.2": "open", "HF-C01.3": "no run", "HF-C09.1": "against"}
    first, second = claim_words.sentences(Workspace(REFERENCE.parent), outcomes)
    assert (first.claim, first.said, first.others) == ("HF-C01", "most of 4", 2)
    assert first.counts == {"as published": 1, "against": 0, "open": 1, "not run": 0}
    assert (second.claim, second.counts["against"], second.others) == ("HF-C09", 1, 17)
