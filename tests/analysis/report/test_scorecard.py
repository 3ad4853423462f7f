"""The scorecard counts every printed number and every claim once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.claims.on_print import WORDS as ON_PRINT
from fedshift.analysis.report.counted import Line
from fedshift.analysis.report.findings import of_claims, of_numbers
from fedshift.analysis.report.scorecard import (
    CLAIMED,
    FILES,
    FOUND,
    OUTDATED,
    Scorecard,
    markdown,
    scorecard,
    write,
)
from fedshift.analysis.verdicts.coverage import Number
from fedshift.analysis.verdicts.judge import WORDS
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

Row = dict[str, Any]
SAID = {"said": "fdse > fedavg, ALL", "printed": 2.5, "words": "fedavg +2.0 [+1.0, +3.0], 5 seeds"}
TEXTS = pd.read_csv(ROOT / "reference" / "claims.csv").set_index("id")["text"]


def claim(name: str, verdict: str = "confirmed", seeds: int = 5, p: float = 0.001, **others: Any) -> Row:
    """A row of claims.csv; p: of its verdict."""
    levels = {f"p_{word}": p if word == verdict else 1 for word in ("confirmed", "refuted")}
    row = {"claim": name, "verdict": verdict, "seeds": seeds, "differs": "", "text": TEXTS[name]}
    return {**row, **levels, **SAID, **others}


def table(folder: Path, experiment: str, name: str, rows: list[Row]) -> None:
    path = folder / "tables" / experiment / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two experiments, a report of one; claims of three."""
    folder = tmp_path_factory.mktemp("results")
    uids = pd.read_csv(ROOT / "reference" / "published.csv", low_memory=False).query(
        "paper == 'FDSE' and table == '1'"
    )["row_uid"]
    words = ["inside", "outside", "undecided", "not run", "not comparable"]
    of = {"paper": "FDSE", "printed_table": "1", "rule": "points", "margin": 1.5, "seeds": 5}
    rows = [
        {"uid": uid, "verdict": words[min(place, 4)], "difference": 0.5 - place, **of}
        for place, uid in enumerate(uids)
    ]
    table(folder, "fdse/table1", "verdicts.csv", rows)
    table(folder, "fdse/table1_office", "claims.csv", [claim("FDSE-C01.3"), claim("FDSE-C01.4", seeds=0)])
    (folder / "tables" / "fdse" / "table1" / "table.md").touch()
    elsewhere = claim("HF-C01.1", "refuted", 9, differs="local.precision")
    table(folder, "hfedf/claims_d1", "claims.csv", [elsewhere])
    table(folder, "hfedf/table2", "claims.csv", [claim("HF-C01.1", "refuted", 3)])
    return folder


@pytest.fixture(scope="module")
def card(results: Path, printed: list[Number]) -> Scorecard:
    return scorecard(Workspace(ROOT), results / "tables", results, FILES, printed)


def of(lines: list[Line], paper: str, item: str) -> Line:
    (line,) = (line for line in lines if (line.paper, line.item) == (paper, item))
    return line


def test_every_number_and_claim_is_counted_once(card: Scorecard) -> None:
    every = (
        (card.numbers, 2079, WORDS),
        (card.claims, 438, CLAIMED),
        (card.sentences, 126, CLAIMED),
        (card.on_print, 438, ON_PRINT),
    )
    for lines, total, words in every:
        assert lines[-1].paper == "all" and lines[-1].total == total
        assert sum(line.total for line in lines[:-1]) == total
        for line in lines:
            assert [*line.counts] == [*words] and sum(line.counts.values()) == line.total
        for word in words:
            assert sum(line.counts[word] for line in lines[:-1]) == lines[-1].counts[word]


def test_items_stand_in_the_order_of_their_numbers(card: Scorecard) -> None:
    """They stood as in published.csv: hFedF 10 after 19, FDSE A5 after A9."""
    tables = [line.item for line in card.numbers if line.paper == "hFedF"]
    assert tables == [str(number) for number in range(2, 20)]
    items = [line.item for line in card.claims if line.paper == "FDSE"]
    assert items[:9] == ["1", "2", "3", "4", "A8", "A9", "Fig 3", "Fig 4", "Fig 5"]
    assert [*dict.fromkeys(line.paper for line in card.numbers)] == [
        "FDSE",
        "FedRD",
        "hFedF",
        "StableFDG",
        "all",
    ]


