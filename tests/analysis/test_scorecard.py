"""The scorecard: what it makes of verdicts on numbers and claims; golden results have that of the archive."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.coverage import Number
from fedshift.analysis.scorecard import (
    CLAIMS,
    FILES,
    NO_RUN,
    NUMBERS,
    Line,
    Scorecard,
    markdown,
    scorecard,
    write,
)  # fmt: skip
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

Row = dict[str, Any]
LINK = "tables/fdse/table1/table.md"
SAID = {"said": "fdse > fedavg, ALL", "printed": 2.5, "words": "fedavg +2.0 [+1.0, +3.0], 5 seeds"}
TEXTS = pd.read_csv(ROOT / "reference" / "claims.csv").set_index("id")["text"]
PUBLISHED = pd.read_csv(ROOT / "reference" / "published.csv", low_memory=False)


def claim(name: str, verdict: str = "as published", seeds: int = 5, **others: Any) -> Row:
    """A row of claims.csv."""
    row = {"claim": name, "verdict": verdict, "seeds": seeds, "differs": "", "text": TEXTS[name]}
    return {**row, **SAID, **others}


def table(folder: Path, experiment: str, name: str, rows: list[Row]) -> None:
    path = folder / "tables" / experiment / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, index=False)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two experiments, a report of one; claims of three."""
    folder = tmp_path_factory.mktemp("results")
    uids = PUBLISHED.query("paper == 'FDSE' and table == '1'")["row_uid"]
    words = ["consistent", "different", "too few seeds", ""]
    rows = [
        {"uid": uid, "verdict": words[min(place, 3)], "difference": 0.5 - place, "rule": "points", "seeds": 5}
        for place, uid in enumerate(uids)
    ]
    table(folder, "fdse/table1", "table.csv", rows)
    none: list[Row] = [{"uid": "", "verdict": "", "rule": ""}]
    claims = {
        "fdse/table1_office": [claim("FDSE-C01.3"), claim("FDSE-C01.4", "not run", seeds=0)],
        "hfedf/claims_d1": [claim("HF-C01.1", "against", 9, differs="local.precision")],
        "hfedf/table2": [claim("HF-C01.1", "open", 3), claim("HF-C01.2", text="other words")],
    }
    for experiment, own in claims.items():
        table(folder, experiment, "table.csv", none)
        table(folder, experiment, "claims.csv", own)
    (folder / "tables" / "fdse" / "table1" / "table.md").touch()
    return folder


@pytest.fixture(scope="module")
def card(results: Path, printed: list[Number]) -> Scorecard:
    return scorecard(Workspace(ROOT), results / "tables", results, FILES, printed)


def of(lines: list[Line], item: str) -> Line:
    (line,) = (line for line in lines if line.of == item)
    return line


def test_claims_are_judged_on_the_papers_experiment(card: Scorecard) -> None:
    """Nine seeds of another experiment weigh less than three of the paper's."""
    line = of(card.lines[NUMBERS], "FDSE 1")
    assert line.counts == {"consistent": 1, "different": 1, "too few seeds": 1, NO_RUN: 75}
    assert line.experiments == {"fdse/table1": {"table": LINK}}
    assert of(card.lines[CLAIMS], "FDSE 1").counts["as published"] == 1
    assert card.lines[CLAIMS][-1].counts == {"as published": 1, "against": 0, "open": 1, NO_RUN: 436}
    assert card.outdated == {"hfedf/table2": ["HF-C01.2"]}


def test_what_has_runs_is_said_in_words(card: Scorecard) -> None:
    """In the order of the papers' numbers; what has no seeds is not there."""
    assert [(one.of, one.word, one.link) for one in card.findings] == [
        ("FDSE 1", "1 consistent, 1 different, 1 too few seeds", LINK),
        ("FDSE 1", "1 of 6 as published", ""),
        ("FDSE 1", "as published", ""),
        ("hFedF 2", "open", ""),
        ("hFedF 2 3", "0 of 4 as published", ""),
    ]
    numbers, sentence, comparison, *_ = card.findings
    assert numbers.what == "3 numbers"
    assert (
        numbers.text
        == "distance from the published number 0.5 points at the median, 1.5 at most, 1.0 rms; 5 seeds"
    )
    assert sentence.text.startswith("1 as published, 5 without a run; Sec 5.2")
    assert comparison.text == "published +2.5; fedavg +2.0 [+1.0, +3.0], 5 seeds"


def test_the_page_says_whether_anything_was_run(
    results: Path, card: Scorecard, printed: list[Number], tmp_path: Path
) -> None:
    assert card.opening.startswith("Re-run so far: 3 of ")
    assert "1 consistent, 1 different, 1 too few seeds." in card.opening
    nothing = scorecard(Workspace(ROOT), tmp_path, tmp_path, FILES, printed)
    assert nothing.opening.startswith("None of ") and nothing.findings == []
    for name in ("experiments", "reference"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(results / "tables", tmp_path / "results" / "tables")
    path = write(Workspace(tmp_path), printed)
    page, text = path.read_text(), path.with_suffix(".md").read_text()
    assert text == f"# Scorecard\n\n{markdown(card)}"
    assert f"| FDSE 1 | 78 | 1 | 1 | 1 | 75 | [table]({LINK}), `fedshift run fdse/table1` |" in text
    assert f'<a href="{LINK}">table</a>' in page and card.opening in page and "http" not in page
