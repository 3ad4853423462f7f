"""What an experiment's file names twice is there both times: said by `fedshift plan`, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.experiments.schema import Claim, Compared
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import done, fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "methods": {"fedavg": None, "fedprox": None, "hfedf": None},
    "axes": {"target": ["plain", "ink"], "seed": [0, 1]},
}


def plan(root: Path, **keys: Any) -> Any:
    (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **keys}, sort_keys=False))
    return fedshift(root, "plan", "tiny")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"only": {"fedprox": {"sed": [0]}}}, ("only.fedprox", "unknown axis 'sed'", "Did you mean 'seed'?")),
        ({"only": {"fedprox": {"seed": []}}}, ("only.fedprox.seed", "has no value")),
        ({"tables": {"t": {"columns": ["seed", "seed"]}}}, ("tables.t.columns", "one thing twice")),
        (
            {"tables": {"t": {"select": ["held_out"]}}},
            ("tables.t.select", "'held_out' has no", "hold out two"),
        ),
        ({"published": {"*": "x/{targt}"}}, ("published.*", "unknown field 'targt'", "'target'")),
        ({"published": {"*": "x/{target"}}, ("published.*", "brace")),
        (
            {"published": {"*": "pacs/cnn23/lodo/d1/{method}/default/{target}"}},
            (
                "published.*",
                "meets no printed number",
                "Its nearest key is 'pacs/cnn32/lodo/d1/fedavg/default/",
            ),
        ),
        ({"paper": "hFedG"}, ("paper", "unknown paper of reference/published.csv 'hFedG'", "'hFedF'")),
        ({"tables": {"t": {"printed": ["2"]}}}, ("tables.t.printed", "is of no paper", "`paper:`")),
        ({"claims": {"HF-C04.111": {"metric": "ood"}}}, ("claims.HF-C04.111", "unknown claim", "'HF-C04.1")),
        (
            {"claims": {"HF-C04.1": {"metric": "ood", "rows": {"FedAgv": "fedavg"}}}},
            ("claims.HF-C04.1.rows", "unknown method of this claim 'FedAgv'", "'FedAvg'"),
        ),
        (
            {"claims": {"HF-C04.1": {"metric": "ood"}}, "methods": {"hfedf": None}},
            ("claims.HF-C04.1", "speaks of 'FedAvg'", "rows: {'FedAvg': <row>}"),
        ),
        (
            {
                "claims": {
                    "HF-C04.1": {
                        "metric": "ood",
                        "rows": {"FedAvg": {"row": "fedavg", "range": ["fedprox"], "peak": ["fedprox"]}},
                    }
                }
            },
            ("claims.HF-C04.1.rows.FedAvg", "both `range` and `peak`"),
        ),
        ({"axes": {"target": [2020, 2021]}}, ("'data.target'", "(got 2020)", "Write it in quotes.")),
        ({"spec": {"seed": 5}}, ("spec.seed", "the axis 'seed' varies it", "Leave one of the two out.")),
        ({"methods": {}}, ("'methods'", "at least 1")),
        ({"spec": {"data": "pacs"}, "axes": {"seed": [0]}}, ("fedavg", "'data'", "pacs")),
    ],
)
def test_a_name_that_is_nowhere_is_refused(
    project: Path, keys: dict[str, Any], said: tuple[str, ...]
) -> None:
    refused(plan(project, **keys), "experiments/tiny.yaml", *said)


def test_names_that_are_there_pass(project: Path) -> None:
    keys = {
        "only": {"fedprox": {"seed": [1], "target": ["ink"]}},
        "tables": {"t": {"columns": ["target"], "select": ["last", "oracle"]}},
        "published": {
            "*": "pacs/cnn32/lodo/d1/{method}/default/{target}",  # of digits' domains none is printed, their average is
            "fedprox": "pacs/cnn32/lodo/d1/fedprox/default/mean",
        },
        "claims": {"HF-C04.1": {"metric": "ood", "where": {"target": "ink"}, "rows": {"FedAvg": "fedprox"}}},
        "expect": {"ood": 2, "exempt": ["fedprox"]},
    }
    done(plan(project, **keys))
    cells = expand(Workspace(project), load(Workspace(project), "tiny"))
    assert [cell.label for cell in cells].count("fedavg") == 4
    assert [cell.axes for cell in cells if cell.label == "fedprox"] == [{"target": "ink", "seed": 1}]


def test_a_claim_says_its_rows() -> None:
    experiment = load(Workspace(ROOT), "fdse/table1_office")
    said = paper_claim(Workspace(ROOT), "FDSE-C01.3", "here")
    claim = experiment.claims["FDSE-C01.3"]
    sides = compared(said, experiment, claim, "here")
    rows = [side.row for side in (*sides.left, *sides.right) if isinstance(side, Compared)]
    assert rows[0] == "fdse-released"  # whose number the paper's is
    assert set(rows) == set(experiment.methods) - {"fdse"}  # max over all the others
    assert compared({**said, "relation": "~"}, experiment, claim, "here") == sides
    (by_name,) = compared(said, experiment, Claim(metric="all"), "here").left
    assert isinstance(by_name, Compared) and by_name.row == "fdse"