def test_verdicts_are_those_of_the_tables(card: Scorecard) -> None:
    line = of(card.numbers, "FDSE", "1")
    assert line.counts == {"inside": 1, "outside": 1, "undecided": 1, "not run": 1, "not comparable": 74}
    assert line.experiments == [("fdse/table1", {"table": "tables/fdse/table1/table.md"})]
    assert of(card.numbers, "FDSE", "3").counts["not run"] == 30
    assert of(card.numbers, "FDSE", "A5").counts["not run"] == 9
    assert of(card.numbers, "hFedF", "13").counts["not comparable"] == 3  # lost
    assert of(card.numbers, "FedRD", "1").counts["not comparable"] == 10  # a row that is another's copy
    assert of(card.numbers, "StableFDG", "6").counts["not comparable"] == 1  # the row that ratios are to


def test_claims_are_judged_on_the_papers_experiment(card: Scorecard) -> None:
    """Nine seeds of another experiment weigh less than three of the paper's; a claim without seeds is not run."""
    counts = of(card.claims, "FDSE", "1").counts
    assert (counts["confirmed"], counts["not run"], counts["not tested"]) == (1, 35, 0)
    assert sum(line.counts["refuted"] for line in card.claims[:-1] if line.paper == "hFedF") == 1
    assert card.claims[-1].counts["not comparable"] == 0


def test_what_has_runs_is_said_in_words(card: Scorecard) -> None:
    """In the order of the papers' numbers, a claim on the experiment that judges it; what has no seeds is not there."""
    said = [(one.of, one.claim, one.word, one.experiment, link) for one, link in card.findings]
    assert said == [
        ("FDSE 1", "", "1 inside, 1 outside, 1 undecided", "fdse/table1", "tables/fdse/table1/table.md"),
        ("FDSE 1", "FDSE-C01", "undecided", "", ""),
        ("FDSE 1", "FDSE-C01.3", "confirmed", "fdse/table1_office", ""),
        ("hFedF 2", "HF-C01.1", "refuted", "hfedf/table2", ""),
        ("hFedF 2 3", "HF-C01", "undecided", "", ""),
    ]
    number, _, claim, _, sentence = (one for one, _ in card.findings)
    assert number.what == "3 of 78 numbers compared"
    assert number.text == (
        "ours less the printed number: -1.5 to +0.5 points, -0.5 in the mean of 3 (margin 1.5); 5 seeds"
    )
    assert claim.text == "printed +2.5; fedavg +2.0 [+1.0, +3.0], 5 seeds"
    text = "Sec 4.2: hFedF beats most federated baselines (strict reading: all)"
    assert (sentence.what, sentence.text) == ("most: 3 of 4", f"1 refuted, 3 not run; {text}")


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, printed: list[Number]) -> Scorecard:
    """Sentences whose comparisons stand in several tables, and rows of another reference, or of older code."""
    folder = tmp_path_factory.mktemp("mixed")
    rows: dict[str, list[Row]] = {
        "hfedf/table2": [claim("HF-C08.1", p=0.04), claim("HF-C08.2", p=0.04), claim("HF-C10.1")],
        "hfedf/table3": [claim("HF-C08.3", p=0.04), claim("HF-C08.4", p=0.04), claim("HF-C10.2")],
        "hfedf/table4": [claim("HF-C08.5", p=0.04), claim("HF-C08.6", p=0.04)],
        "stablefdg/table1a": [claim("SF-C01.1", "refuted", p=0.02)],
        "stablefdg/table2a": [claim("SF-C02.1", "refuted", p=0.01)],
        "hfedf/claims_d1": [claim("HF-C04.1", differs="local.precision")],
        "hfedf/figure10": [{**claim("HF-C30.1"), "claim": "HF-C28.1"}],
        "hfedf/figure11": [{key: value for key, value in claim("HF-C31.1").items() if key[:2] != "p_"}],
        "hfedf/figure12": [claim("HF-C32.1", text="A.1.8: larger alpha, flatter curves")] * 2,
    }
    for experiment, own in rows.items():
        table(folder, experiment, "claims.csv", own)
    lost = {"uid": "gone", "verdict": "inside", "paper": "hFedF", "printed_table": "4", "rule": "exact"}
    table(folder, "hfedf/table4", "verdicts.csv", [lost])
    return scorecard(Workspace(ROOT), folder / "tables", folder, FILES, printed)


def test_a_sentence_is_judged_over_all_experiments(mixed: Scorecard) -> None:
    """Each of hFedF's three tables has two of the six comparisons with Central: none alone can confirm them."""
    words = {one.claim: (one.word, one.what) for one, _ in mixed.findings if "." not in one.claim}
    assert words == {
        "HF-C08": ("confirmed", "all 6"),
        "HF-C10": ("undecided", "all 3"),  # one is not run
        "SF-C01": ("undecided", "all 4"),  # refuted at 2%; 5% / 4 would do
        "SF-C02": ("refuted", "all 3"),
    }
    line = of(mixed.sentences, "hFedF", "2 3 4")
    assert (line.counts["confirmed"], line.counts["undecided"]) == (1, 1)
    assert {name for name, _ in line.experiments} >= {"hfedf/table2", "hfedf/table3", "hfedf/table4"}


def test_a_sentence_in_other_settings_is_not_judged(mixed: Scorecard) -> None:
    counts = mixed.sentences[-1].counts
    assert counts["not comparable"] == mixed.claims[-1].counts["not comparable"] == 1
    assert (counts["confirmed"], counts["refuted"], counts["undecided"]) == (1, 1, 2)


def test_what_the_reference_no_longer_has_is_named_and_not_counted(mixed: Scorecard) -> None:
    """It was a KeyError. A comparison in other words, or judged without p values, is another, too."""
    assert mixed.anew == [
        ("fedshift table hfedf/figure10", "HF-C28.1"),
        ("fedshift table hfedf/figure11", "HF-C31.1"),
        ("fedshift table hfedf/figure12", "HF-C32.1"),
        ("fedshift table hfedf/table4", "gone"),
    ]
    assert mixed.claims[-1].counts["confirmed"] == 8 and mixed.numbers[-1].counts["inside"] == 0
    assert f"{OUTDATED}\n\n- `fedshift table hfedf/figure10`: HF-C28.1\n- `" in markdown(mixed)


def test_what_no_seed_changes_is_not_said_to_have_seeds() -> None:
    row = {
        "paper": "FDSE",
        "printed_table": "A5",
        "verdict": "inside",
        "rule": "exact",
        "difference": "",
        "seeds": "1",
    }
    (found,) = of_numbers({"fdse/tableA5": [row]})
    assert (found.word, found.text) == ("1 inside", "declared or counted, so without a test")


def test_of_a_claim_about_several_it_is_said_how_many_were_compared() -> None:
    row = {
        "seeds": "3",
        "words": "fedavg +2.0",
        "printed": "",
        "said": "hfedf > each of 2",
        "experiment": "x",
    }
    none = {**row, "seeds": "0", "words": "fedprox: no seed with all its runs"}
    items = {"HF-C01.1": ("hFedF", "2")}
    (found,) = of_claims({"HF-C01.1": [row, none]}, {"HF-C01.1": "undecided"}, items)
    assert found.text == "1 of 2 compared: fedavg +2.0"


def test_the_opening_says_whether_anything_was_run(
    card: Scorecard, printed: list[Number], tmp_path: Path
) -> None:
    assert card.opening.startswith("Of 2,079 printed numbers 1 is inside, 1 is outside, 1 is undecided,")
    nothing = scorecard(Workspace(ROOT), tmp_path, tmp_path, FILES, printed)
    assert nothing.opening.startswith("No printed number has runs here yet. Of 2,079 printed numbers ")
    assert nothing.findings == [] and FOUND not in markdown(nothing)
    assert "Of the 126 sentences that claim them 2 are undecided, " in card.opening
    assert nothing.anew == card.anew == [] and OUTDATED not in markdown(nothing)
    assert "inside" not in nothing.opening and "Of 438 comparisons that the papers claim" in nothing.opening


def test_the_page_as_markdown_and_html(results: Path, tmp_path: Path, card: Scorecard) -> None:
    for name in ("experiments", "reference"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(results / "tables", tmp_path / "results" / "tables")
    path = write(Workspace(tmp_path))
    page, text = path.read_text(), path.with_suffix(".md").read_text()
    assert text == f"# Scorecard\n\n{markdown(card)}"
    row = "| FDSE | 1 | 78 | 1 | 1 | 1 | 1 | 74 | [table](tables/fdse/table1/table.md), `fedshift run fdse/table1` |"
    assert row in text and f"## {FOUND}" in text
    bullet = "- [FDSE 1](tables/fdse/table1/table.md), **1 inside, 1 outside, 1 undecided**, 3 of 78 numbers"
    assert bullet in text and "<code>fdse &gt; fedavg, ALL</code>: printed +2.5" in page
    assert '<a href="tables/fdse/table1/table.md">table</a>' in page and "fedshift run hfedf/table5" in page
    assert card.sentences[-1].total == 126 and "<h2>Sentences</h2>" in page and "## Sentences" in text
    assert card.opening in page and "http" not in page
